// SPDX-License-Identifier: Apache-2.0
// A tracker that fails or throws loses no change: the next save is full unless
// the tracker still has them.
#include <stdexcept>

#include "schema/status.h"
#include "tests/manager/manager_fixture.h"

namespace ckptdb::testing {
namespace {

// Fails when its sets are taken or returned.
class UnreliableTracker : public RowTracker {
 public:
  absl::StatusOr<Changes> Take(Consumer consumer) override {
    CKPTDB_RETURN_IF_ERROR(Check("Take"));
    return RowTracker::Take(consumer);
  }
  absl::Status Return(Consumer consumer, Changes&& changes) override {
    CKPTDB_RETURN_IF_ERROR(Check("Return"));
    return RowTracker::Return(consumer, std::move(changes));
  }

  std::string at;
  bool throws = false;

 private:
  absl::Status Check(const std::string& call) const {
    if (at != call) return absl::OkStatus();
    if (throws) throw std::runtime_error("no tracker today");
    return absl::UnavailableError("no tracker today");
  }
};

class UnreliableTrackerTable : public TestTable {
 public:
  void Change(int64_t id, float value) {
    Set(id, value);
    tracker_.MarkUpserted({id});
  }
  void Remove(int64_t id) {
    Erase(id);
    tracker_.MarkErased({id});
  }
  UnreliableTracker* tracker() override { return &tracker_; }

 private:
  UnreliableTracker tracker_;
};

class FailingTrackerTest : public ManagerTest,
                           public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    options_.save.tolerated_failures = 100;
    Start();
    manager_.reset();
    // One table before and one after the failing one.
    ASSERT_OK(model_->state.AddTable("item", &item_));
    ASSERT_OK(model_->state.AddTable("last", &last_));
    Reopen();
    item_.tracker()->throws = GetParam();
    item_.Change(1, 1);
    item_.Change(2, 1);
    last_.Set(1, 1);
    TrainAndWait(2);
  }
  void TearDown() override {
    ManagerTest::TearDown();
    manager_.reset();  // before its tables
  }
  // Changes every table, and tries to save the step.
  void ChangeAndSave(int64_t step) {
    item_.Change(1, static_cast<float>(step));
    last_.Set(step, 1);
    ASSERT_NO_FATAL_FAILURE(TrainAndWait(step));
  }
  // Expects that the step contains the model.
  void ExpectSaved(int64_t step) {
    SCOPED_TRACE(step);
    TestModel loaded;
    TestTable item;
    TestTable last;
    ASSERT_OK(loaded.state.AddTable("item", &item));
    ASSERT_OK(loaded.state.AddTable("last", &last));
    ManagerOptions options;
    options.path = dir_.path() + "/other";
    ASSERT_OK_AND_ASSIGN(const auto other,
                         CheckpointManager::Open(options, &loaded.state));
    ASSERT_OK(other->Restore({.step = step, .path = options_.path}));
    ExpectSame(loaded, *model_);
    EXPECT_TRUE(item.rows() == item_.rows());
    EXPECT_TRUE(last.rows() == last_.rows());
  }
  // Returns why a step stores the whole table; empty if it stores changes.
  std::string WhyFull(int64_t step, const std::string& table) {
    const auto reader = manager_->store()->OpenStep(step);
    EXPECT_OK(reader);
    if (!reader.ok()) return "";
    for (const Item& each : (*reader)->ranks()[0].items) {
      if (each.name == table) return each.base_reason;
    }
    return "";
  }

  UnreliableTrackerTable item_;
  TestTable last_;
};

INSTANTIATE_TEST_SUITE_P(Failures, FailingTrackerTest, ::testing::Bool(),
                         [](const auto& each) {
                           return each.param ? "Throws" : "Fails";
                         });

TEST_P(FailingTrackerTest, NextSaveHasAllChanges_AfterTakeFailed) {
  item_.tracker()->at = "Take";
  ASSERT_NO_FATAL_FAILURE(ChangeAndSave(4));
  item_.tracker()->at.clear();
  ASSERT_NO_FATAL_FAILURE(ChangeAndSave(6));
  EXPECT_THAT(Steps(), ElementsAre(2, 6));
  ExpectSaved(6);
  EXPECT_EQ(WhyFull(6, "user"), "");
  if (GetParam()) {
    EXPECT_THAT(WhyFull(6, "item"), HasSubstr("taking its changes failed"));
  } else {
    EXPECT_EQ(WhyFull(6, "item"), "");
  }
  ASSERT_NO_FATAL_FAILURE(ChangeAndSave(8));
  ExpectSaved(8);
  EXPECT_EQ(WhyFull(8, "item"), "");
}

TEST_P(FailingTrackerTest, NextSaveHasAllChanges_AfterReturnFailed) {
  item_.tracker()->at = "Return";
  FailSaves();
  item_.Remove(2);
  ASSERT_NO_FATAL_FAILURE(ChangeAndSave(4));
  item_.tracker()->at.clear();
  // The reason stays until a save has committed.
  ASSERT_NO_FATAL_FAILURE(ChangeAndSave(6));
  FailSaves(false);
  ASSERT_NO_FATAL_FAILURE(ChangeAndSave(8));
  EXPECT_THAT(Steps(), ElementsAre(2, 8));
  ExpectSaved(8);
  EXPECT_EQ(WhyFull(8, "user"), "");
  EXPECT_THAT(WhyFull(8, "item"),
              HasSubstr("returning the changes of a failed save failed"));
  ASSERT_NO_FATAL_FAILURE(ChangeAndSave(10));
  ExpectSaved(10);
  EXPECT_EQ(WhyFull(10, "item"), "");
}

// A restore drops the earlier marks, among them erasures of restored rows, and
// those of the tables after the failing one.
TEST_P(FailingTrackerTest, RestoreFails_IfTakeFails) {
  item_.Remove(2);
  last_.Erase(1);
  item_.tracker()->at = "Take";
  EXPECT_THAT(manager_->Restore().status().message(),
              HasSubstr("no tracker today"));
  EXPECT_THAT(manager_->StepTo(3), FailedPrecondition("partly written"));
  item_.tracker()->at.clear();
  EXPECT_EQ(Restored(), 2);
  EXPECT_TRUE(item_.rows().contains(2));
  ASSERT_NO_FATAL_FAILURE(ChangeAndSave(4));
  ExpectSaved(4);
  EXPECT_EQ(WhyFull(4, "last"), "");
  EXPECT_EQ(WhyFull(4, "item"), "");
}

}  // namespace
}  // namespace ckptdb::testing
