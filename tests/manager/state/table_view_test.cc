// SPDX-License-Identifier: Apache-2.0
// A second manager saves the rows of the first one's tables to a store for
// serving: with fewer slots, with int8, and from the same marks.
#include <array>
#include <cmath>

#include "manager/map_table.h"
#include "manager/state/change_sets.h"
#include "manager/state/restore_counts.h"
#include "manager/tables.h"
#include "tests/manager/raw_table.h"
#include "tests/manager/test_model.h"
#include "tests/manager/test_options.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

constexpr uint32_t kDim = 8;

struct User {
  std::array<float, kDim> embedding = {};
  float adagrad_sum = 0;

  bool operator==(const User&) const = default;
};
using Users = std::map<int64_t, User>;

// A trainer that marks each row once, and saves to two stores.
class ServingTest : public ::testing::Test {
 protected:
  ServingTest()
      : table_(&users_, {Field("embedding", &User::embedding),
                         Field("adagrad_sum", &User::adagrad_sum)}),
        served_(&table_, {{"embedding", Codec::kInt8}}) {}
  void SetUp() override {
    ASSERT_OK(model_.AddTable("user", &table_));
    ASSERT_OK(serving_.AddTable("user", &served_));
    ASSERT_OK_AND_ASSIGN(manager_,
                         CheckpointManager::Open(OptionsOf("train"), &model_));
    OpenServer();
  }
  // As in docs/manager.md.
  void OpenServer() {
    server_.reset();
    {
      ASSERT_OK_AND_ASSIGN(const auto store,
                           Store::Open(OptionsOf("serve").path));
      for (const StepRecord& step : store->Steps()) {
        if (step.version.step <= manager_->global_step()) continue;
        ASSERT_OK(store->Delete(step.version.step));
      }
    }
    ASSERT_OK_AND_ASSIGN(
        server_, CheckpointManager::Open(OptionsOf("serve"), &serving_));
  }
  // The audit detects a changed row that a delta omits.
  ManagerOptions OptionsOf(const std::string& name) const {
    ManagerOptions options = TestOptions(dir_.path() + "/" + name);
    options.save.audit_deltas = true;
    options.save.async = false;
    return options;
  }
  void TrainStep() {
    const int64_t step = manager_->global_step() + 1;
    for (const int64_t id : {step, step + 1}) {
      for (uint32_t e = 0; e < kDim; ++e) {
        users_[id].embedding[e] =
            std::sin(static_cast<float>(step * 100 + id * 10 + e));
      }
      users_[id].adagrad_sum += 1;
    }
    table_.MarkUpserted({step, step + 1});
    users_.erase(step - 3);
    table_.MarkErased({step - 3});
    ASSERT_OK(manager_->Step());
    ASSERT_OK(server_->StepTo(manager_->global_step()));
  }
  // Restores the newest step of a store into a table with these slots.
  absl::StatusOr<Users> Stored(const std::string& name,
                               std::vector<std::string>* base_reasons) {
    CKPTDB_ASSIGN_OR_RETURN(const auto reader,
                            Reader::Open(dir_.path() + "/" + name));
    CKPTDB_ASSIGN_OR_RETURN(const StepRecord latest, reader->Latest());
    CKPTDB_ASSIGN_OR_RETURN(const auto step,
                            reader->OpenStep(latest.version.step));
    base_reasons->clear();
    for (const Item& item : step->ranks()[0].items) {
      if (item.run == Item::Run::kBase && item.kind == Item::Kind::kRows) {
        base_reasons->push_back(item.base_reason);
      }
    }
    Users users;
    MapTable table(&users, {Field("embedding", &User::embedding),
                            Field("adagrad_sum", &User::adagrad_sum)});
    CKPTDB_ASSIGN_OR_RETURN(const auto spec, step->FindTable("user"));
    ScanOptions scan;
    for (const Slot& slot : spec.slots) scan.slots.push_back(slot.name);
    scan.read.threads = 1;
    CKPTDB_RETURN_IF_ERROR(step->RestoreTable(
        "user", LiveTable::RestoreMode::kClear, scan, table.Live(scan.slots)));
    return users;
  }
  void ExpectServed() {
    ASSERT_OK_AND_ASSIGN(const Users stored, Stored("serve", &served_bases_));
    ASSERT_EQ(stored.size(), users_.size());
    for (const auto& [id, user] : stored) {
      EXPECT_EQ(user.adagrad_sum, 0) << "the slot is not in the store";
      for (uint32_t e = 0; e < kDim; ++e) {
        EXPECT_NEAR(user.embedding[e], users_.at(id).embedding[e], 2.0 / 400)
            << id;
      }
    }
  }
  void ExpectTrained() {
    ASSERT_OK_AND_ASSIGN(const Users stored, Stored("train", &trained_bases_));
    EXPECT_TRUE(stored == users_);
  }

  TempDir dir_;
  Users users_;
  MapTable<Users> table_;
  TableView served_;
  ModelState model_;
  ModelState serving_;
  std::unique_ptr<CheckpointManager> manager_;
  std::unique_ptr<CheckpointManager> server_;
  std::vector<std::string> trained_bases_;
  std::vector<std::string> served_bases_;
};

TEST_F(ServingTest, BothStoresSaveDeltasFromTheSameMarks) {
  for (int step = 1; step <= 5; ++step) {
    TrainStep();
    ExpectTrained();
    ExpectServed();
    EXPECT_THAT(trained_bases_, SizeIs(step == 1 ? 1 : 0));
    EXPECT_THAT(served_bases_, SizeIs(step == 1 ? 1 : 0));
  }
  EXPECT_EQ(server_->store()->FindStep(5).value().kind,
            StepRecord::Kind::kDelta);
}

// The restore marks nothing, but the rows differ from the other store's.
TEST_F(ServingTest, OtherStoreIsSavedInFull_AfterARestore) {
  for (int step = 1; step <= 4; ++step) TrainStep();
  ASSERT_OK(manager_->Restore({.step = 2}));
  users_[2].adagrad_sum += 1;
  table_.MarkUpserted({2});
  ASSERT_OK(manager_->StepTo(5));
  ASSERT_OK(server_->StepTo(5));
  ExpectTrained();
  EXPECT_THAT(trained_bases_, SizeIs(0)) << "it continues from the step";
  ExpectServed();
  EXPECT_THAT(served_bases_,
              ElementsAre("a manager has restored it since the last save"));
  TrainStep();
  ExpectServed();
  EXPECT_THAT(served_bases_, SizeIs(0)) << "once";
}

TEST_F(ServingTest, OtherStoreContinues_AfterTheTrainingWasReset) {
  for (int step = 1; step <= 4; ++step) TrainStep();
  ASSERT_OK(manager_->Restore({.step = 2}));
  OpenServer();
  TrainStep();
  ExpectTrained();
  ExpectServed();
  EXPECT_THAT(served_bases_, SizeIs(1)) << "it is a new consumer of the marks";
  TrainStep();
  ExpectServed();
  EXPECT_THAT(served_bases_, SizeIs(0));
}

TEST_F(ServingTest, OtherStoreIsSavedInFull_AfterALoad) {
  for (int step = 1; step <= 3; ++step) TrainStep();
  const LoadRule rule = {.step = 1};
  ASSERT_OK(manager_->Load({rule}));
  users_[1].embedding[0] = 0.25f;
  table_.MarkUpserted({1});
  ASSERT_OK(server_->StepTo(4));
  ExpectServed();
  EXPECT_THAT(served_bases_,
              ElementsAre("a manager has restored it since the last save"));
}

TEST(ChangeFeedTest, RestoreStillCounts_WhenTheSaveFails) {
  TestTable users;
  ModelState model;
  ASSERT_OK(model.AddTable("user", &users));
  internal::ChangeFeed feed(model, "/store");
  ASSERT_OK(feed.Join());
  ASSERT_OK(feed.Take());  // a new consumer: all rows
  users.Set(1, 1);
  internal::RestoreCounts::Global().Add(users.tracker());
  ASSERT_OK_AND_ASSIGN(internal::ChangeSets sets, feed.Take());
  EXPECT_FALSE(sets[0]->complete);
  ASSERT_OK(feed.Return(std::move(sets)));
  ASSERT_OK_AND_ASSIGN(sets, feed.Take());
  EXPECT_FALSE(sets[0]->complete);
  EXPECT_THAT(sets[0]->upserted, ElementsAre(1)) << "no marks are lost";
  users.Set(2, 2);
  ASSERT_OK_AND_ASSIGN(sets, feed.Take());
  EXPECT_TRUE(sets[0]->complete);
  EXPECT_THAT(sets[0]->upserted, ElementsAre(2));
}

TEST(TableViewTest, ChoosesSlotsInAnyOrderFromBlocksOfAnySize) {
  RawTable table(
      {{"a", DType::kF32, 1}, {"b", DType::kI64, 1}, {"c", DType::kF32, 4}});
  for (int64_t id = 0; id < 3; ++id) {
    const auto number = static_cast<float>(id);
    table.Set(id, {RawBytes<float>({number}), RawBytes<int64_t>({id * 10}),
                   RawBytes<float>({number, 1, 2, 3})});
  }
  TableView view(&table, {{"c", Codec::kBf16}, {"b", Codec::kNone}});
  ASSERT_OK(view.status());
  EXPECT_EQ(view.slots()[0], (Slot{"c", DType::kF32, 4, Codec::kBf16}));
  EXPECT_EQ(view.slots()[1], (Slot{"b", DType::kI64, 1}));
  EXPECT_THAT(view.optimizer_slots(), ElementsAre("b", "c"));
  ASSERT_OK_AND_ASSIGN(const auto rows, view.AllRows());
  ASSERT_EQ(rows->block_count(), 3U);
  ASSERT_OK_AND_ASSIGN(const RowBlock block, rows->Block(2));
  ASSERT_THAT(block.slots, SizeIs(2));
  int64_t number = 0;
  std::memcpy(&number, block.slots[1].At(0), sizeof(number));
  EXPECT_EQ(number, 20);
}

TEST(TableViewTest, AddTableRejectsInvalidViews) {
  ModelState model;
  TableView null(nullptr, {{"a", Codec::kNone}});
  EXPECT_THAT(model.AddTable("null", &null),
              InvalidArgument("TableView: the table is null"));
  RawTable table({{"a", DType::kF32, 4}});
  TableView unknown(&table, {{"b", Codec::kNone}});
  EXPECT_THAT(model.AddTable("unknown", &unknown),
              InvalidArgument("no slot \"b\"; expected one of a"));
  TableView twice(&table, {{"a", Codec::kNone}, {"a", Codec::kInt8}});
  EXPECT_THAT(model.AddTable("twice", &twice), InvalidArgument("\"a\""));
  TableView none(&table, {});
  EXPECT_THAT(model.AddTable("none", &none), InvalidArgument("slot"));
}

}  // namespace
}  // namespace ckptdb::testing
