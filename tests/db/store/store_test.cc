// SPDX-License-Identifier: Apache-2.0
// Saving, listing, finding and reading steps of one rank.
#include "db/store.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <limits>

#include "db/base/changed_steps.h"
#include "schema/bytes/limits.h"
#include "schema/types.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StoreTest : public StoreFixture {};

TEST_F(StoreTest, NewStoreIsEmpty) {
  EXPECT_THAT(store_->Steps(), IsEmpty());
  EXPECT_EQ(store_->path(), path());
  EXPECT_THAT(store_->uuid(), SizeIs(36));
  EXPECT_THAT(store_->Latest(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(path())));
  EXPECT_THAT(store_->FindStep(1),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("step 1")));
}

TEST_F(StoreTest, UuidIsTheStores) {
  const std::string uuid = store_->uuid();
  Reopen();
  EXPECT_EQ(store_->uuid(), uuid);
  ASSERT_OK_AND_ASSIGN(const auto other, Store::Open(dir_.path() + "/other"));
  EXPECT_NE(other->uuid(), uuid);
}

TEST_F(StoreTest, KeepsInlineSaveOverReopen) {
  ASSERT_OK(Save(1, SmallContent(1)));
  ExpectStep(1, {SmallContent(1)});
  Reopen();
  ExpectStep(1, {SmallContent(1)});
}

TEST_F(StoreTest, KeepsBulkSaveOverReopen) {
  ASSERT_OK(Save(1, BulkContent(1)));
  ExpectStep(1, {BulkContent(1)});
  Reopen();
  ExpectStep(1, {BulkContent(1)});
}

TEST_F(StoreTest, PlacementFollowsTheSizeOfTheSave) {
  ASSERT_OK(Save(1, SmallContent(1)));
  ASSERT_OK(Save(2, BulkContent(2)));
  ASSERT_OK_AND_ASSIGN(const auto small, store_->OpenStep(1));
  for (const Item& item : small->ranks().at(0).items) {
    EXPECT_EQ(item.placement, Item::Placement::kInline) << item.name;
  }
  ASSERT_OK_AND_ASSIGN(const auto bulk, store_->OpenStep(2));
  for (const Item& item : bulk->ranks().at(0).items) {
    EXPECT_EQ(item.placement, Item::Placement::kBulk) << item.name;
  }
}

TEST_F(StoreTest, SaveOfNothingIsAStep) {
  ASSERT_OK_AND_ASSIGN(const SaveResult result, Save(3, RankContent()));
  EXPECT_EQ(result.raw_bytes, 0u);
  EXPECT_EQ(result.exclusive_bytes, 0u);
  Reopen();
  ExpectStep(3, {RankContent()});
}

TEST_F(StoreTest, ListsStepsInOrderWhateverTheOrderOfSaves) {
  for (const int64_t step : {70, 0, 1000000007, 8}) {
    ASSERT_OK(Save(step, SmallContent(1)));
  }
  EXPECT_THAT(ListSteps(), ElementsAre(0, 8, 70, 1000000007));
  Reopen();
  EXPECT_THAT(ListSteps(), ElementsAre(0, 8, 70, 1000000007));
  ASSERT_OK_AND_ASSIGN(const StepRecord latest, store_->Latest());
  EXPECT_EQ(latest.version.step, 8);  // the one saved last
}

TEST_F(StoreTest, VisitsStepsWithoutCopies) {
  for (const int64_t step : {8, 0, 70}) ASSERT_OK(Save(step, SmallContent(1)));
  std::vector<int64_t> visited;
  const auto visit = [&](const StepRecord& record) {
    visited.push_back(record.version.step);
  };
  store_->VisitSteps(visit);
  EXPECT_THAT(visited, ElementsAre(0, 8, 70));
  EXPECT_TRUE(store_->VisitStep(8, visit));
  EXPECT_FALSE(store_->VisitStep(9, visit));
  EXPECT_THAT(visited, ElementsAre(0, 8, 70, 8));
}

TEST_F(StoreTest, SaysWhichStepsChanged) {
  ASSERT_OK(Save(1, SmallContent(1)));
  internal::ChangedSteps changes = internal::StepsChangedSince(*store_, 0);
  EXPECT_TRUE(changes.all);
  EXPECT_THAT(changes.steps, IsEmpty());
  const auto next = [&] {
    changes = internal::StepsChangedSince(*store_, changes.until);
    EXPECT_FALSE(changes.all);
    return changes.steps;
  };
  EXPECT_THAT(next(), IsEmpty());
  ASSERT_OK(Save(2, SmallContent(1)));
  ASSERT_OK(store_->Pin(1));
  ASSERT_OK(store_->Pin(1));  // changes nothing
  EXPECT_THAT(next(), ElementsAre(2, 1));
  ASSERT_OK(Save(3, SmallContent(1), {.retire = {2}}));
  ASSERT_OK(store_->AddMetrics(3, {{"auc", 0.5}}));
  EXPECT_THAT(next(), ElementsAre(2, 3, 3));
  ASSERT_OK(store_->Delete(3));
  EXPECT_FALSE(Save(1, SmallContent(1)).ok());
  EXPECT_THAT(next(), ElementsAre(3));
  EXPECT_TRUE(internal::StepsChangedSince(*store_, changes.until + 1).all);
  Reopen();
  EXPECT_TRUE(internal::StepsChangedSince(*store_, 0).all);
}

TEST_F(StoreTest, LargestStepIsAStep) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  ASSERT_OK(Save(kLargest, SmallContent(1)));
  Reopen();
  ExpectStep(kLargest, {SmallContent(1)});
  EXPECT_THAT(ListSteps(), ElementsAre(kLargest));
}

TEST_F(StoreTest, NotFoundNamesTheStepsNextToIt) {
  for (const int64_t step : {10, 20, 30}) {
    ASSERT_OK(Save(step, SmallContent(1)));
  }
  EXPECT_THAT(
      store_->FindStep(25),
      StatusIs(absl::StatusCode::kNotFound,
               AllOf(HasSubstr("step 25"), HasSubstr("20"), HasSubstr("30"))));
  EXPECT_THAT(store_->OpenStep(31),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("step 31"), HasSubstr("30"))));
  EXPECT_THAT(store_->OpenStep(-1),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("step -1")));
}

TEST_F(StoreTest, RecordSaysWhatWasSaved) {
  SaveSpec publish;
  publish.metrics = {{"auc", 0.75}, {"loss", -1e300}};
  publish.user_metadata = {{"commit", "abc"}, {"bytes", std::string(3, '\0')}};
  publish.ephemeral = true;
  ASSERT_OK_AND_ASSIGN(const SaveResult result,
                       Save(7, SmallContent(1), publish));
  const auto check = [&](const StepRecord& record) {
    EXPECT_EQ(record.version, result.version);
    EXPECT_EQ(record.kind, StepRecord::Kind::kFull);
    EXPECT_THAT(record.chain, ElementsAre(result.version));
    EXPECT_THAT(record.references, IsEmpty());
    EXPECT_EQ(record.world_size, 1u);
    EXPECT_EQ(record.metrics, publish.metrics);
    EXPECT_EQ(record.user_metadata, publish.user_metadata);
    EXPECT_TRUE(record.ephemeral);
    EXPECT_FALSE(record.pinned);
    EXPECT_FALSE(record.quarantined);
    EXPECT_GE(record.save_micros, 0);
    EXPECT_GT(record.committed_at_micros, 1'600'000'000'000'000);
    EXPECT_THAT(record.rank_digests, SizeIs(1));
    EXPECT_EQ(record.library_version, "0.1.0");
  };
  ASSERT_OK_AND_ASSIGN(const StepRecord found, store_->FindStep(7));
  check(found);
  Reopen();
  ASSERT_OK_AND_ASSIGN(const StepRecord again, store_->FindStep(7));
  EXPECT_EQ(again, found);
}

TEST_F(StoreTest, RecordsTheTimesThatItIsGiven) {
  SaveSpec spec;
  spec.step = 3;
  spec.begun_at_micros = 5'000'000;
  spec.committed_at_micros = 7'500'000;
  ASSERT_OK(store_->Save(spec, RankState()));
  ASSERT_OK_AND_ASSIGN(const StepRecord record, store_->FindStep(3));
  EXPECT_EQ(record.committed_at_micros, 7'500'000);
  EXPECT_EQ(record.save_micros, 2'500'000);

  spec.step = 4;
  spec.committed_at_micros = 0;  // the clock went back
  ASSERT_OK(store_->Save(spec, RankState()));
  ASSERT_OK_AND_ASSIGN(const StepRecord back, store_->FindStep(4));
  EXPECT_EQ(back.committed_at_micros, 0);
  EXPECT_EQ(back.save_micros, -5'000'000);

  spec.step = 5;
  spec.committed_at_micros = -1;
  EXPECT_THAT(store_->Save(spec, RankState()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("committed_at_micros -1 is below 0")));
  spec.begun_at_micros = -1;
  EXPECT_THAT(store_->Save(spec, RankState()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("begun_at_micros -1 is below 0")));
  spec = {.step = 5, .abandoned = static_cast<SaveSpec::Abandoned>(-1)};
  EXPECT_THAT(store_->Save(spec, RankState()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("SaveSpec::abandoned is -1; it must be an "
                                 "enumerator, 0 to 2")));
}

TEST_F(StoreTest, ResultCountsBytes) {
  RankContent content;
  content.tensors["w"] = TensorContent::Of<float>({4}, {1, 2, 3, 4});
  content.blobs["b"] = std::string(100, 'x');
  ASSERT_OK_AND_ASSIGN(const SaveResult result, Save(1, content));
  EXPECT_EQ(result.raw_bytes, 116u);
  EXPECT_GE(result.exclusive_bytes, 116u);
  EXPECT_EQ(result.borrowed_bytes, 0u);
}

TEST_F(StoreTest, AttemptsAreNeverUsedTwice) {
  ASSERT_OK_AND_ASSIGN(const SaveResult first, Save(1, SmallContent(1)));
  ASSERT_OK(store_->Delete(1));
  Reopen();
  ASSERT_OK_AND_ASSIGN(const SaveResult second, Save(1, SmallContent(1)));
  EXPECT_GT(second.version.attempt, first.version.attempt);
  // The number is not used again even when nothing is left of the attempt.
  ASSERT_OK_AND_ASSIGN(const Store::Attempt third, store_->Begin({.step = 3}));
  ASSERT_OK(store_->Abandon(third.version));
  ASSERT_OK(store_->Sweep());
  Reopen();
  ASSERT_OK_AND_ASSIGN(const Store::Attempt fourth, store_->Begin({.step = 3}));
  EXPECT_GT(fourth.version.attempt, third.version.attempt);
}

// What was acknowledged is in files that are named by the MANIFEST: a log that
// is damaged, or gone, takes nothing of it back.
TEST_F(StoreTest, TheLogHasNothingThatWasAcknowledged) {
  for (const bool bulk : {false, true}) {
    const int64_t step = bulk ? 2 : 1;
    const RankContent content = bulk ? BulkContent(2) : SmallContent(1);
    ASSERT_OK(Save(step, content));
    store_.reset();
    for (const auto& file :
         std::filesystem::directory_iterator(path() + "/db")) {
      if (file.path().extension() == ".log") {
        std::filesystem::resize_file(file.path(), 0);
      }
    }
    ASSERT_NO_FATAL_FAILURE(Reopen());
    ExpectStep(step, {content});
  }
}

TEST_F(StoreTest, BlobsOfAnySize) {
  std::mt19937_64 random(1);
  RankContent content;
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{kChunkBytes} - 1, size_t{kChunkBytes},
        size_t{kChunkBytes} + 1, size_t{3} * kChunkBytes + 5}) {
    content.blobs["b" + std::to_string(bytes)] = RandomBytes(&random, bytes);
  }
  ASSERT_OK(Save(1, content));
  ExpectStep(1, {content});
}

TEST_F(StoreTest, BlobIsOfItsRankAndName) {
  ASSERT_OK(Save(1, SmallContent(1)));
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  EXPECT_THAT(step->ReadBlob(0, "writer"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("writer")));
  EXPECT_THAT(step->ReadBlob(1, "reader"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("rank 1")));
  EXPECT_THAT(step->ReadBlob(0, "w"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"w\"")));
}

TEST_F(StoreTest, NamesOfEveryKindOfUtf8) {
  RankContent content;
  content.blobs["a"] = "short";
  content.blobs["a/b.c d\te"] = "punctuation";
  content.blobs["\x01"] = "control";
  content.blobs["Größe 嵌入 🜁"] = "multibyte";
  content.tensors["a"] = TensorContent::Of<float>({1}, {1});
  content.tables["a"] = {
      {{"v", DType::kU8, 1}}, SliceHash::kModulo, {{1, "x"}}};
  ASSERT_OK(Save(1, content));
  ExpectStep(1, {content});
}

TEST_F(StoreTest, OpenStepReadsOnWhileTheStoreGoesOn) {
  ASSERT_OK(Save(1, BulkContent(1)));
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  ASSERT_OK(Save(2, BulkContent(2)));
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(store_->Sweep());
  ExpectHolds(*step, {BulkContent(1)});
  EXPECT_OK(step->Verify());
}

TEST_F(StoreTest, VerifyReportsProgressToTheEnd) {
  ASSERT_OK(Save(1, BulkContent(1)));
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  uint64_t last = 0;
  uint64_t all = 0;
  ReadOptions options;
  options.progress = [&](uint64_t done_bytes, uint64_t all_bytes) {
    EXPECT_GE(done_bytes, last);
    EXPECT_LE(done_bytes, all_bytes);
    last = done_bytes;
    all = all_bytes;
  };
  EXPECT_OK(step->Verify(options));
  EXPECT_EQ(last, all);
  EXPECT_GE(all, uint64_t{9} << 20);
}

TEST_F(StoreTest, ManyStepsOverReopen) {
  for (int64_t step = 0; step < 200; ++step) {
    ASSERT_OK(Save(step, SmallContent(static_cast<uint64_t>(step))));
  }
  Reopen();
  ASSERT_THAT(store_->Steps(), SizeIs(200));
  for (const int64_t step : {0, 99, 199}) {
    ExpectStep(step, {SmallContent(static_cast<uint64_t>(step))});
  }
}

}  // namespace
}  // namespace ckptdb::testing
