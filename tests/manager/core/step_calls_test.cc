// SPDX-License-Identifier: Apache-2.0
// ShouldSave, loops that start at step 0, and the arguments of Step.
#include <limits>
#include <stdexcept>

#include "tests/manager/manager_fixture.h"
#include "tests/manager/run_ranks.h"

namespace ckptdb::testing {
namespace {

class ShouldSaveTest : public ManagerTest {
 protected:
  SavePolicy::Decision Ask(int64_t step, const Metrics& metrics = {}) {
    const auto decision = manager_->ShouldSave(step, metrics);
    EXPECT_OK(decision);
    return decision.value_or(SavePolicy::Decision());
  }
  // The save of step 2 is in progress.
  void BeginSave() {
    gate_.Close();
    Start();
    TrainTo(2);
  }
};

TEST_F(ShouldSaveTest, ReturnsTheDecisionOfStepToAndCountsNothing) {
  Start();
  for (int64_t step = 1; step <= 6; ++step) {
    const SavePolicy::Decision before = Ask(step);
    EXPECT_EQ(manager_->global_step(), step - 1);
    EXPECT_EQ(before, TrainStep().value().decision);
    ASSERT_OK(manager_->WaitUntilFinished());
  }
  EXPECT_EQ(Ask(8).kind, SavePolicy::Kind::kPermanent);
  EXPECT_THAT(manager_->Explain(8), NotFound("step 8"));
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 6));
}

TEST_F(ShouldSaveTest, UsesMetricsAndTheSaveThatHasEnded) {
  options_.schedule.permanent =
      SaveIf("better", [](const SavePolicy::Context& context) {
        return !context.last.has_value() ||
               context.metrics.at("auc") > context.last->metrics.at("auc");
      });
  Start();
  ASSERT_OK(TrainStep({{"auc", 0.6}}).value().save->WaitCommitted().status());
  EXPECT_EQ(Ask(2, {{"auc", 0.5}}).reason, "better returned false");
  EXPECT_EQ(Ask(2, {{"auc", 0.7}}).reason, "better returned true");
  EXPECT_THAT(Ask(1, {{"auc", 0.7}}).reason, HasSubstr("not after step 1"));
}

TEST_F(ShouldSaveTest, WaitsForTheSaveInProgressAsStepWould) {
  BeginSave();
  EXPECT_EQ(Ask(4).kind, SavePolicy::Kind::kPermanent);
  gate_.Open();
  ASSERT_OK(manager_->Close());
}

TEST_F(ShouldSaveTest, SkipsAStepAsStepWould) {
  for (const ManagerOptions::BusyPolicy busy :
       {ManagerOptions::BusyPolicy::kSkip,
        ManagerOptions::BusyPolicy::kCoalesce}) {
    options_.path += "+";
    options_.save.busy = busy;
    BeginSave();
    const SavePolicy::Decision decision = Ask(4);
    EXPECT_EQ(decision.kind, SavePolicy::Kind::kNone);
    EXPECT_THAT(decision.reason, HasSubstr("step 2 is being saved"));
    gate_.Open();
    ASSERT_OK(manager_->WaitUntilFinished());
    EXPECT_EQ(Ask(3).kind, SavePolicy::Kind::kNone) << "nothing was put off";
    ASSERT_OK(manager_->Close());
  }
}

TEST_F(ShouldSaveTest, FailsAsStepWould) {
  options_.save.busy = ManagerOptions::BusyPolicy::kFail;
  BeginSave();
  EXPECT_THAT(manager_->ShouldSave(4),
              FailedPrecondition("step 4 cannot be saved: step 2 is being"));
  EXPECT_OK(manager_->ShouldSave(5).status());
  gate_.Open();
  ASSERT_OK(manager_->Close());
}

TEST_F(ShouldSaveTest, LeavesErrorsAndPreemptionsToStep) {
  options_.schedule.permanent = SaveEveryNSteps(2) | SaveOnPreemption();
  Start();
  FailSaves();
  TrainTo(2);
  manager_->SetPreempted();
  EXPECT_EQ(Ask(3).reason, "preempted");
  EXPECT_THAT(TrainStep(), Unavailable("no rows today"));
  FailSaves(false);
  EXPECT_TRUE(manager_->preempted());
  EXPECT_TRUE(TrainStep().value().preempted);
  ASSERT_OK(manager_->Close());
}

TEST_F(ShouldSaveTest, IsFalseWhenNothingIsSaved) {
  Start();
  EXPECT_THAT(manager_->ShouldSave(-1),
              InvalidArgument("ShouldSave: step -1 is negative"));
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(manager_->ShouldSave(2), FailedPrecondition("ShouldSave"));
  options_.save.enabled = false;
  Start();
  EXPECT_EQ(Ask(2),
            (SavePolicy::Decision{SavePolicy::Kind::kNone,
                                  "ManagerOptions::save.enabled is false"}));
  options_.save.enabled = true;
  options_.read_only = true;
  Start();
  EXPECT_EQ(Ask(2),
            (SavePolicy::Decision{SavePolicy::Kind::kNone,
                                  "not saved: the manager is read-only"}));
}

TEST_F(ShouldSaveTest, AllRanksReturnTheDecisionOfTheOwner) {
  std::vector<std::string> answers(3);
  RunModels(
      3, options_,
      [&](uint32_t rank, CheckpointManager* manager, TestModel*) {
        for (int64_t step = 1; step <= 4; ++step) {
          ASSERT_OK_AND_ASSIGN(const auto decision, manager->ShouldSave(step));
          absl::StrAppend(&answers[rank], SaveKindName(decision.kind));
          EXPECT_OK(manager->Step());
        }
        EXPECT_OK(manager->Close());
      },
      [](uint32_t rank, ManagerOptions* options) {
        options->schedule.permanent =
            SaveIf("the owner", [rank](const SavePolicy::Context& context) {
              return rank == 0 && context.step == 3;
            });
      });
  EXPECT_THAT(answers, Each("nonenonepermanentnone"));
}

class StepZeroTest : public ManagerTest {
 protected:
  void TrainFromZero(int64_t step) {
    for (int64_t at = 0; at <= step; ++at) {
      model_->Train(at);
      ASSERT_OK(manager_->StepTo(at));
    }
    ASSERT_OK(manager_->WaitUntilFinished());
  }
};

TEST_F(StepZeroTest, CanBeTrainedOnce) {
  Start();
  ASSERT_NO_FATAL_FAILURE(TrainFromZero(0));
  const auto again = InvalidArgument("step 0 is not after step 0");
  EXPECT_THAT(manager_->StepTo(0), again);
  // It is not allowed after a restore either.
  Start();
  ASSERT_OK(manager_->Restore());
  EXPECT_THAT(manager_->StepTo(0), again);
  ASSERT_OK(manager_->StepTo(1));
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(0));
}

TEST_F(StepZeroTest, CannotBeTrainedAfterTheInitialStateWasSaved) {
  Start();
  ASSERT_OK(manager_->StartTraining());
  EXPECT_THAT(manager_->StepTo(0),
              InvalidArgument("step 0 is not after step 0"));
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(0));
}

TEST_F(StepZeroTest, FinishTrainingSavesStepZero) {
  options_.schedule.permanent = {};
  Start();
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_THAT(Steps(), IsEmpty()) << "no step was trained";
  ASSERT_NO_FATAL_FAILURE(TrainFromZero(0));
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_THAT(Steps(), ElementsAre(0));
}

TEST_F(StepZeroTest, ReadOnlyManagerCountsStepZero) {
  Start();
  options_.read_only = true;
  Start();
  ASSERT_OK(manager_->StepTo(0));
  EXPECT_THAT(manager_->StepTo(0),
              InvalidArgument("step 0 is not after step 0"));
}

TEST_F(ManagerTest, StepRecordsItsMetadata) {
  options_.save.user_metadata = {{"run", "a"}, {"shard", "none"}};
  Start();
  TrainTo(1);
  ASSERT_OK(manager_->Step({{"auc", 0.5}}, {{"shard", "day 7"}}));
  ASSERT_OK(manager_->StepTo(4, {}, {{"file", "x"}}));
  ASSERT_OK(manager_->Close());
  const std::vector<StepRecord> records = Records();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].metrics.at("auc"), 0.5);
  EXPECT_EQ(records[0].user_metadata.at("run"), "a");
  EXPECT_EQ(records[0].user_metadata.at("shard"), "day 7");
  EXPECT_EQ(records[1].user_metadata.at("shard"), "none");
  EXPECT_EQ(records[1].user_metadata.at("file"), "x");
}

TEST_F(ManagerTest, StepFails_AfterTheHighestStep) {
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  options_.schedule.permanent = SaveAtSteps({});
  Start();
  ASSERT_OK(manager_->StepTo(kLast));
  EXPECT_THAT(manager_->Step(),
              FailedPrecondition("step 9223372036854775807 is the highest"));
  EXPECT_EQ(manager_->global_step(), kLast);
}

TEST_F(ManagerTest, ErrorNamesThePolicyThatThrew) {
  options_.schedule.permanent =
      SaveIf("moody", [](const SavePolicy::Context&) -> bool {
        throw std::runtime_error("not today");
      });
  Start();
  EXPECT_THAT(TrainStep(), Internal("SaveIf \"moody\" threw: not today"));
}

TEST_F(ManagerTest, PolicyThatRunsOutOfMemoryIsResourceExhausted) {
  bool full = true;
  const auto allocate = [&full] {
    if (full) throw std::bad_alloc();
    return true;
  };
  const auto expect = [](const absl::Status& status, const std::string& who) {
    EXPECT_THAT(status, ResourceExhausted(who + ": out of memory"));
  };
  options_.save.async = false;
  options_.schedule.permanent =
      SaveIf("hungry", [&](const SavePolicy::Context& context) {
        return context.step > 2 || allocate();
      });
  options_.retention.keep =
      KeepIf("greedy", [&](const StepInfo&) { return allocate(); });
  Start();
  expect(TrainStep().status(), "SaveIf \"hungry\"");
  full = false;
  ASSERT_OK(TrainStep());
  full = true;
  expect(TrainStep().status(), "KeepIf \"greedy\"");
}

TEST_F(ManagerTest, TableCannotBeRegisteredTwice) {
  model_ = std::make_unique<TestModel>();
  ASSERT_OK(model_->state.AddTable("again", &model_->users));
  EXPECT_THAT(
      CheckpointManager::Open(options_, &model_->state),
      AlreadyExists("table \"again\"", "register the table under a single name",
                    "make a second adapter over the same container"));
}

}  // namespace
}  // namespace ckptdb::testing
