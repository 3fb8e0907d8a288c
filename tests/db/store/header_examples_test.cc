// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of the public headers, as they stand there.
#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <functional>

#include "db/base/changed_steps.h"
#include "db/reader.h"
#include "db/row_tracker.h"
#include "db/state.h"
#include "db/store.h"
#include "schema/status.h"
#include "schema/types.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class HeaderExamplesTest : public ::testing::Test {
 protected:
  // The examples open "checkpoints", below the current folder.
  void SetUp() override {
    old_ = std::filesystem::current_path();
    std::filesystem::current_path(dir_.path());
  }
  void TearDown() override { std::filesystem::current_path(old_); }

  TempDir dir_;
  std::filesystem::path old_;
};

// db/store.h
absl::Status SaveAndOpen(const std::vector<float>& weights, int64_t* opened) {
  CKPTDB_ASSIGN_OR_RETURN(auto store, Store::Open("checkpoints"));
  RankState state;
  state.AddTensor("w", TensorView::Of(weights.data(), {3, 4}));
  CKPTDB_RETURN_IF_ERROR(store->Save({.step = 1000}, state).status());

  CKPTDB_ASSIGN_OR_RETURN(StepRecord latest, store->Latest());
  CKPTDB_ASSIGN_OR_RETURN(auto step, store->OpenStep(latest.version.step));
  *opened = step->record().version.step;
  return absl::OkStatus();
}

TEST_F(HeaderExamplesTest, StoreOfOneRank) {
  int64_t opened = 0;
  ASSERT_OK(SaveAndOpen(std::vector<float>(12, 1.0f), &opened));
  EXPECT_EQ(opened, 1000);
}

// db/base/changed_steps.h
TEST_F(HeaderExamplesTest, ChangesOfSteps) {
  ASSERT_OK_AND_ASSIGN(auto store, Store::Open("checkpoints"));
  std::vector<int64_t> updated;
  std::vector<int64_t> forgotten;
  const auto update = [&](const StepRecord& record) {
    updated.push_back(record.version.step);
  };
  const auto forget = [&](int64_t step) { forgotten.push_back(step); };

  internal::ChangedSteps changes =
      internal::StepsChangedSince(*store, 0);  // all, at first
  for (const int64_t step : {1, 2}) ASSERT_OK(store->Save({.step = step}, {}));
  ASSERT_OK(store->Delete(1));
  changes = internal::StepsChangedSince(*store, changes.until);
  for (const int64_t step : changes.steps) {
    const bool there = store->VisitStep(step, update);
    if (!there) forget(step);
  }
  EXPECT_THAT(updated, ElementsAre(2));
  EXPECT_THAT(forgotten, ElementsAre(1, 1));
}

// db/state.h
absl::Status StageAndSend(
    const std::string& store_path, const std::string& bytes_from_owner,
    const RankState& state,
    const std::function<void(const std::string&)>& send_to_owner) {
  CKPTDB_ASSIGN_OR_RETURN(Ticket ticket, Ticket::Decode(bytes_from_owner));
  CKPTDB_ASSIGN_OR_RETURN(StagedRank staged, Stage(store_path, ticket, state));
  CKPTDB_ASSIGN_OR_RETURN(std::string bytes, staged.Encode());
  send_to_owner(bytes);
  return absl::OkStatus();
}

// db/store.h, several ranks
absl::Status SaveTwoRanks(Store* store, const RankState& state) {
  CKPTDB_ASSIGN_OR_RETURN(auto save,
                          store->Begin({.step = 1000, .world_size = 2}));
  std::vector<StagedRank> staged;
  absl::Status decoded;
  for (const Ticket& ticket : save.tickets) {
    CKPTDB_ASSIGN_OR_RETURN(const std::string sent, ticket.Encode());
    CKPTDB_RETURN_IF_ERROR(
        StageAndSend(store->path(), sent, state, [&](const std::string& bytes) {
          auto rank = StagedRank::Decode(bytes);
          decoded.Update(rank.status());
          if (rank.ok()) staged.push_back(*std::move(rank));
        }));
  }
  CKPTDB_RETURN_IF_ERROR(decoded);
  CKPTDB_RETURN_IF_ERROR(store->Publish(save.version, staged).status());
  return absl::OkStatus();
}

TEST_F(HeaderExamplesTest, StoreOfSeveralRanks) {
  ASSERT_OK_AND_ASSIGN(auto store, Store::Open("checkpoints"));
  RankState state;
  state.AddBlob("reader", "position 7");
  ASSERT_OK(SaveTwoRanks(store.get(), state));
  ASSERT_OK_AND_ASSIGN(const StepRecord record, store->FindStep(1000));
  EXPECT_EQ(record.world_size, 2u);
}

class CountRows : public RowSink {
 public:
  absl::Status Consume(int, const RowSink::Batch& batch) override {
    rows += batch.ids.size();
    return absl::OkStatus();
  }
  std::atomic<size_t> rows{0};
};

// db/state.h
absl::Status SaveOfEverything(Store* store, absl::Span<const int64_t> ids,
                              const std::vector<float>& embeddings,
                              const std::vector<float>& adagrad,
                              const std::string& position_bytes) {
  std::vector<float> weights(12);
  RankState state;
  state.AddTensor("mlp.0.weight", TensorView::Of(weights.data(), {3, 4}));
  state.AddBlob("reader", position_bytes);
  RowSource::Arrays rows(
      ids, {{embeddings.data(), 16 * 4}, {adagrad.data(), 16 * 4}});
  state.AddTable(
      "user",
      {{"embedding", DType::kF32, 16}, {"adagrad_sum", DType::kF32, 16}},
      &rows);
  return store->Save({.step = 1000}, state).status();
}

// db/state.h
TEST_F(HeaderExamplesTest, TableDividedAmongRanks) {
  const std::vector<Slot> slots = {{"embedding", DType::kF32, 16}};
  const RowSource::Arrays rows({}, {});
  RankState state;
  state.AddTable({.name = "user",
                  .slots = slots,
                  .rows = &rows,
                  .sharding = TableSharding::ByModulo()});
  EXPECT_EQ(state.tables().at(0).sharding.kind(), Item::Sharding::kByModulo);
}

// db/reader.h
absl::Status ReadSome(Store* store, CountRows* counted) {
  CountRows& sink = *counted;
  CKPTDB_ASSIGN_OR_RETURN(auto step, store->OpenStep(1000));
  std::vector<float> weights(12);
  CKPTDB_RETURN_IF_ERROR(step->ReadTensor("mlp.0.weight", weights.data(), 48));
  CKPTDB_RETURN_IF_ERROR(step->ScanTable("user", {}, &sink));
  return absl::OkStatus();
}

double Evaluate(const StepReader& step) {
  return step.record().world_size == 1 ? 0.75 : 0;
}

// db/reader.h
absl::Status FollowLatest(int64_t* opened) {
  CKPTDB_ASSIGN_OR_RETURN(auto reader, Reader::Open("checkpoints"));
  CKPTDB_RETURN_IF_ERROR(reader->Refresh());
  CKPTDB_ASSIGN_OR_RETURN(StepRecord latest, reader->Latest());
  CKPTDB_ASSIGN_OR_RETURN(auto step, reader->OpenStep(latest.version.step));
  const Metrics metrics = {{"auc", Evaluate(*step)}};
  CKPTDB_RETURN_IF_ERROR(reader->PostMetrics(latest.version.step, metrics));
  *opened = step->record().version.step;
  return absl::OkStatus();
}

TEST_F(HeaderExamplesTest, StateStepReaderAndReader) {
  ASSERT_OK_AND_ASSIGN(auto store, Store::Open("checkpoints"));
  const std::vector<int64_t> ids = {5, -3};
  const std::vector<float> values(32, 0.5f);
  ASSERT_OK(SaveOfEverything(store.get(), ids, values, values, "position"));
  CountRows sink;
  ASSERT_OK(ReadSome(store.get(), &sink));
  EXPECT_EQ(sink.rows, 2u);
  int64_t opened = 0;
  ASSERT_OK(FollowLatest(&opened));
  EXPECT_EQ(opened, 1000);
  ASSERT_OK(store->TakePosts());
  ASSERT_OK_AND_ASSIGN(const StepRecord posted, store->FindStep(1000));
  EXPECT_EQ(posted.metrics.at("auc"), 0.75);
}

// db/row_tracker.h
int base_saves = 0;
absl::Status SaveBase() {
  ++base_saves;
  return absl::UnavailableError("no disk");
}
absl::Status SaveDelta(const ChangeTracker::Changes&) {
  return absl::OkStatus();
}

absl::Status SaveWhatChanged(absl::Span<const int64_t> ids_of_the_batch) {
  RowTracker tracker;
  CKPTDB_ASSIGN_OR_RETURN(const ChangeTracker::Consumer saves,
                          tracker.AddConsumer("checkpoint"));
  tracker.MarkUpserted(ids_of_the_batch);  // from the trainer's threads

  CKPTDB_ASSIGN_OR_RETURN(ChangeTracker::Changes changes, tracker.Take(saves));
  const absl::Status saved = changes.complete ? SaveDelta(changes) : SaveBase();
  if (!saved.ok()) {
    CKPTDB_RETURN_IF_ERROR(tracker.Return(saves, std::move(changes)));
  }
  return absl::OkStatus();
}

TEST_F(HeaderExamplesTest, ChangesOfRows) {
  ASSERT_OK(SaveWhatChanged({1, 2}));
  EXPECT_EQ(base_saves, 1);
}

// schema/types.h
TEST_F(HeaderExamplesTest, DTypes) {
  EXPECT_EQ(DTypeBytes(DType::kF32), 4u);
  EXPECT_EQ(DTypeName(DType::kBf16), "bf16");
  ASSERT_OK_AND_ASSIGN(const DType u8, ParseDType("u8"));
  EXPECT_EQ(u8, DType::kU8);
}

// schema/types.h
TEST_F(HeaderExamplesTest, EvenBounds) {
  EXPECT_THAT(EvenSliceBounds(2), ElementsAre(0, 32768, 65536));
  EXPECT_THAT(EvenSliceBounds(3), SizeIs(4));
}

}  // namespace
}  // namespace ckptdb::testing
