// SPDX-License-Identifier: Apache-2.0
// ManagerOptions::save.audit_deltas: a save detects a changed row without a
// mark.
#include "tests/manager/forwarding_coordinator.h"
#include "tests/manager/manager_fixture.h"
#include "tests/manager/run_ranks.h"

namespace ckptdb::testing {
namespace {

class DeltaAuditTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    options_.save.audit_deltas = true;
    options_.save.async = false;
  }
  // Trains to step 6, and makes the change before it is saved.
  absl::Status SaveWith(const std::function<void(TestTable*)>& change) {
    TrainTo(5);
    model_->Train(6);
    change(&model_->users);
    return manager_->Step().status();
  }
  static auto Found(const std::string& what) {
    return FailedPrecondition("table \"user\": audit_deltas: ", what);
  }
};

TEST_F(DeltaAuditTest, MarkedChangesAreSaved) {
  Start();
  TrainTo(12);
  for (const StepRecord& record : Records()) {
    const bool first = record.version.step == 2;
    EXPECT_EQ(record.kind,
              first ? StepRecord::Kind::kFull : StepRecord::Kind::kDelta);
  }
  ASSERT_OK(manager_->Close());
  ExpectStepHolds(12);
}

TEST_F(DeltaAuditTest, NamesTheFirstRowThatChangedWithoutAMark) {
  Start();
  EXPECT_THAT(SaveWith([](TestTable* users) {
                users->SetUnmarked(42, {{1, 2}, 3});
                users->SetUnmarked(31, {{1, 2}, 3});
              }),
              Found("row 31 differs from step 4 in slot \"embedding\" and was "
                    "not marked; call MarkUpserted"));
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
  // The audit passes once they are marked. A row rewritten with the same bytes
  // has not changed.
  model_->users.Set(31, 3);
  model_->users.Set(42, 4);
  const TestRow as_before = model_->users.rows().at(11);
  model_->users.SetUnmarked(11, as_before);
  TrainTo(8);
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 8));
}

TEST_F(DeltaAuditTest, NamesTheRowAndTheChange) {
  const std::pair<std::function<void(TestTable*)>, std::string> cases[] = {
      {[](TestTable* users) {
         TestRow row = users->rows().at(31);
         row.state += 1;
         users->SetUnmarked(31, row);
       },
       "row 31 differs from step 4 in slot \"adagrad_sum\""},
      {[](TestTable* users) { users->EraseUnmarked(31); },
       "row 31 of step 4 was removed but not marked; call MarkErased"},
      {[](TestTable* users) { users->SetUnmarked(-3, {}); },
       "row -3 is not in step 4 and was not marked; call MarkUpserted"},
      {[](TestTable* users) {
         const TestRow row = users->rows().at(31);
         users->Erase(31);
         users->SetUnmarked(31, row);
       },
       "row 31 was marked as erased but still exists"}};
  for (const auto& [change, what] : cases) {
    options_.path += "+";
    Start();
    EXPECT_THAT(SaveWith(change), Found(what));
  }
}

// With the audit off, the delta omits the row; a full save omits none.
TEST_F(DeltaAuditTest, NeitherWhenOffNorInAFullSave) {
  for (const bool off : {true, false}) {
    options_.path += "+";
    options_.save.audit_deltas = !off;
    options_.save.base_every = off ? 0 : 1;
    Start();
    EXPECT_OK(SaveWith([](TestTable* users) {
      users->SetUnmarked(31, {{1, 2}, 3});
    }));
  }
}

// Each of several ranks compares its own rows.
TEST_F(DeltaAuditTest, FailsOnAllRanks_WhenOneRankMissesAMark) {
  Start();
  TrainAndClose(4);
  manager_.reset();
  options_.restore.io_state_resize = ManagerOptions::IoStateResize::kReset;
  options_.observers.on_saved = nullptr;
  RunModels(2, options_,
            [](uint32_t rank, CheckpointManager* manager, TestModel* model) {
              ASSERT_OK(manager->Restore());
              for (int64_t step = 5; step <= 8; ++step) {
                model->Train(step);
                ASSERT_OK(manager->Step());
              }
              if (rank == 1) model->users.SetUnmarked(33, {{1, 2}, 3});
              ASSERT_OK(manager->Step());
              EXPECT_THAT(
                  manager->Step(),
                  Found("row 33 differs from step 8 in slot \"embedding\""));
              ASSERT_OK(manager->Close());
            });
}

// Rank 1 missed the commit of the step that the other ranks use as the parent.
TEST_F(DeltaAuditTest, ComparesWithTheOwnersParent_WhenARankMissedItsSave) {
  options_.observers.on_saved = nullptr;
  options_.ranks.sharding = TableSharding::ByModulo();
  const auto run = [&](uint32_t rank, auto ranks) -> absl::Status {
    TestModel model;
    model.owns = [=](int64_t id) { return id % 2 == rank; };
    CKPTDB_ASSIGN_OR_RETURN(
        const auto manager,
        CheckpointManager::Open(
            options_, &model.state,
            std::make_unique<LosesBroadcast>(
                std::move(ranks), rank == 1 ? "attempt 1" : "none",
                LosesBroadcast::Where::kDuplicatesToo)));
    for (int64_t step = 1; step <= 4; ++step) {
      model.Train(step);
      const absl::Status status = manager->Step().status();
      if (rank == 1 && step == 2) {
        EXPECT_THAT(status, Unavailable("the message was lost"));
      } else {
        EXPECT_OK(status);
      }
    }
    return manager->Close();
  };
  EXPECT_THAT(OnRanks(2, run), Each(IsOk()));
  const std::vector<StepRecord> records = Records();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[1].version.step, 4);
  EXPECT_EQ(records[1].parent.step, 2);
}

}  // namespace
}  // namespace ckptdb::testing
