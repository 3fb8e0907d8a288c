// SPDX-License-Identifier: Apache-2.0

#include "db/base/changed_steps.h"
#include "schema/types.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

class StoreTest : public StoreFixture {};

TEST_F(StoreTest, NewStoreIsEmpty) {
  EXPECT_THAT(store_->Steps(), IsEmpty());
  EXPECT_EQ(store_->path(), path());
  const std::string uuid = store_->uuid();
  EXPECT_THAT(uuid, SizeIs(36));
  EXPECT_THAT(store_->Latest(), NotFound(path()));
  EXPECT_THAT(store_->FindStep(1), NotFound("step 1"));
  Reopen();
  EXPECT_EQ(store_->uuid(), uuid);
  EXPECT_NE(Store::Open(dir_.path() + "/other").value()->uuid(), uuid);
}

TEST_F(StoreTest, KeepsSavesOverReopenPlacedBySize) {
  for (const bool bulk : {false, true}) {
    const RankContent content = bulk ? BulkContent(2) : SmallContent(1);
    ASSERT_OK(Save(bulk, content));
    ExpectStep(bulk, {content});
    Reopen();
    ExpectStep(bulk, {content});
    ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(bulk));
    EXPECT_THAT(step->ranks().at(0).items,
                Each(::testing::Field(
                    &Item::placement,
                    bulk ? Item::Placement::kBulk : Item::Placement::kInline)));
  }
}

TEST_F(StoreTest, SaysWhichStepsChanged) {
  SaveSmall({1});
  internal::ChangedSteps changes = internal::StepsChangedSince(*store_, 0);
  EXPECT_TRUE(changes.all);
  EXPECT_THAT(changes.steps, IsEmpty());
  const auto next = [&] {
    changes = internal::StepsChangedSince(*store_, changes.until);
    EXPECT_FALSE(changes.all);
    return changes.steps;
  };
  EXPECT_THAT(next(), IsEmpty());
  SaveSmall({2});
  for (int twice = 0; twice < 2; ++twice) ASSERT_OK(store_->Pin(1));
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

TEST_F(StoreTest, ListsStepsInOrderWhateverTheOrderOfSaves) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  SaveSmall({kLargest, 70, 0, 1000000007, 8});
  for (const bool reopened : {false, true}) {
    if (reopened) Reopen();
    EXPECT_THAT(ListSteps(), ElementsAre(0, 8, 70, 1000000007, kLargest));
    EXPECT_EQ(LatestStep(), 8);  // the one saved last
  }
  ExpectSmall({kLargest});
  std::vector<int64_t> visited;
  const auto visit = [&](const StepRecord& record) {
    visited.push_back(record.version.step);
  };
  store_->VisitSteps(visit);
  EXPECT_EQ(visited, ListSteps());
  EXPECT_TRUE(store_->VisitStep(8, visit));
  EXPECT_FALSE(store_->VisitStep(9, visit));
  EXPECT_THAT(visited, SizeIs(6));
  EXPECT_EQ(visited.back(), 8);
}

TEST_F(StoreTest, NotFoundNamesTheStepsNextToIt) {
  SaveSmall({10, 20, 30});
  EXPECT_THAT(store_->FindStep(25), NotFound("step 25", "20", "30"));
  EXPECT_THAT(store_->OpenStep(31), NotFound("step 31", "30"));
  EXPECT_THAT(store_->OpenStep(-1), NotFound("step -1"));
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(10));
  EXPECT_THAT(step->ReadBlob(0, "writer"), NotFound("writer"));
  EXPECT_THAT(step->ReadBlob(1, "reader"), NotFound("rank 1"));
  EXPECT_THAT(step->ReadBlob(0, "w"), NotFound("\"w\""));
}

TEST_F(StoreTest, RecordSaysWhatWasSaved) {
  const SaveSpec publish{
      .metrics = {{"auc", 0.75}, {"loss", -1e300}},
      .user_metadata = {{"commit", "abc"}, {"bytes", std::string(3, '\0')}},
      .ephemeral = true};
  ASSERT_OK_AND_ASSIGN(const SaveResult result,
                       Save(7, SmallContent(1), publish));
  const StepRecord record = Record(7);
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
  Reopen();
  EXPECT_EQ(Record(7), record);
}

TEST_F(StoreTest, RecordsTheTimesThatItIsGiven) {
  SaveSpec spec{.step = 3, .begun_at_micros = 5'000'000};
  for (const int64_t committed : {7'500'000, 0}) {  // the clock may go back
    spec.committed_at_micros = committed;
    ASSERT_OK(store_->Save(spec, RankState()));
    EXPECT_EQ(Record(spec.step).committed_at_micros, committed);
    EXPECT_EQ(Record(spec.step).save_micros, committed - 5'000'000);
    ++spec.step;
  }
  spec.committed_at_micros = -1;
  EXPECT_THAT(store_->Save(spec, RankState()),
              InvalidArgument("committed_at_micros -1 is below 0"));
  spec.committed_at_micros.reset();
  spec.begun_at_micros = -1;
  EXPECT_THAT(store_->Save(spec, RankState()),
              InvalidArgument("begun_at_micros -1 is below 0"));
  spec = {.step = 5, .abandoned = static_cast<SaveSpec::Abandoned>(-1)};
  EXPECT_THAT(store_->Save(spec, RankState()),
              InvalidArgument("SaveSpec::abandoned is -1; it must be an "
                              "enumerator, 0 to 2"));
}

TEST_F(StoreTest, ResultCountsBytes) {
  RankContent content;
  content.tensors["w"] = TensorContent::Of<float>({4}, {1, 2, 3, 4});
  content.blobs["b"] = std::string(100, 'x');
  ASSERT_OK_AND_ASSIGN(const SaveResult result, Save(1, content));
  EXPECT_EQ(result.raw_bytes, 116u);
  EXPECT_GE(result.exclusive_bytes, 116u);
  EXPECT_EQ(result.borrowed_bytes, 0u);
  ASSERT_OK_AND_ASSIGN(const SaveResult nothing, Save(3, RankContent()));
  EXPECT_EQ(nothing.raw_bytes, 0u);
  EXPECT_EQ(nothing.exclusive_bytes, 0u);
  Reopen();
  ExpectStep(3, {RankContent()});
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
    const RankContent content = bulk ? BulkContent(2) : SmallContent(1);
    ASSERT_OK(Save(bulk, content));
    store_.reset();
    for (const auto& log : FilesIn(In("db"), ".log"))
      std::filesystem::resize_file(log, 0);
    ASSERT_NO_FATAL_FAILURE(Reopen());
    ExpectStep(bulk, {content});
  }
}

TEST_F(StoreTest, BlobsOfAnySizeAndNamesOfEveryKindOfUtf8) {
  std::mt19937_64 random(1);
  RankContent content;
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{kChunkBytes} - 1, size_t{kChunkBytes},
        size_t{kChunkBytes} + 1, size_t{3} * kChunkBytes + 5}) {
    content.blobs["b" + std::to_string(bytes)] = RandomBytes(&random, bytes);
  }
  for (const char* name : {"a", "a/b.c d\te", "\x01", "Größe 嵌入 🜁"})
    content.blobs[name] = name;
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
  EXPECT_GE(all, kBulkTensorBytes);
}

}  // namespace
}  // namespace ckptdb::testing
