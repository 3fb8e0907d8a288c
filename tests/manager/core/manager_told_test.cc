// SPDX-License-Identifier: Apache-2.0
// Warnings about what a user would not notice otherwise.
#include <stdexcept>

#include "schema/types.h"
#include "tests/manager/manager_fixture.h"
#include "tests/manager/run_ranks.h"

namespace ckptdb::testing {
namespace {

class ManagerWarningsTest : public ManagerTest {};

TEST_F(ManagerWarningsTest, WarnsOfAnEmptySchedule) {
  Start();
  EXPECT_THAT(warnings_, IsEmpty());
  options_.schedule = {};
  Start();
  EXPECT_THAT(warnings_,
              ElementsAre(AllOf(HasSubstr(options_.path),
                                HasSubstr("ManagerOptions::schedule is empty"),
                                HasSubstr("Step saves nothing"))));
}

TEST_F(ManagerWarningsTest, WarningsReachTheLoggerOfTheStore) {
  std::vector<std::string> logged;
  options_.observers.on_warning = {};
  options_.store.logger = [&](absl::LogSeverity severity,
                              absl::string_view message) {
    if (severity == absl::LogSeverity::kWarning) logged.emplace_back(message);
    throw std::runtime_error("the disk of the log is full");
  };
  options_.schedule = {};
  ::testing::internal::CaptureStderr();
  Start();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(logged, ::testing::Contains(
                          HasSubstr("ManagerOptions::schedule is empty")));
  manager_.reset();  // logs no more
}

TEST_F(ManagerWarningsTest, WarnsOnceOfStatisticsThatCannotBeWritten) {
  options_.observers.statistics_path = "/dev/full";
  Start();
  TrainAndWait(3);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr("\"/dev/full\""),
                                           HasSubstr("a line is lost"))));
}

// A user's policy that omits steps removes none.
TEST_F(ManagerWarningsTest, KeepsStepsThatAPolicyDoesNotAnswerFor) {
  options_.retention.keep = KeepFunction(
      "forgetful",
      [](absl::Span<const StepInfo>, int64_t) { return std::vector<bool>(); });
  Start();
  TrainAndWait(6);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 6));
  EXPECT_THAT(warnings_, Contains(HasSubstr("answered for 0 of 1 steps")));
}

TEST_F(ManagerWarningsTest, DoesNotWarnOfAnEmptySchedule_WhenNothingIsSaved) {
  Start();
  options_.schedule = {};
  options_.save.enabled = false;
  Start();
  manager_.reset();
  options_.save.enabled = true;
  options_.schedule.ephemeral = SaveEveryNSteps(5);
  Start();
  manager_.reset();
  options_.schedule = {};
  options_.read_only = true;
  Start();
  // SaveAtSteps({}) declares that all saves are explicit.
  manager_.reset();
  options_.read_only = false;
  options_.schedule.permanent = SaveAtSteps({});
  Start();
  EXPECT_THAT(warnings_, IsEmpty());
}

// A step records the owner's metrics. All ranks usually pass metrics, of which
// the others' are ignored.
TEST_F(ManagerWarningsTest, DoesNotWarnOfTheSameMetricsOfAnotherRank) {
  std::vector<std::vector<std::string>> told(2);
  options_.observers.on_saved = nullptr;
  RunModels(
      2, options_,
      [](uint32_t rank, CheckpointManager* manager, TestModel* model) {
        for (int64_t step = 1; step <= 4; ++step) {
          model->Train(step);
          ASSERT_OK(manager->Step({{"auc", rank + 0.25}}));
        }
        ASSERT_OK(manager->Save(
            {.metrics = {{"auc", rank + 0.5}}, .overwrite = true}));
        ASSERT_OK(manager->WaitUntilFinished());
        if (rank == kOwnerRank) {
          EXPECT_EQ(manager->store()->FindStep(4)->metrics.at("auc"), 0.5);
        }
        ASSERT_OK(manager->Close());
      },
      [&told](uint32_t rank, ManagerOptions* options) {
        options->observers.on_warning = [&, rank](const std::string& warning) {
          told[rank].push_back(warning);
        };
      });
  EXPECT_THAT(told, Each(IsEmpty()));
}

TEST_F(ManagerWarningsTest, ErrorOfAnEarlierSaveNamesItsStep) {
  Start();
  FailSaves();
  TrainTo(2);
  FailSaves(false);
  gate_.Open();
  EXPECT_THAT(manager_->WaitUntilFinished(),
              Unavailable("save of step 2: table \"user\""));
  ASSERT_OK(manager_->CheckForErrors()) << "it is returned once";
  FailSaves();
  TrainTo(4);
  FailSaves(false);
  while (manager_->IsSavingInProgress()) std::this_thread::yield();
  EXPECT_THAT(TrainStep(), Unavailable("save of step 4: table \"user\""));
  TrainAndClose(6);
  EXPECT_THAT(Steps(), ElementsAre(6));
}

// The caller knows which step it saves.
TEST_F(ManagerWarningsTest, ErrorOfTheCallsOwnSaveDoesNotNameTheStep) {
  options_.save.async = false;
  Start();
  FailSaves();
  ASSERT_OK(TrainStep());
  EXPECT_THAT(TrainStep().status(),
              Unavailable("table \"user\"", Not(HasSubstr("save of"))));
}

TEST_F(ManagerWarningsTest, ErrorThatWaitCommittedReturnedIsNotRepeated) {
  Start();
  for (const int64_t step : {2, 4, 6}) {
    SCOPED_TRACE(step);
    FailSaves();
    TrainTo(step - 1);
    ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, TrainStep());
    FailSaves(false);
    ASSERT_TRUE(outcome.save.has_value());
    EXPECT_THAT(outcome.save->WaitCommitted(), Unavailable("no rows today"));
    if (step == 2) {
      ASSERT_OK(manager_->CheckForErrors());
      ASSERT_OK(manager_->WaitUntilFinished());
    }
  }
  // Neither the next save nor Close repeats it.
  TrainAndClose(8);
  EXPECT_THAT(Steps(), ElementsAre(8));
}

// The training learns of it only from the manager.
TEST_F(ManagerWarningsTest, WaitCommittedOnAnotherThreadTakesNothing) {
  Start();
  FailSaves();
  TrainTo(1);
  ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, TrainStep());
  FailSaves(false);
  std::thread([&] {
    EXPECT_THAT(outcome.save->WaitCommitted(), Unavailable("no rows"));
  }).join();
  EXPECT_THAT(manager_->WaitUntilFinished(), Unavailable("save of step 2: "));
}

// Ranks evaluate with separate models, and resume no input.
TEST_F(ManagerWarningsTest, EvaluatorMayHaveAnyNumberOfRanks) {
  Start();
  TrainAndWait(4);
  ManagerOptions options;
  options.path = options_.path;
  options.read_only = true;
  options.ranks.sharding = TableSharding::Replicated();
  RunModels(2, options,
            [](uint32_t, CheckpointManager* follower, TestModel* copy) {
              copy->reader.position = "its own";
              ASSERT_OK(follower->Restore());
              TestModel expected;
              testing::TrainTo(4, &expected);
              EXPECT_EQ(copy->weights, expected.weights);
              EXPECT_TRUE(copy->users.rows() == expected.users.rows());
              EXPECT_EQ(copy->reader.position, "its own");
            });
}

// A reader that sets kError gets the error; a trainer always does.
TEST_F(ManagerWarningsTest,
       RestoreFailsOnOtherNumbersOfRanks_WhenResizeIsError) {
  Start();
  TrainAndClose(4);
  for (const bool read_only : {true, false}) {
    SCOPED_TRACE(read_only);
    ManagerOptions options;
    options.path = options_.path;
    options.observers.on_warning = [](const std::string&) {};
    options.read_only = read_only;
    options.ranks.sharding = TableSharding::Replicated();
    if (read_only) {
      options.restore.io_state_resize = ManagerOptions::IoStateResize::kError;
    }
    RunModels(2, options,
              [](uint32_t, CheckpointManager* follower, TestModel*) {
                EXPECT_THAT(follower->Restore(),
                            FailedPrecondition("got world size 1"));
              });
  }
}

}  // namespace
}  // namespace ckptdb::testing
