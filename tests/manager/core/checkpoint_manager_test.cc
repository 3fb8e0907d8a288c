// SPDX-License-Identifier: Apache-2.0
// What a single-process manager saves and keeps.
#include <sys/stat.h>

#include <filesystem>
#include <limits>

#include "tests/manager/manager_fixture.h"

namespace ckptdb::testing {
namespace {

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
  TrainAndClose(7);
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
  Reopen();
  TrainAndClose(2);
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
  EXPECT_EQ(WhySaved(2), "step 2 is a multiple of 2");
  TrainAndClose(8);
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
              DeadlineExceeded("step 1 is not committed"));
  gate_.Open();
  EXPECT_EQ(save.WaitCommitted().value().version.step, 1);
  ExpectStepHolds(1);
}

TEST_F(ManagerTest, NextSaveContainsTheChangesOfACancelledSave) {
  Start();
  TrainAndWait(2);
  gate_.Close();
  TrainTo(3);
  ASSERT_OK_AND_ASSIGN(PendingSave save, manager_->Save());
  save.Cancel();
  gate_.Open();
  EXPECT_THAT(save.WaitCommitted(), Cancelled("step 3"));
  // Returned once.
  EXPECT_OK(manager_->WaitUntilFinished());
  EXPECT_OK(manager_->CheckForErrors());
  EXPECT_THAT(Steps(), ElementsAre(2));
  TrainAndClose(4);
  EXPECT_EQ(reports_.back().result.kind, StepRecord::Kind::kDelta);
  ExpectStepHolds(4);
}

TEST_F(ManagerTest, ToleratesSomeFailures) {
  options_.save.tolerated_failures = 1;
  Start();
  FailSaves();
  TrainTo(3);  // saving step 2 fails
  EXPECT_OK(manager_->CheckForErrors());
  ASSERT_OK(TrainStep());  // saving step 4 fails, too
  EXPECT_THAT(manager_->WaitUntilFinished(),
              Unavailable("table \"user\": no rows today"));
  EXPECT_THAT(
      warnings_,
      ElementsAre(HasSubstr(
          "the save of step 2 failed, failure 1 in a row; "
          "ManagerOptions::save.tolerated_failures is 1; the next save "
          "includes its changes: UNAVAILABLE: table \"user\": no rows today")))
      << "an error needs no warning";
  FailSaves(false);
  TrainAndClose(6);
  EXPECT_THAT(Steps(), ElementsAre(6));
  ExpectStepHolds(6);
  ASSERT_EQ(reports_.size(), 3U);
  EXPECT_FALSE(reports_[0].status.ok());
  EXPECT_FALSE(reports_[1].status.ok());
}

class RetryTest : public ManagerTest {
 protected:
  void Start(int64_t retry_after, int64_t interval = 4) {
    options_.schedule.permanent = SaveEveryNSteps(interval);
    options_.save.tolerated_failures = 2;
    options_.save.retry_after_steps = retry_after;
    options_.save.async = false;
    ManagerTest::Start();
  }
};

TEST_F(RetryTest, RetriesAFailedSave) {
  Start(1);
  FailSaves();
  TrainTo(5);  // saving steps 4 and 5 fails
  EXPECT_THAT(Steps(), IsEmpty());
  FailSaves(false);
  TrainTo(7);
  EXPECT_THAT(Steps(), ElementsAre(6));
  ExpectStepHolds(6);
  EXPECT_EQ(WhySaved(6), "the save of step 5 failed and is retried");
  TrainAndClose(8);
  EXPECT_THAT(Steps(), ElementsAre(6, 8));
}

TEST_F(RetryTest, RetryOfAPermanentSaveOutlastsAnEphemeralOne) {
  options_.schedule.ephemeral = SaveAtSteps({5, 7});
  Start(3);
  TrainTo(3);
  FailSaves();
  TrainTo(4);
  FailSaves(false);
  TrainTo(7);
  EXPECT_THAT(Steps(), ElementsAre(5, 7));
  EXPECT_TRUE(Record(5).ephemeral);
  EXPECT_FALSE(Record(7).ephemeral);
  EXPECT_EQ(WhySaved(7), "the save of step 4 failed and is retried");
}

TEST_F(RetryTest, RetriesEndWithTheToleratedFailures) {
  Start(3, 100);
  TrainTo(99);
  FailSaves();
  TrainTo(105);  // 100 and 103 fail
  EXPECT_THAT(TrainStep(), Unavailable("no rows today"));
  EXPECT_EQ(reports_.size(), 3U);
}

TEST_F(RetryTest, NeverRetries_WithTheLargestInterval) {
  Start(std::numeric_limits<int64_t>::max());
  FailSaves();
  TrainTo(4);  // fails
  FailSaves(false);
  TrainTo(9);
  EXPECT_THAT(Steps(), ElementsAre(8));
}

TEST_F(ManagerTest, RetiresWithTheCommit) {
  options_.retention.keep = LatestN(2);
  Start();
  TrainAndWait(8);
  EXPECT_THAT(Steps(), ElementsAre(6, 8));
  EXPECT_THAT(reports_.back().retired_steps, ElementsAre(4));
  EXPECT_EQ(WhySaved(4), "step 4 is a multiple of 2");
  EXPECT_THAT(WhyKept(4), HasSubstr("removed: "));
  EXPECT_EQ(WhyKept(8), "kept: the newest");
  EXPECT_THAT(WhySaved(7), HasSubstr("not saved: "));
  EXPECT_THAT(manager_->Explain(99), NotFound("no step 99"));
}

// A step without metrics is kept; metrics known by the next commit count.
TEST_F(ManagerTest, RetentionUsesLateMetrics) {
  options_.retention.keep = BestN("auc", 1);
  Start();
  TrainAndWait(6);
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 6));
  ASSERT_OK(manager_->store()->AddMetrics(2, {{"auc", 0.9}}));
  ASSERT_OK(manager_->store()->AddMetrics(4, {{"auc", 0.1}}));
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 6));
  TrainAndClose(8);
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
  TrainAndWait(4);
  ASSERT_OK(manager_->store()->Pin(2));
  EXPECT_THAT(manager_->Delete(2), FailedPrecondition("pinned"));
  EXPECT_THAT(manager_->Delete(3), NotFound("step 3"));
  EXPECT_THAT(deleted, ElementsAre());
  ASSERT_OK(manager_->store()->Unpin(2));
  ASSERT_OK(manager_->Delete(2));
  ASSERT_OK(manager_->Delete(4));
  EXPECT_THAT(deleted, ElementsAre(2, 4));
  EXPECT_EQ(WhySaved(4), "step 4 is a multiple of 2");
  EXPECT_EQ(WhyKept(4), "removed: it was deleted by hand");
  TrainAndClose(8);
  EXPECT_THAT(Steps(), ElementsAre(6, 8));
  EXPECT_EQ(reports_[2].result.kind, StepRecord::Kind::kFull);
  EXPECT_EQ(reports_[3].result.kind, StepRecord::Kind::kDelta);
  ExpectStepHolds(6);
  ExpectStepHolds(8);
}

TEST_F(ManagerTest, KeepsPinnedStepsAndTheRestoredStep) {
  options_.retention.keep = LatestN(1);
  Start();
  TrainAndWait(2);
  ASSERT_OK(manager_->store()->Pin(2));
  TrainAndWait(4);
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
  Start();
  ASSERT_OK(manager_->Restore());
  TrainAndWait(6);
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 6));
  TrainAndWait(8);
  EXPECT_THAT(Steps(), ElementsAre(2, 8));
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
  ASSERT_OK(manager_->Restore({.step = 1}));
  ASSERT_OK(TrainStep({{"auc", 0.55}}));
  EXPECT_THAT(before, ElementsAre(ElementsAre(), ElementsAre(1), ElementsAre(1),
                                  ElementsAre(1, 3), ElementsAre(1, 3, 4),
                                  ElementsAre(1)))
      << "neither the quarantined nor the abandoned step";
}

TEST_F(ManagerTest, EveryNthSaveIsFull) {
  options_.save.base_every = 2;
  Start();
  TrainAndClose(8);
  std::vector<StepRecord::Kind> kinds;
  for (const SaveReport& report : reports_) kinds.push_back(report.result.kind);
  EXPECT_THAT(kinds,
              ElementsAre(StepRecord::Kind::kFull, StepRecord::Kind::kDelta,
                          StepRecord::Kind::kFull, StepRecord::Kind::kDelta));
}

TEST_F(ManagerTest, LogsTheCostsOfSaves) {
  options_.observers.statistics_path = dir_.path() + "/statistics";
  Start();
  TrainAndWait(2);
  model_->users.FailWith(absl::UnavailableError("no \"rows\""));
  TrainTo(4);
  EXPECT_FALSE(manager_->WaitUntilFinished().ok());
  const auto lines = Statistics();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(WhySaved(4),
              HasSubstr("not saved, although step 4 is a multiple of 2: "
                        "UNAVAILABLE: table"));
  EXPECT_THAT(
      lines[0],
      AllOf(StartsWith(R"({"event":"save","time":")"),
            HasSubstr(R"(,"step":2,"save_kind":"permanent",)"
                      R"("reason":"step 2 is a multiple of 2","metrics":{)"),
            HasSubstr(R"(},"status":"OK","attempt":1,"kind":"full",)")));
  EXPECT_THAT(lines[1], HasSubstr(R"("status":"UNAVAILABLE","error":"table)"
                                  R"( \"user\": no \"rows\"")"));
}

// A machine that crashes may leave an incomplete last line.
TEST_F(ManagerTest, StatisticsBeginOnANewLine_AfterATornOne) {
  const std::string path = dir_.path() + "/statistics";
  options_.observers.statistics_path = path;
  Start();
  TrainAndClose(2);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 40);
  Start();
  ASSERT_OK(manager_->Restore());
  TrainAndClose(4);
  Start();  // adds nothing to complete lines
  const auto lines = Statistics();
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[0], StartsWith(R"({"event":"save",)"));
  EXPECT_THAT(lines[1], StartsWith(R"({"event":"restore",)"));
  EXPECT_THAT(lines[2], StartsWith(R"({"event":"save",)"));
}

// A warning about space that cannot be freed is given once.
TEST_F(ManagerTest, WarnsOfEntriesThatSweepsSkip) {
  options_.observers.statistics_path = dir_.path() + "/statistics";
  Start();
  const std::string leases = options_.path + "/leases";
  std::ofstream(leases + "/notes.txt") << "not a lease";
  TrainAndWait(2);
  ASSERT_OK(manager_->store()->Sweep());
  TrainAndWait(6);
  const auto foreign =
      HasSubstr("leases/notes.txt does not belong to the store");
  EXPECT_THAT(warnings_, Contains(foreign).Times(1));
  // Entries that cannot be read might be leases.
  std::filesystem::rename(leases, dir_.path() + "/leases");
  std::ofstream(leases) << "not a folder";
  EXPECT_FALSE(manager_->store()->Sweep().ok());
  TrainAndWait(8);
  EXPECT_THAT(warnings_, Contains(HasSubstr("cannot free space, because its "
                                            "sweep fails")));
  std::filesystem::remove(leases);
  const auto lines = Statistics();
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_THAT(lines[1],
              HasSubstr(R"("sweep_status":"OK","unswept_entries":1})"));
  EXPECT_THAT(
      lines[3],
      HasSubstr(R"("sweep_status":"FAILED_PRECONDITION","sweep_error")"));
}

TEST_F(ManagerTest, OpenRejectsInvalidOptions) {
  using O = ManagerOptions*;
  const std::string pipe = dir_.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::pair<std::function<void(O)>, std::string> cases[] = {
      {[](O o) { *o = {}; }, "path is empty"},
      {[](O o) { o->save.base_every = -1; },
       "base_every is -1; it must be at least 0"},
      {[=](O o) { o->save.bounds.max_delta_ratio = nan; },
       "max_delta_ratio is nan; it must be at least 0"},
      {[](O o) { o->store.fold_bounds.max_delta_ratio = -1; },
       "max_delta_ratio is -1; it must be at least 0"},
      {[](O o) { o->save.copy_threads = 0; },
       "copy_threads is 0; it must be at least 1"},
      {[](O o) { o->store.stage_threads = -7; },
       "ManagerOptions::store.stage_threads is -7; it must be at least 1"},
      {[](O o) { o->restore.read.threads = 0; },
       "ManagerOptions::restore.read.threads is 0; it must be at least 1"},
      {[](O o) { o->store.file_mode = 0400; },
       "ManagerOptions::store.file_mode is 0400; it must include"},
      {[](O o) {
         o->ranks.sharding = TableSharding::BySlices({0, 5, kSlices});
       },
       "table \"user\": slice bounds [0, 5, 65536] do not ascend from 0 to "
       "65536 in 1 ranges"},
      {[](O o) { o->observers.warn_waiting = absl::Seconds(-1); },
       "warn_waiting is -1s; it must be at least 0"},
      {[](O o) { o->save.preemption_grace = absl::Seconds(-30); },
       "preemption_grace is -30s; it must be at least 0"},
      {[](O o) { o->follow.await_store = absl::Seconds(-5); },
       "await_store is -5s; it must be at least 0"},
      {[](O o) { o->ranks.deadline = absl::ZeroDuration(); },
       "deadline is 0; it must be above 0"},
      {[](O o) { o->observers.statistics_path = "/missing/statistics"; },
       "/missing/statistics\" cannot be written"},
      {[=](O o) { o->observers.statistics_path = pipe; },
       "/pipe\" cannot be written"},
      {[](O o) {
         o->schedule.permanent = SaveOnPreemption() | SaveEveryNSteps(0);
       },
       "ManagerOptions: schedule.permanent: SaveEveryNSteps: interval is 0; it "
       "must be at least 1"},
      {[](O o) { o->schedule.ephemeral = SaveEveryNSeconds(-1); },
       "schedule.ephemeral: SaveEveryNSeconds: seconds is -1; it must be above "
       "0 and at most 1e+11"},
      {[](O o) { o->retention.keep = LatestN(1) | BestN("", 2); },
       "retention.keep: BestN: metric is empty; name the metric"},
      {[](O o) { o->restore.best = KeepPolicy::BestOptions{}; },
       "ManagerOptions: best: metric is empty; name the metric"},
      {[](O o) {
         o->save.user_metadata = {{"", "x"}};
       },
       "ManagerOptions::save.user_metadata: metadata"}};
  TestModel model;
  for (const auto& [change, what] : cases) {
    ManagerOptions options = options_;
    change(&options);
    EXPECT_THAT(CheckpointManager::Open(options, &model.state),
                InvalidArgument(what));
  }
  EXPECT_FALSE(std::filesystem::exists(options_.path));
}

// Such values come from casts, for example of a number in a configuration.
TEST_F(ManagerTest, OpenRejectsInvalidEnumerators) {
  using O = ManagerOptions*;
  const auto set = [](int value, auto* field) {
    *field = static_cast<std::remove_pointer_t<decltype(field)>>(value);
  };
  const std::pair<std::function<void(int, O)>, std::string> fields[] = {
      {[&](int v, O o) { set(v, &o->save.busy); }, "::save.busy"},
      {[&](int v, O o) { set(v, &o->save.first_save); }, "::save.first_save"},
      {[&](int v, O o) { set(v, &o->restore.abandoned); },
       "::restore.abandoned"},
      {[&](int v, O o) { set(v, &o->ranks.replicated_saver); },
       "::ranks.replicated_saver"},
      {[&](int v, O o) { set(v, &o->retention.removal); },
       ": retention.removal"},
      {[&](int v, O o) { set(v, &o->restore.io_state_resize.emplace()); },
       "::restore.io_state_resize"}};
  TestModel model;
  for (const auto& [change, name] : fields) {
    for (const int value : {-1, 9}) {
      ManagerOptions options = options_;
      change(value, &options);
      EXPECT_THAT(
          CheckpointManager::Open(options, &model.state),
          InvalidArgument(absl::StrCat("ManagerOptions", name, " is ", value,
                                       "; it must be an enumerator, 0 to ")));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(options_.path));
}

}  // namespace
}  // namespace ckptdb::testing
