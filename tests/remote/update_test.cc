// SPDX-License-Identifier: Apache-2.0
// Updates add the steps that were shipped since a store was fetched.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "db/reader.h"
#include "db/store.h"
#include "remote/remote_store.h"
#include "tests/remote/row_trainer.h"
#include "tests/remote/updated_copy.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

class UpdateTest : public UpdatedCopy {};

TEST_F(UpdateTest, CreatesAMissingStore) {
  SaveAndPush(2);
  const FetchResult first = Update();
  EXPECT_THAT(first.steps, ElementsAre(2));
  ExpectSteps({2});
}

TEST_F(UpdateTest, DownloadsOnlyTheFilesOfTheNewStep) {
  MakeCopy(2);
  PushDelta(3);
  ASSERT_GT(DataBytes(3), 550'000);
  remote_.calls().clear();
  const FetchResult fetched = Update();
  EXPECT_THAT(fetched.steps, ElementsAre(3));
  EXPECT_EQ(fetched.data_bytes, DataBytes(3));
  EXPECT_EQ(fetched.data_files, 1);
  // One range of one object; one version, one catalog.
  EXPECT_EQ(remote_.calls()["get data"], 1);
  EXPECT_EQ(remote_.calls()["get versions"], 1);
  EXPECT_EQ(remote_.calls()["get catalog"], 1);
  EXPECT_EQ(remote_.calls()["list"], 1);
  ExpectSteps({2, 3});
}

TEST_F(UpdateTest, ChangesNothingWithoutNewSteps) {
  MakeCopy(2);
  const auto before = fs::last_write_time(copy() + "/OWNER");
  remote_.calls().clear();
  const FetchResult fetched = Update();
  EXPECT_THAT(fetched.steps, IsEmpty());
  EXPECT_EQ(remote_.calls()["get"], 1);
  EXPECT_EQ(fs::last_write_time(copy() + "/OWNER"), before);
}

// Skipped versions are downloaded for the chain.
TEST_F(UpdateTest, SkipsSteps) {
  MakeCopy(2);
  PushDeltas(3, 5);
  const FetchResult fetched = Update();
  EXPECT_THAT(fetched.steps, ElementsAre(5));
  EXPECT_EQ(fetched.data_bytes, DataBytes(3) + DataBytes(4) + DataBytes(5));
  ExpectSteps({2, 5});
  // The copy already has their data.
  const FetchResult third = Update({.step = 4});
  EXPECT_THAT(third.steps, ElementsAre(4));
  EXPECT_EQ(third.data_bytes, 0);
  const FetchResult all = Update({.all = true});
  EXPECT_THAT(all.steps, ElementsAre(1, 3));
  EXPECT_EQ(all.data_bytes, 0);
  ExpectSteps({1, 2, 3, 4, 5});
}

TEST_F(UpdateTest, AddsStepsThatAreStoredInline) {
  MakeCopy(2);
  ASSERT_OK(trainer_->SaveDelta(3, 20));
  ASSERT_OK(trainer_->SaveDelta(4, 20));
  Push();
  EXPECT_EQ(Update({.all = true}).data_bytes, 0);
  ExpectSteps({1, 2, 3, 4});
}

TEST_F(UpdateTest, AddsAFullStepWithoutTheOldChain) {
  MakeCopy(3);
  ASSERT_OK(trainer_->SaveFull(4));
  Push();
  EXPECT_EQ(Update().data_bytes, DataBytes(4));
  ExpectSteps({3, 4});
}

TEST_F(UpdateTest, ReplacesFoldedAndOverwrittenSteps) {
  MakeCopy(3);
  ASSERT_OK(store_->Fold(3).status());
  Push();
  EXPECT_THAT(Update().steps, ElementsAre(3));
  ExpectSteps({3});
  PushDelta(4);
  Update();
  ExpectSteps({3, 4});
  ASSERT_OK(trainer_->Restore(3));
  trainer_->set_salt(7);
  ASSERT_OK(trainer_->Overwrite(4));
  Push();
  EXPECT_THAT(Update().steps, ElementsAre(4));
  ExpectSteps({3, 4});
}

TEST_F(UpdateTest, KeepsLocalPins) {
  MakeCopy(3);
  {
    ASSERT_OK_AND_ASSIGN(const auto local, Store::Open(copy()));
    ASSERT_OK(local->Pin(3));
  }
  ASSERT_OK(store_->Fold(3).status());
  Push();
  Update();
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(copy()));
  ASSERT_OK_AND_ASSIGN(const StepRecord folded, reader->FindStep(3));
  EXPECT_TRUE(folded.folded);
  EXPECT_TRUE(folded.pinned);
  PushDeltas(4, 5);
  const FetchResult fetched = Update({.keep = 1});
  EXPECT_THAT(fetched.removed, IsEmpty());
  EXPECT_THAT(StepsOf(copy()), ElementsAre(3, 5));
  ASSERT_OK(trainer_->Restore(3));
  ASSERT_OK(trainer_->Overwrite(3));
  Push();
  EXPECT_THAT(TryUpdate(), FailedPrecondition("step 3", "unpin 3"));
}

// Metrics and flags may be shipped after the step.
TEST_F(UpdateTest, RevisesRecords) {
  SaveAndPush(3);
  Update({.all = true});
  {
    ASSERT_OK_AND_ASSIGN(const auto local, Store::Open(copy()));
    ASSERT_OK(local->Pin(2));
    ASSERT_OK(local->AddMetrics(2, {{"here", 1}, {"both", 1}}));
  }
  ASSERT_OK(store_->AddMetrics(2, {{"both", 2}, {"nan", std::nan("")}}));
  ASSERT_OK(store_->Quarantine(1));
  ASSERT_OK(store_->Pin(3));
  Push();
  const FetchResult fetched = Update();
  EXPECT_THAT(fetched.steps, IsEmpty());
  EXPECT_THAT(fetched.revised, ElementsAre(1, 2));
  EXPECT_EQ(fetched.data_bytes, 0);
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(copy()));
  EXPECT_TRUE(reader->FindStep(1)->quarantined);
  ASSERT_OK_AND_ASSIGN(const StepRecord second, reader->FindStep(2));
  EXPECT_TRUE(second.pinned);
  EXPECT_EQ(second.metrics.at("here"), 1);
  EXPECT_EQ(second.metrics.at("both"), 2);
  EXPECT_TRUE(second.metrics.contains("nan"));
  EXPECT_FALSE(reader->FindStep(3)->pinned);  // the copy's own
  const auto before = fs::last_write_time(copy() + "/OWNER");
  EXPECT_THAT(Update().revised, IsEmpty());
  EXPECT_EQ(fs::last_write_time(copy() + "/OWNER"), before);
}

// The copy cannot tell the mark from its own.
TEST_F(UpdateTest, KeepsAQuarantineThatIsUndoneElsewhere) {
  SaveAndPush(2);
  Update({.all = true});
  ASSERT_OK(store_->Quarantine(2));
  Push();
  EXPECT_THAT(Update().revised, ElementsAre(2));
  ASSERT_OK(store_->Unquarantine(2));
  Push();
  // Nothing but the catalog is downloaded.
  remote_.set_before([](absl::string_view call, absl::string_view key) {
    return call == "get" && absl::StartsWith(key, "versions/")
               ? absl::InternalError(key)
               : absl::OkStatus();
  });
  EXPECT_THAT(Update().revised, IsEmpty());
  remote_.set_before(nullptr);
  {
    ASSERT_OK_AND_ASSIGN(const auto local, Store::Open(copy()));
    EXPECT_TRUE(local->FindStep(2)->quarantined);
    ASSERT_OK(local->Unquarantine(2));
  }
  EXPECT_THAT(Update().revised, IsEmpty());
  EXPECT_FALSE(Reader::Open(copy()).value()->FindStep(2)->quarantined);
}

TEST_F(UpdateTest, KeepRemovesOlderStepsAndFreesTheirFiles) {
  SaveAndPush(1);
  const auto bytes = [&] {
    uint64_t sum = 0;
    for (const auto& entry : fs::directory_iterator(copy() + "/db")) {
      if (entry.path().extension() == ".sst") sum += entry.file_size();
    }
    return sum;
  };
  uint64_t most = 0;
  for (int64_t step = 2; step <= 21; ++step) {
    if (step % 5 == 0) {
      ASSERT_OK(trainer_->SaveFull(step));
    } else {
      ASSERT_OK(trainer_->SaveDelta(step));
    }
    Push();
    const FetchResult fetched = Update({.keep = 2});
    EXPECT_THAT(fetched.steps, ElementsAre(step));
    EXPECT_EQ(fetched.data_bytes,
              step == 2 ? DataBytes(1) + DataBytes(2) : DataBytes(step));
    if (step == 2) continue;
    ExpectSteps({step - 1, step});
    if (step == 3) continue;
    EXPECT_THAT(fetched.removed, ElementsAre(step - 2));
    most = std::max(most, bytes());
  }
  EXPECT_LT(most, 2 * DataBytes(20) + 8 * DataBytes(21));
  EXPECT_THAT(Update({.all = true, .keep = 2}).steps, IsEmpty());
  EXPECT_THAT(Update({.all = true, .keep = 4}).steps, ElementsAre(18, 19));
  ExpectSteps({18, 19, 20, 21});
}

TEST_F(UpdateTest, KeepCountsOnlyUsableSteps) {
  MakeCopy(2);
  PushDelta(3);
  ASSERT_OK(store_->Quarantine(3));
  Push();
  const FetchResult fetched = Update({.all = true, .keep = 1});
  EXPECT_THAT(fetched.steps, ElementsAre(3));
  EXPECT_THAT(fetched.removed, IsEmpty());
  ExpectSteps({2, 3});
  EXPECT_THAT(Update({.keep = 1}).removed, IsEmpty());
  ASSERT_OK(trainer_->Restore(2));
  ASSERT_OK(trainer_->SaveFull(4));
  Push();
  EXPECT_THAT(Update({.all = true, .keep = 2}).removed, IsEmpty());
  EXPECT_THAT(Update({.keep = 1}).removed, ElementsAre(2, 3));
  ExpectSteps({4});
}

// Readers of the copy see complete steps, and the changes between them.
TEST_F(UpdateTest, ReadersOfTheCopySeeNewSteps) {
  MakeCopy(2);
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(copy()));
  ASSERT_OK_AND_ASSIGN(const StepRecord held, reader->FindStep(2));
  ASSERT_OK_AND_ASSIGN(const auto opened, reader->OpenStep(2));
  PushDeltas(3, 6);
  Update({.keep = 1});
  ASSERT_OK(reader->Refresh());
  EXPECT_THAT(reader->Steps(), SizeIs(1));
  ASSERT_OK_AND_ASSIGN(const auto changes,
                       reader->OpenChanges(held.version, 6));
  EXPECT_TRUE(changes->forwards());
  EXPECT_OK(opened->Verify());  // leased
}

// A reader never sees an incomplete step, or an older one than before.
TEST_F(UpdateTest, AReaderRefreshesDuringUpdates) {
  MakeCopy(1);
  constexpr int64_t kLast = 12;
  std::atomic<bool> stopped = false;
  int64_t seen = 0;
  std::thread reading([&] {
    ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(copy()));
    while (!stopped || seen < kLast) {
      ASSERT_OK(reader->Refresh());
      ASSERT_OK_AND_ASSIGN(const StepRecord latest, reader->Latest());
      ASSERT_GE(latest.version.step, seen);
      const auto step = reader->OpenStep(latest.version.step);
      if (absl::IsNotFound(step.status())) continue;  // removed meanwhile
      ASSERT_OK(step);
      ASSERT_OK((*step)->Verify());
      seen = latest.version.step;
    }
  });
  for (int64_t step = 2; step <= kLast; ++step) {
    const bool full = step % 4 == 0;
    EXPECT_OK(full ? trainer_->SaveFull(step) : trainer_->SaveDelta(step));
    Push();
    EXPECT_THAT(Update({.keep = 1}).steps, ElementsAre(step));
  }
  stopped = true;
  reading.join();
  EXPECT_EQ(seen, kLast);
}

TEST_F(UpdateTest, ATrainerContinuesTheCopy) {
  MakeCopy(2);
  PushDeltas(3, 4);
  Update();
  ASSERT_OK_AND_ASSIGN(const StepRecord last, store_->FindStep(4));
  ASSERT_OK_AND_ASSIGN(const auto local, Store::Open(copy()));
  RowTrainer trainer(local.get());
  ASSERT_OK(trainer.Restore(4));
  ASSERT_OK(trainer.SaveDelta(5));
  ASSERT_OK_AND_ASSIGN(const StepRecord next, local->FindStep(5));
  EXPECT_GT(next.version.attempt, last.version.attempt);
  EXPECT_EQ(next.branches.size(), last.branches.size());
  ASSERT_OK_AND_ASSIGN(const PushResult pushed, PushStore(copy(), &remote_));
  EXPECT_THAT(pushed.shipped, ElementsAre(5));
  EXPECT_EQ(pushed.epoch, 3);
  ASSERT_OK_AND_ASSIGN(const VerifyRemoteResult verified,
                       VerifyRemote(&remote_, {.data = true}));
  EXPECT_THAT(verified.damage, IsEmpty());
}

// The trainer's disk was restored from an old copy.
TEST_F(UpdateTest, UpdatesAnOldCopyOfTheStore) {
  SaveAndPush(2);
  SnapshotStore(copy());
  PushDelta(3);
  EXPECT_EQ(Update().data_bytes, DataBytes(3));
  ExpectSteps({1, 2, 3});
}

TEST_F(UpdateTest, KeepsStepsThatTheRemoteDropped) {
  SaveAndPush(3);
  Update({.all = true});
  ASSERT_OK(trainer_->SaveFull(4));
  PushDelta(5);
  CollectAllButNewest();
  ASSERT_OK_AND_ASSIGN(const RemoteContent content, ListRemote(&remote_));
  EXPECT_EQ(content.dropped_bytes, 0);  // no older step is listed
  EXPECT_THAT(Update().steps, ElementsAre(5));
  ExpectSteps({1, 2, 3, 5});
}

TEST_F(UpdateTest, KeepsTheModesOfTheStore) {
  MakeCopy(1);
  fs::permissions(copy() + "/db", fs::perms(0755));
  fs::permissions(copy() + "/db/CURRENT", fs::perms(0644));
  std::set<std::string> before;
  for (const auto& entry : fs::directory_iterator(copy() + "/db")) {
    before.insert(entry.path().string());
  }
  PushDelta(2);
  Update({.keep = 1});
  for (const auto& entry : fs::directory_iterator(copy() + "/db")) {
    if (before.contains(entry.path().string())) continue;
    EXPECT_EQ(entry.status().permissions(), fs::perms(0644)) << entry.path();
  }
}

}  // namespace
}  // namespace ckptdb::testing
