// SPDX-License-Identifier: Apache-2.0
// What a single-process manager saves and keeps.
#include "manager/checkpoint_manager.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <thread>

#include "tests/manager/manager_fixture.h"
#include "tests/support/long_run.h"

namespace ckptdb::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Whether saves run in the background, and whether the copy fits in the budget.
struct Mode {
  std::string name;
  bool async;
  uint64_t arena_bytes;
};
void PrintTo(const Mode& mode, std::ostream* out) { *out << mode.name; }

class ManagerModeTest : public ManagerTest,
                        public ::testing::WithParamInterface<Mode> {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    options_.save.async = GetParam().async;
    options_.save.arena_bytes = GetParam().arena_bytes;
  }
};

TEST_P(ManagerModeTest, SavesBySchedule) {
  Start();
  TrainTo(7);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 6));
  for (const int64_t step : {2, 4, 6}) ExpectStepHolds(step);
  ASSERT_EQ(reports_.size(), 3U);
  EXPECT_EQ(reports_[0].result.kind, StepRecord::Kind::kFull);
  EXPECT_EQ(reports_[2].result.kind, StepRecord::Kind::kDelta);
  for (const SaveReport& report : reports_) {
    EXPECT_OK(report.status);
    EXPECT_EQ(report.copied_bytes > 0, GetParam().name == "copied");
    EXPECT_GT(report.total_micros, 0);
  }
}

// Most callers do not set the options of staging.
TEST_P(ManagerModeTest, StagedFilesHaveTheModesOfTheStore) {
  options_.store.directory_mode = 0750;
  options_.store.file_mode = 0640;
  std::vector<float> large(1 << 20);
  Start();
  ASSERT_OK(model_->state.AddTensor(
      "large", TensorState::Of(large.data(), {int64_t{1} << 20})));
  manager_.reset();
  ASSERT_OK_AND_ASSIGN(manager_,
                       CheckpointManager::Open(options_, &model_->state));
  TrainTo(2);
  ASSERT_OK(manager_->Close());
  ASSERT_EQ(reports_.size(), 1U);
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(options_.path)) {
    const auto mode = static_cast<uint32_t>(entry.status().permissions());
    EXPECT_EQ(mode, entry.is_directory() ? 0750U : 0640U) << entry.path();
  }
}

TEST_P(ManagerModeTest, ContinuesAfterARestart) {
  Start();
  TrainTo(5);
  Start();
  ASSERT_OK_AND_ASSIGN(const RestoreReport report, manager_->Restore());
  EXPECT_EQ(report.version.step, 4);
  EXPECT_EQ(report.loaded.items.size(), 5U);
  EXPECT_EQ(manager_->global_step(), 4);
  TrainTo(8);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 6, 8));
  ExpectStepHolds(8);
  // The table is the step's: later changes suffice.
  for (const SaveReport& each : reports_) {
    EXPECT_EQ(each.result.kind, each.step == 2 ? StepRecord::Kind::kFull
                                               : StepRecord::Kind::kDelta)
        << each.step;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Modes, ManagerModeTest,
    ::testing::Values(Mode{"copied", true, uint64_t{1} << 20},
                      Mode{"over_budget", true, 0}, Mode{"sync", false, 0}),
    [](const auto& mode) { return mode.param.name; });

TEST_F(ManagerTest, ModelMayChangeOnceStaged) {
  Start();
  gate_.Close();
  TrainTo(2);
  EXPECT_TRUE(manager_->IsSavingInProgress());
  // Overwritten while none of it is on disk.
  model_->Train(3);
  model_->Train(4);
  gate_.Open();
  ASSERT_OK(manager_->WaitUntilFinished());
  EXPECT_FALSE(manager_->IsSavingInProgress());
  ExpectStepHolds(2);
}

TEST_F(ManagerTest, PendingSaveWaitsForStagingAndCommit) {
  Start();
  gate_.Close();
  model_->Train(1);
  ASSERT_OK(manager_->Step());
  ASSERT_OK_AND_ASSIGN(PendingSave save, manager_->Save());
  EXPECT_EQ(save.step(), 1);
  EXPECT_OK(save.WaitStaged());
  EXPECT_FALSE(save.committed_or_failed());
  EXPECT_THAT(save.WaitCommitted(absl::Milliseconds(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("step 1 is not committed")));
  gate_.Open();
  ASSERT_OK_AND_ASSIGN(const SaveResult result, save.WaitCommitted());
  EXPECT_EQ(result.version.step, 1);
  ExpectStepHolds(1);
}

TEST_F(ManagerTest, NextSaveContainsTheChangesOfACancelledSave) {
  Start();
  TrainTo(2);
  ASSERT_OK(manager_->WaitUntilFinished());
  gate_.Close();
  TrainTo(3);
  ASSERT_OK_AND_ASSIGN(PendingSave save, manager_->Save());
  save.Cancel();
  gate_.Open();
  EXPECT_THAT(save.WaitCommitted(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("step 3")));
  // Returned once.
  EXPECT_OK(manager_->WaitUntilFinished());
  EXPECT_OK(manager_->CheckForErrors());
  EXPECT_THAT(Steps(), ElementsAre(2));
  TrainTo(4);
  ASSERT_OK(manager_->Close());
  EXPECT_EQ(reports_.back().result.kind, StepRecord::Kind::kDelta);
  ExpectStepHolds(4);
}

TEST_F(ManagerTest, NextStepReturnsABackgroundError) {
  Start();
  gate_.Close();
  TrainTo(1);
  ASSERT_OK_AND_ASSIGN(PendingSave save, manager_->Save());
  save.Cancel();
  gate_.Open();
  while (!save.committed_or_failed()) std::this_thread::yield();
  EXPECT_THAT(TrainStep(), StatusIs(absl::StatusCode::kCancelled,
                                    HasSubstr("save of step 1: ")));
  TrainTo(4);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(4));
  ExpectStepHolds(4);
}

TEST_F(ManagerTest, ToleratesSomeFailures) {
  options_.save.tolerated_failures = 1;
  Start();
  model_->users.FailWith(absl::UnavailableError("no rows today"));
  TrainTo(3);  // saving step 2 fails
  EXPECT_OK(manager_->CheckForErrors());
  const auto fourth = TrainStep();  // saving step 4 fails, too
  ASSERT_OK(fourth);
  EXPECT_THAT(manager_->WaitUntilFinished(),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("table \"user\": no rows today")));
  model_->users.FailWith(absl::OkStatus());
  TrainTo(6);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(6));
  ExpectStepHolds(6);
  ASSERT_EQ(reports_.size(), 3U);
  EXPECT_FALSE(reports_[0].status.ok());
  EXPECT_FALSE(reports_[1].status.ok());
}

TEST_F(ManagerTest, RetriesAFailedSave) {
  options_.schedule.permanent = SaveEveryNSteps(4);
  options_.save.tolerated_failures = 2;
  options_.save.retry_after_steps = 1;
  options_.save.async = false;
  Start();
  model_->users.FailWith(absl::UnavailableError("no rows today"));
  TrainTo(5);  // saving steps 4 and 5 fails
  EXPECT_THAT(Steps(), ::testing::IsEmpty());
  model_->users.FailWith(absl::OkStatus());
  TrainTo(7);
  EXPECT_THAT(Steps(), ElementsAre(6));
  ExpectStepHolds(6);
  ASSERT_OK_AND_ASSIGN(const StepExplanation story, manager_->Explain(6));
  EXPECT_EQ(story.saved, "the save of step 5 failed and is retried");
  TrainTo(8);
  EXPECT_THAT(Steps(), ElementsAre(6, 8));
  ASSERT_OK(manager_->Close());
}

TEST_F(ManagerTest, RetriesEndWithTheToleratedFailures) {
  options_.schedule.permanent = SaveEveryNSteps(100);
  options_.save.tolerated_failures = 2;
  options_.save.retry_after_steps = 3;
  options_.save.async = false;
  Start();
  TrainTo(99);
  model_->users.FailWith(absl::UnavailableError("no rows today"));
  TrainTo(105);  // 100 and 103 fail
  EXPECT_THAT(TrainStep(), StatusIs(absl::StatusCode::kUnavailable,
                                    HasSubstr("no rows today")));
  EXPECT_EQ(reports_.size(), 3U);
}

TEST_F(ManagerTest, NeverRetries_WithTheLargestInterval) {
  options_.schedule.permanent = SaveEveryNSteps(4);
  options_.save.tolerated_failures = 2;
  options_.save.retry_after_steps = std::numeric_limits<int64_t>::max();
  options_.save.async = false;
  Start();
  model_->users.FailWith(absl::UnavailableError("no rows today"));
  TrainTo(4);  // fails
  model_->users.FailWith(absl::OkStatus());
  TrainTo(9);
  EXPECT_THAT(Steps(), ElementsAre(8));
}

TEST_F(ManagerTest, RetiresWithTheCommit) {
  options_.retention.keep = LatestN(2);
  Start();
  TrainTo(8);
  ASSERT_OK(manager_->WaitUntilFinished());
  EXPECT_THAT(Steps(), ElementsAre(6, 8));
  EXPECT_THAT(reports_.back().retired_steps, ElementsAre(4));
  ASSERT_OK_AND_ASSIGN(const StepExplanation gone, manager_->Explain(4));
  EXPECT_EQ(gone.saved, "step 4 is a multiple of 2");
  EXPECT_THAT(gone.kept, HasSubstr("removed: "));
  ASSERT_OK_AND_ASSIGN(const StepExplanation newest, manager_->Explain(8));
  EXPECT_EQ(newest.kept, "kept: the newest");
  ASSERT_OK_AND_ASSIGN(const StepExplanation never, manager_->Explain(7));
  EXPECT_THAT(never.saved, HasSubstr("not saved: "));
  EXPECT_THAT(manager_->Explain(99),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no step 99")));
}

// A step without metrics is kept; metrics known by the next commit count.
TEST_F(ManagerTest, RetentionUsesLateMetrics) {
  options_.retention.keep = BestN("auc", 1);
  Start();
  TrainTo(6);
  ASSERT_OK(manager_->WaitUntilFinished());
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 6));
  ASSERT_OK(manager_->store()->AddMetrics(2, {{"auc", 0.9}}));
  ASSERT_OK(manager_->store()->AddMetrics(4, {{"auc", 0.1}}));
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 6));
  TrainTo(8);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2, 6, 8));
  EXPECT_THAT(reports_.back().retired_steps, ElementsAre(4));
  for (const int64_t step : {2, 6, 8}) ExpectStepHolds(step);
}

// Deletes the step before the newest, and the newest, which the next step
// continues from.
TEST_F(ManagerTest, ReportsStepsDeletedByHand) {
  std::vector<int64_t> deleted;
  options_.observers.on_deleted = [&](int64_t step) {
    deleted.push_back(step);
  };
  Start();
  TrainTo(4);
  ASSERT_OK(manager_->WaitUntilFinished());
  ASSERT_OK(manager_->store()->Pin(2));
  EXPECT_THAT(
      manager_->Delete(2),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("pinned")));
  EXPECT_THAT(manager_->Delete(3),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("step 3")));
  EXPECT_THAT(deleted, ElementsAre());
  ASSERT_OK(manager_->store()->Unpin(2));
  ASSERT_OK(manager_->Delete(2));
  ASSERT_OK(manager_->Delete(4));
  EXPECT_THAT(deleted, ElementsAre(2, 4));
  ASSERT_OK_AND_ASSIGN(const StepExplanation story, manager_->Explain(4));
  EXPECT_EQ(story.saved, "step 4 is a multiple of 2");
  EXPECT_EQ(story.kept, "removed: it was deleted by hand");
  TrainTo(8);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(6, 8));
  EXPECT_EQ(reports_[2].result.kind, StepRecord::Kind::kFull);
  EXPECT_EQ(reports_[3].result.kind, StepRecord::Kind::kDelta);
  ExpectStepHolds(6);
  ExpectStepHolds(8);
}

TEST_F(ManagerTest, ExplainsAfterARestart) {
  Start();
  TrainTo(2);
  Start();
  ASSERT_OK_AND_ASSIGN(const StepExplanation story, manager_->Explain(2));
  EXPECT_EQ(story.saved, "step 2 is a multiple of 2");
}

TEST_F(ManagerTest, KeepsPinnedStepsAndTheRestoredStep) {
  options_.retention.keep = LatestN(1);
  Start();
  TrainTo(2);
  ASSERT_OK(manager_->WaitUntilFinished());
  ASSERT_OK(manager_->store()->Pin(2));
  TrainTo(4);
  ASSERT_OK(manager_->WaitUntilFinished());
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
  Start();
  ASSERT_OK(manager_->Restore());
  TrainTo(6);
  ASSERT_OK(manager_->WaitUntilFinished());
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 6));
  TrainTo(8);
  ASSERT_OK(manager_->WaitUntilFinished());
  EXPECT_THAT(Steps(), ElementsAre(2, 8));
}

TEST_F(ManagerTest, DoesNotSaveAnExistingStepAgain) {
  Start();
  TrainTo(2);
  EXPECT_THAT(manager_->Save(),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("step 2")));
  EXPECT_FALSE(manager_->IsSavingInProgress());
  ASSERT_OK_AND_ASSIGN(const StepExplanation story, manager_->Explain(2));
  EXPECT_EQ(story.saved, "step 2 is a multiple of 2");
  TrainTo(4);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
}

// A decision takes the previous save into account even if nobody has waited for
// it.
TEST_F(ManagerTest, DecisionUsesTheNewestStep) {
  std::vector<int64_t> newest;
  options_.schedule.permanent =
      SaveIf("noted", [&](const SavePolicy::Context& context) {
        newest.push_back(context.last ? context.last->step : -1);
        return true;
      });
  Start();
  for (int64_t step = 1; step <= 3; ++step) {
    ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, TrainStep());
    ASSERT_TRUE(outcome.save.has_value());
    ASSERT_OK(outcome.save->WaitCommitted());
  }
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(newest, ElementsAre(-1, 1, 2));
}

// A policy that saves steps better than all before.
TEST_F(ManagerTest, DecisionUsesMetricsAndTheHistory) {
  std::vector<std::vector<int64_t>> before;
  options_.schedule.permanent =
      SaveIf("better", [&](const SavePolicy::Context& context) {
        const double auc = context.metrics.at("auc");
        std::vector<int64_t>& steps = before.emplace_back();
        bool better = true;
        for (const StepInfo& step : context.history()) {
          steps.push_back(step.step);
          if (step.metrics.at("auc") >= auc) better = false;
        }
        return better;
      });
  options_.save.async = false;
  Start();
  for (const double auc : {0.5, 0.4, 0.6, 0.7, 0.6}) {
    ASSERT_OK(TrainStep({{"auc", auc}}));
  }
  EXPECT_THAT(Steps(), ElementsAre(1, 3, 4));
  ASSERT_OK(manager_->store()->Quarantine(3));
  RestoreRequest back;
  back.step = 1;
  ASSERT_OK(manager_->Restore(back));
  ASSERT_OK(TrainStep({{"auc", 0.55}}));
  EXPECT_THAT(before, ElementsAre(ElementsAre(), ElementsAre(1), ElementsAre(1),
                                  ElementsAre(1, 3), ElementsAre(1, 3, 4),
                                  ElementsAre(1)))
      << "neither the quarantined nor the abandoned step";
}

TEST_F(ManagerTest, EveryNthSaveIsFull) {
  options_.save.base_every = 2;
  Start();
  TrainTo(8);
  ASSERT_OK(manager_->Close());
  std::vector<StepRecord::Kind> kinds;
  for (const SaveReport& report : reports_) kinds.push_back(report.result.kind);
  EXPECT_THAT(kinds,
              ElementsAre(StepRecord::Kind::kFull, StepRecord::Kind::kDelta,
                          StepRecord::Kind::kFull, StepRecord::Kind::kDelta));
}

class PreemptedTest : public ManagerTest {
 protected:
  // Saves step 2 as ephemeral; then the machine is preempted.
  absl::StatusOr<StepOutcome> PreemptAfterTwo(absl::Duration grace) {
    options_.save.preemption_grace = grace;
    options_.schedule.permanent = SaveOnPreemption();
    options_.schedule.ephemeral = SaveEveryNSteps(2);
    Start();
    TrainTo(2);
    EXPECT_OK(manager_->WaitUntilFinished());
    EXPECT_FALSE(manager_->preempted());
    manager_->SetPreempted();
    auto outcome = TrainStep();
    EXPECT_OK(manager_->WaitUntilFinished());
    return outcome;
  }
};

TEST_F(PreemptedTest, NextStepIsSaved) {
  ASSERT_OK_AND_ASSIGN(const StepOutcome outcome,
                       PreemptAfterTwo(absl::InfiniteDuration()));
  EXPECT_EQ(outcome.decision.reason, "preempted");
  EXPECT_THAT(Steps(), ElementsAre(2, 3));
  ASSERT_OK_AND_ASSIGN(const StepRecord saved, manager_->store()->FindStep(3));
  EXPECT_FALSE(saved.ephemeral);
}

TEST_F(PreemptedTest, NewestEphemeralStepIsPromoted_WhenTimeIsShort) {
  ASSERT_OK_AND_ASSIGN(const StepOutcome outcome,
                       PreemptAfterTwo(absl::ZeroDuration()));
  EXPECT_FALSE(outcome.save.has_value());
  EXPECT_THAT(outcome.decision.reason,
              HasSubstr("step 2 becomes permanent instead"));
  EXPECT_THAT(Steps(), ElementsAre(2));
  ASSERT_OK_AND_ASSIGN(const StepRecord saved, manager_->store()->FindStep(2));
  EXPECT_FALSE(saved.ephemeral);
}

TEST_F(ManagerTest, LogsTheCostsOfSaves) {
  options_.observers.statistics_path = dir_.path() + "/statistics";
  Start();
  TrainTo(2);
  ASSERT_OK(manager_->WaitUntilFinished());
  model_->users.FailWith(absl::UnavailableError("no \"rows\""));
  TrainTo(4);
  EXPECT_FALSE(manager_->WaitUntilFinished().ok());
  std::ifstream log(options_.observers.statistics_path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(log, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 2U);
  ASSERT_OK_AND_ASSIGN(const StepExplanation failed, manager_->Explain(4));
  EXPECT_THAT(failed.saved,
              HasSubstr("not saved, although step 4 is a multiple of 2: "
                        "UNAVAILABLE: table"));
  EXPECT_THAT(
      lines[0],
      ::testing::AllOf(
          ::testing::StartsWith(R"({"event":"save","time":")"),
          HasSubstr(R"(,"step":2,"save_kind":"permanent",)"
                    R"("reason":"step 2 is a multiple of 2","metrics":{)"),
          HasSubstr(R"(},"status":"OK","attempt":1,"kind":"full",)")));
  EXPECT_THAT(lines[1], HasSubstr(R"("status":"UNAVAILABLE","error":"table)"
                                  R"( \"user\": no \"rows\"")"));
}

// A warning about space that cannot be freed is given once.
TEST_F(ManagerTest, WarnsOfEntriesThatSweepsSkip) {
  options_.observers.statistics_path = dir_.path() + "/statistics";
  // An earlier background sweep could report its outcome later.
  options_.store.background_sweep = false;
  std::vector<std::string> warnings;
  options_.observers.on_warning = [&](const std::string& warning) {
    warnings.push_back(warning);
  };
  Start();
  const std::string lease = options_.path + "/leases/notes.txt";
  std::ofstream(lease) << "not a lease";
  TrainTo(2);
  ASSERT_OK(manager_->WaitUntilFinished());
  ASSERT_OK(manager_->store()->Sweep());
  TrainTo(6);
  ASSERT_OK(manager_->WaitUntilFinished());
  const auto told = [&](const std::string& text) {
    return std::count_if(warnings.begin(), warnings.end(),
                         [&](const std::string& warning) {
                           return warning.find(text) != std::string::npos;
                         });
  };
  EXPECT_EQ(told("leases/notes.txt does not belong to the store"), 1);
  // Entries that cannot be read might be leases.
  std::filesystem::rename(options_.path + "/leases", dir_.path() + "/leases");
  std::ofstream(options_.path + "/leases") << "not a folder";
  EXPECT_FALSE(manager_->store()->Sweep().ok());
  TrainTo(8);
  ASSERT_OK(manager_->WaitUntilFinished());
  EXPECT_GE(told("cannot free space, because its sweep fails"), 1);
  std::filesystem::remove(options_.path + "/leases");
  std::ifstream log(options_.observers.statistics_path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(log, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_THAT(lines[1],
              HasSubstr(R"("sweep_status":"OK","unswept_entries":1})"));
  EXPECT_THAT(
      lines[3],
      HasSubstr(R"("sweep_status":"FAILED_PRECONDITION","sweep_error")"));
}

// A save frees or reuses its memory.
TEST_F(ManagerTest, MemoryDoesNotGrowOverTwoHundredSaves) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer allocates memory itself";
  options_.retention.keep = LatestN(2);
  options_.schedule.permanent = SaveEveryNSteps(1);
  options_.store.background_sweep = true;
  options_.save.base_every = 5;
  Start();
  const auto resident_pages = [] {
    std::ifstream statm("/proc/self/statm");
    int64_t all = 0;
    int64_t resident = 0;
    statm >> all >> resident;
    return resident;
  };
  TrainTo(100);
  ASSERT_OK(manager_->WaitUntilFinished());
  const int64_t before = resident_pages();
  TrainTo(300);
  ASSERT_OK(manager_->Close());
  constexpr int64_t kPages = 4096;  // 16 MiB
  EXPECT_LE(resident_pages(), before + kPages);
  EXPECT_THAT(Steps(), ElementsAre(299, 300));
  ExpectStepHolds(300);
}

TEST_F(ManagerTest, OpenRejectsInvalidOptions) {
  TestModel model;
  const auto expect = [&](const ManagerOptions& options,
                          const std::string& what) {
    EXPECT_THAT(CheckpointManager::Open(options, &model.state).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  };
  expect({}, "path is empty");
  ManagerOptions options = options_;
  options.save.base_every = -1;
  expect(options, "base_every is -1; it must be at least 0");
  options = options_;
  options.save.bounds.max_delta_ratio =
      std::numeric_limits<double>::quiet_NaN();
  expect(options, "max_delta_ratio is nan; it must be at least 0");
  options = options_;
  options.store.fold_bounds.max_delta_ratio = -1;
  expect(options, "max_delta_ratio is -1; it must be at least 0");
  options = options_;
  options.save.copy_threads = 0;
  expect(options, "copy_threads is 0; it must be at least 1");
  options = options_;
  options.store.stage_threads = -7;
  expect(options,
         "ManagerOptions::store.stage_threads is -7; it must be at least 1");
  options = options_;
  options.restore.read.threads = 0;
  expect(options,
         "ManagerOptions::restore.read.threads is 0; it must be at least 1");
  options = options_;
  options.store.file_mode = 0400;
  expect(options, "ManagerOptions::store.file_mode is 0400; it must include");
  options = options_;
  options.ranks.sharding = TableSharding::BySlices({0, 5, kSlices});
  expect(options,
         "table \"user\": slice bounds [0, 5, 65536] do not ascend from "
         "0 to 65536 in 1 ranges");
  options = options_;
  options.observers.warn_waiting = absl::Seconds(-1);
  expect(options, "warn_waiting is -1s; it must be at least 0");
  options = options_;
  options.save.preemption_grace = absl::Seconds(-30);
  expect(options, "preemption_grace is -30s; it must be at least 0");
  options = options_;
  options.follow.await_store = absl::Seconds(-5);
  expect(options, "await_store is -5s; it must be at least 0");
  options = options_;
  options.ranks.deadline = absl::ZeroDuration();
  expect(options, "deadline is 0; it must be above 0");
  options = options_;
  options.observers.statistics_path = dir_.path() + "/missing/statistics";
  expect(options, "/missing/statistics\" cannot be written");
  options.observers.statistics_path = dir_.path() + "/pipe";
  ASSERT_EQ(mkfifo(options.observers.statistics_path.c_str(), 0600), 0);
  expect(options, "/pipe\" cannot be written");
  options = options_;
  options.schedule.permanent = SaveOnPreemption() | SaveEveryNSteps(0);
  expect(options,
         "ManagerOptions: schedule.permanent: SaveEveryNSteps: interval is 0; "
         "it must be at least 1");
  options = options_;
  options.schedule.ephemeral = SaveEveryNSeconds(-1);
  expect(options,
         "schedule.ephemeral: SaveEveryNSeconds: seconds is -1; it must be "
         "above 0 and at most 1e+11");
  options = options_;
  options.retention.keep = LatestN(1) | BestN("", 2);
  expect(options, "retention.keep: BestN: metric is empty; name the metric");
  options = options_;
  options.restore.best = KeepPolicy::BestOptions{};
  expect(options, "ManagerOptions: best: metric is empty; name the metric");
  EXPECT_FALSE(std::filesystem::exists(options_.path));
}

// Such values come from casts, for example of a number in a configuration.
TEST_F(ManagerTest, OpenRejectsInvalidEnumerators) {
  TestModel model;
  const auto expect = [&](const auto& set, const std::string& what) {
    for (const int value : {-1, 9}) {
      ManagerOptions options = options_;
      set(value, &options);
      EXPECT_THAT(CheckpointManager::Open(options, &model.state).status(),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           HasSubstr(absl::StrCat(
                               what, " is ", value,
                               "; it must be an enumerator, 0 to "))));
    }
  };
  const auto assign = [](int value, auto* field) {
    *field = static_cast<std::remove_pointer_t<decltype(field)>>(value);
  };
  expect([&](int v, ManagerOptions* o) { assign(v, &o->save.busy); },
         "ManagerOptions::save.busy");
  expect([&](int v, ManagerOptions* o) { assign(v, &o->save.first_save); },
         "ManagerOptions::save.first_save");
  expect([&](int v, ManagerOptions* o) { assign(v, &o->restore.abandoned); },
         "ManagerOptions::restore.abandoned");
  expect(
      [&](int v, ManagerOptions* o) { assign(v, &o->ranks.replicated_saver); },
      "ManagerOptions::ranks.replicated_saver");
  expect([&](int v, ManagerOptions* o) { assign(v, &o->retention.removal); },
         "ManagerOptions: retention.removal");
  expect(
      [](int v, ManagerOptions* o) {
        o->restore.io_state_resize =
            static_cast<ManagerOptions::IoStateResize>(v);
      },
      "ManagerOptions::restore.io_state_resize");
  EXPECT_FALSE(std::filesystem::exists(options_.path));
}

}  // namespace
}  // namespace ckptdb::testing
