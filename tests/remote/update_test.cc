// SPDX-License-Identifier: Apache-2.0
// A store that was fetched gets the steps that were shipped since.
#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/internal/crash_points.h"
#include "db/reader.h"
#include "db/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "remote/remote_store.h"
#include "schema/records/records.h"
#include "tests/remote/memory_store.h"
#include "tests/remote/row_trainer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/sample_store.h"

namespace ckptdb::testing {
namespace {

namespace fs = std::filesystem;

class UpdateTest : public ::testing::Test {
 protected:
  std::string path() const { return dir_.path() + "/store"; }
  std::string copy() const { return dir_.path() + "/copy"; }

  void SetUp() override {
    StoreOptions options;
    options.background_sweep = false;
    ASSERT_OK_AND_ASSIGN(store_, Store::Open(path(), options));
    trainer_.emplace(store_.get());
  }
  void Push(const PushOptions& options = {}) {
    ASSERT_OK(PushStore(path(), &remote_, options));
  }
  // Saves these deltas, and pushes them.
  void PushDeltas(int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) {
      ASSERT_OK(trainer_->SaveDelta(step));
    }
    Push();
  }
  void PushDelta(int64_t step) { PushDeltas(step, step); }
  // Saves the full step 1 and deltas up to `last`, and pushes them.
  void SaveAndPush(int64_t last) {
    ASSERT_OK(trainer_->SaveFull(1));
    PushDeltas(2, last);
  }
  // The same, and makes the copy with the last of them.
  void MakeCopy(int64_t last) {
    SaveAndPush(last);
    Update();
  }
  // Closes the store, copies its folder to `to`, and continues from step 2.
  void SnapshotStore(const std::string& to) {
    store_.reset();
    fs::copy(path(), to, fs::copy_options::recursive);
    ASSERT_OK_AND_ASSIGN(store_, Store::Open(path()));
    trainer_.emplace(store_.get());
    ASSERT_OK(trainer_->Restore(2));
  }
  // Continues from step 2 in the copy, with one delta.
  void SaveInCopy(int64_t step, float salt = 0) {
    ASSERT_OK_AND_ASSIGN(const auto local, Store::Open(copy()));
    RowTrainer trainer(local.get());
    trainer.set_salt(salt);
    ASSERT_OK(trainer.Restore(2));
    ASSERT_OK(trainer.SaveDelta(step));
  }
  // Removes all but the newest step from the remote, and their objects.
  void CollectAllButNewest() {
    for (int i = 0; i < 2; ++i) {
      ASSERT_OK(CollectRemote(&remote_, {.keep = 1, .grace = absl::Hours(1)}));
      remote_.Advance(absl::Hours(3));
    }
  }
  absl::StatusOr<FetchResult> TryUpdate(FetchOptions options = {}) {
    options.update = true;
    return FetchStore(&remote_, copy(), options);
  }
  FetchResult Update(const FetchOptions& options = {}) {
    const auto fetched = TryUpdate(options);
    EXPECT_OK(fetched);
    EXPECT_FALSE(fs::exists(copy() + ".unfinished"));
    return fetched.value_or(FetchResult());
  }
  static std::vector<int64_t> StepsOf(const std::string& path) {
    std::vector<int64_t> steps;
    const auto reader = Reader::Open(path);
    EXPECT_OK(reader);
    if (!reader.ok()) return steps;
    for (const StepRecord& record : (*reader)->Steps()) {
      steps.push_back(record.version.step);
    }
    return steps;
  }
  // Digests of records cover all bytes, which Verify compares with them.
  void ExpectSteps(const std::vector<int64_t>& steps) {
    EXPECT_EQ(StepsOf(copy()), steps);
    ASSERT_OK_AND_ASSIGN(const auto expected, Reader::Open(path()));
    ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(copy()));
    EXPECT_EQ(reader->uuid(), expected->uuid());
    for (const int64_t step : steps) {
      SCOPED_TRACE(step);
      ASSERT_OK_AND_ASSIGN(const auto opened, reader->OpenStep(step));
      EXPECT_OK(opened->Verify());
      const auto want = expected->FindStep(step);
      if (!want.ok()) continue;  // removed there
      EXPECT_EQ(reader->FindStep(step).value(), *want);
      EXPECT_EQ(reader->FindRanks(step).value(),
                expected->FindRanks(step).value());
    }
  }
  // The bytes of the data objects of a step's own version.
  uint64_t DataBytes(int64_t step) {
    const auto record = store_->FindStep(step);
    EXPECT_OK(record);
    const std::string name =
        absl::StrCat(absl::Dec(step, absl::kZeroPad19), "-");
    uint64_t bytes = 0;
    for (const auto& [key, object] : remote_.objects()) {
      if (absl::StartsWith(key, "data/") &&
          absl::StrContains(key, "/" + name)) {
        bytes += object.bytes.size();
      }
    }
    return bytes;
  }
  void ExpectRefused(const std::vector<std::string>& words) {
    const std::vector<int64_t> before = StepsOf(copy());
    const auto fetched = TryUpdate();
    ASSERT_TRUE(absl::IsFailedPrecondition(fetched.status()))
        << fetched.status();
    for (const std::string& word : words) {
      EXPECT_THAT(std::string(fetched.status().message()), HasSubstr(word));
    }
    EXPECT_EQ(StepsOf(copy()), before);
    EXPECT_FALSE(fs::exists(copy() + ".unfinished"));
  }

  TempDir dir_;
  std::unique_ptr<Store> store_;
  std::optional<RowTrainer> trainer_;
  MemoryStore remote_;
};

TEST_F(UpdateTest, MakesAMissingStore) {
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

TEST_F(UpdateTest, WithoutNewsDownloadsNothingAndChangesNothing) {
  MakeCopy(2);
  const auto before = fs::last_write_time(copy() + "/OWNER");
  remote_.calls().clear();
  const FetchResult fetched = Update();
  EXPECT_THAT(fetched.steps, IsEmpty());
  EXPECT_EQ(remote_.calls()["get"], 1);
  EXPECT_EQ(fs::last_write_time(copy() + "/OWNER"), before);
}

// Versions between are downloaded for the chain.
TEST_F(UpdateTest, SkipsSteps) {
  MakeCopy(2);
  PushDeltas(3, 5);
  const FetchResult fetched = Update();
  EXPECT_THAT(fetched.steps, ElementsAre(5));
  EXPECT_EQ(fetched.data_bytes, DataBytes(3) + DataBytes(4) + DataBytes(5));
  ExpectSteps({2, 5});
  // Their data is there already.
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

// Metrics and flags that were shipped after the step.
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

// Readers of the copy have complete steps, and changes between them.
TEST_F(UpdateTest, ReadersFollow) {
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

// A reader never sees a part of a step, nor an older one than before.
TEST_F(UpdateTest, AReaderFollowsMeanwhile) {
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

TEST_F(UpdateTest, ATrainerGoesOn) {
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

// The disk of the trainer was restored from an old copy.
TEST_F(UpdateTest, AnOldCopyCatchesUp) {
  SaveAndPush(2);
  SnapshotStore(copy());
  PushDelta(3);
  EXPECT_EQ(Update().data_bytes, DataBytes(3));
  ExpectSteps({1, 2, 3});
}

TEST_F(UpdateTest, StepsThatTheRemoteDroppedStay) {
  SaveAndPush(3);
  Update({.all = true});
  ASSERT_OK(trainer_->SaveFull(4));
  PushDelta(5);
  CollectAllButNewest();
  ASSERT_OK_AND_ASSIGN(const RemoteContent content, ListRemote(&remote_));
  EXPECT_EQ(content.dropped_bytes, 0);  // the remote knows no older step
  EXPECT_THAT(Update().steps, ElementsAre(5));
  ExpectSteps({1, 2, 3, 5});
}

TEST_F(UpdateTest, RefusesAnotherStore) {
  SaveAndPush(2);
  ASSERT_OK(Store::Open(copy()).status());
  ExpectRefused({copy(), store_->uuid(), "another folder"});
}

TEST_F(UpdateTest, RefusesAFolderThatIsNoStore) {
  SaveAndPush(2);
  fs::create_directories(copy() + "/other");
  EXPECT_THAT(TryUpdate(), AlreadyExists(copy()));
}

TEST_F(UpdateTest, RefusesAStoreOfParts) {
  SaveAndPush(2);
  ASSERT_OK(FetchStore(&remote_, copy(), {.tables = {"t"}}));
  PushDelta(3);
  ExpectRefused({"was fetched with only", "t"});
}

TEST_F(UpdateTest, RefusesAStoreWithAnotherOwner) {
  MakeCopy(2);
  ASSERT_OK_AND_ASSIGN(const auto owner, Store::Open(copy()));
  EXPECT_THAT(Update().steps, IsEmpty());  // nothing is to be added
  PushDelta(3);
  EXPECT_THAT(TryUpdate(), Unavailable(copy(), "pid"));
  EXPECT_THAT(StepsOf(copy()), ElementsAre(2));
}

TEST_F(UpdateTest, RefusesAStoreThatIsAhead) {
  MakeCopy(2);
  SaveInCopy(3);
  ExpectRefused({"ahead", "3 (attempt 3)", "2 (attempt 2)"});
}

// Both went on from step 2: attempts 3 differ.
TEST_F(UpdateTest, RefusesAStoreThatDiverged) {
  MakeCopy(2);
  SaveInCopy(3, /*salt=*/9);
  PushDeltas(3, 4);
  ExpectRefused({"step 3 attempt 3", "another version", "separately"});
}

TEST_F(UpdateTest, RefusesAnAttemptOfAnotherStep) {
  MakeCopy(2);
  SaveInCopy(17);
  PushDelta(3);
  ExpectRefused({"step 17 attempt 3", "step 3 attempt 3"});
}

// The numbers do not meet, as attempt 3 of the remote is gone.
TEST_F(UpdateTest, RefusesAStepThatWasSavedHere) {
  MakeCopy(2);
  SaveInCopy(3);
  ASSERT_OK(trainer_->SaveDelta(3));
  ASSERT_OK(store_->Delete(3));
  ASSERT_OK(trainer_->Restore(2));
  ASSERT_OK(trainer_->SaveFull(4));
  Push();
  ExpectRefused({"step 3 attempt 3", "saved here"});
}

TEST_F(UpdateTest, RefusesARemoteThatWasTakenOver) {
  SaveAndPush(2);
  const std::string other = dir_.path() + "/other";
  SnapshotStore(other);
  PushDelta(3);
  Update();
  ASSERT_OK_AND_ASSIGN(const auto copied, Store::Open(other));
  RowTrainer trainer(copied.get());
  trainer.set_salt(5);
  ASSERT_OK(trainer.Restore(2));
  ASSERT_OK(trainer.SaveDelta(3));
  ASSERT_OK(trainer.SaveDelta(4));
  ASSERT_OK(PushStore(other, &remote_, {.take_over = true}));
  ExpectRefused({"step 3 attempt 3", "another version", "separately"});
}

TEST_F(UpdateTest, RefusesOptionsThatContradict) {
  SaveAndPush(1);
  EXPECT_THAT(FetchStore(&remote_, copy(), {.keep = 1}),
              InvalidArgument("keep", "update"));
  EXPECT_THAT(TryUpdate({.keep = 0}), InvalidArgument("keep", "at least 1"));
  EXPECT_THAT(TryUpdate({.step = 1, .keep = 1}),
              InvalidArgument("keep", "step"));
  EXPECT_THAT(TryUpdate({.tables = {"t"}}), InvalidArgument("update"));
  Update();
  EXPECT_THAT(FetchStore(&remote_, copy()), AlreadyExists(copy(), "--update"));
}

// A collector deletes the objects after the catalog was read.
TEST_F(UpdateTest, AStepThatIsDeletedMeanwhileIsAborted) {
  MakeCopy(2);
  PushDelta(3);
  ASSERT_OK(trainer_->SaveFull(4));
  bool collected = false;
  remote_.set_before([&](absl::string_view call, absl::string_view key) {
    if (call != "get" || !absl::StartsWith(key, "data/") || collected) {
      return absl::OkStatus();
    }
    collected = true;
    EXPECT_OK(PushStore(path(), &remote_));
    CollectAllButNewest();
    return absl::OkStatus();
  });
  EXPECT_THAT(TryUpdate({.step = 3}), Aborted());
  EXPECT_THAT(StepsOf(copy()), ElementsAre(2));
  EXPECT_THAT(Update().steps, ElementsAre(4));
  ExpectSteps({2, 4});
}

TEST_F(UpdateTest, DamageIsFoundBeforeTheStoreIsChanged) {
  MakeCopy(2);
  ASSERT_OK(trainer_->SaveDelta(3));
  const auto before = remote_.objects();
  Push();
  const auto sound = remote_.objects();
  for (const auto& [key, object] : sound) {
    if (before.contains(key) || key == "format") continue;
    SCOPED_TRACE(key);
    remote_.objects() = sound;
    std::string& bytes = remote_.objects()[key].bytes;
    bytes[bytes.size() / 2] ^= 1;
    if (absl::StartsWith(key, "catalog/") &&
        key != remote_.objects().lower_bound("catalog/")->first) {
      continue;
    }
    EXPECT_THAT(TryUpdate(), DataLoss(key));
    EXPECT_THAT(StepsOf(copy()), ElementsAre(2));
  }
  remote_.objects() = sound;
  Update();
  ExpectSteps({2, 3});
}

// A process that ends at any point leaves the store as it was or with the step;
// nothing is downloaded twice.
TEST_F(UpdateTest, EachPointLeavesWholeSteps) {
  MakeCopy(2);
  int64_t step = 2;
  for (const absl::string_view crash : kFetchPoints) {
    SCOPED_TRACE(crash);
    ++step;
    PushDelta(step);
    FetchOptions options;
    options.keep = 1;
    options.on_point = [&](absl::string_view point) {
      if (point == crash) throw std::runtime_error("killed");
    };
    EXPECT_THAT(TryUpdate(options), Internal("killed"));
    const bool committed =
        crash == point::kFetchCommitted || crash == point::kFetchRemoved;
    EXPECT_EQ(StepsOf(copy()).back(), committed ? step : step - 1);
    const FetchResult fetched = Update({.keep = 1});
    EXPECT_EQ(fetched.data_bytes, 0);
    EXPECT_EQ(fetched.steps.empty(), committed);
    ExpectSteps({step});
  }
}

TEST_F(UpdateTest, AnInterruptedDownloadIsContinued) {
  MakeCopy(1);
  PushDeltas(2, 6);
  int reads = 0;
  remote_.set_before([&](absl::string_view call, absl::string_view key) {
    const bool fails =
        call == "get" && absl::StartsWith(key, "data/") && ++reads == 4;
    return fails ? absl::UnavailableError("cut") : absl::OkStatus();
  });
  EXPECT_THAT(TryUpdate({.connections = 1}), Unavailable("cut"));
  EXPECT_THAT(StepsOf(copy()), ElementsAre(1));
  const FetchResult fetched = Update();
  EXPECT_EQ(fetched.data_files, 2);
  EXPECT_EQ(fetched.data_bytes, DataBytes(4) + DataBytes(5));
  ExpectSteps({1, 6});
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

TEST_F(UpdateTest, AMistypedPartLeavesNothing) {
  SaveAndPush(1);
  EXPECT_THAT(FetchStore(&remote_, copy(), {.tables = {"nope"}}),
              InvalidArgument("nope"));
  EXPECT_FALSE(fs::exists(copy()));
  EXPECT_FALSE(fs::exists(copy() + ".unfinished"));
}

}  // namespace
}  // namespace ckptdb::testing
