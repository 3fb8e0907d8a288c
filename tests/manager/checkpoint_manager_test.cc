// The manager of a single process.
#include "ckptdb/manager/checkpoint_manager.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <fstream>
#include <future>

#include "ckptdb/db/reader.h"
#include "ckptdb/tests/manager/test_model.h"
#include "ckptdb/tests/support/long_run.h"
#include "ckptdb/tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Holds the threads that come to a point.
class Gate {
 public:
  void Close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = false;
  }
  void Open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
};

class ManagerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.path = dir_.path() + "/store";
    options_.store.background_sweep = false;
    // The tables are so small that their changes are as large as they are.
    options_.bounds.max_delta_ratio = 100;
    options_.stage.on_point = [this](absl::string_view) { gate_.Pass(); };
    options_.on_saved = [this](const SaveReport& report) {
      const std::lock_guard<std::mutex> lock(mutex_);
      reports_.push_back(report);
    };
    options_.now_micros = [this] { return now_micros_; };
    ASSERT_OK_AND_ASSIGN(options_.schedule.permanent, FixedInterval(2));
  }
  void TearDown() override { gate_.Open(); }

  // A new process, as it were.
  void Start() {
    manager_.reset();
    model_ = std::make_unique<TestModel>();
    ASSERT_OK_AND_ASSIGN(manager_,
                         CheckpointManager::Open(options_, &model_->state));
  }

  absl::StatusOr<StepOutcome> TrainStep(const Metrics& metrics = {}) {
    model_->Train(manager_->global_step() + 1);
    return manager_->Step(metrics);
  }
  void TrainTo(int64_t step) {
    while (manager_->global_step() < step) ASSERT_OK(TrainStep());
  }
  // What was saved as `step` is a model that was trained so far.
  void ExpectStepHolds(int64_t step) {
    SCOPED_TRACE(step);
    TestModel loaded;
    ManagerOptions options;
    options.path = dir_.path() + "/other";
    ASSERT_OK_AND_ASSIGN(const auto other,
                         CheckpointManager::Open(options, &loaded.state));
    RestoreRequest request;
    request.step = step;
    request.path = options_.path;
    ASSERT_OK(other->Restore(request));
    TestModel expected;
    testing::TrainTo(step, &expected);
    ExpectSame(loaded, expected);
  }
  std::vector<int64_t> Steps() {
    std::vector<int64_t> steps;
    for (const StepRecord& record : manager_->store()->Steps()) {
      steps.push_back(record.version.step);
    }
    return steps;
  }

  TempDir dir_;
  Gate gate_;
  int64_t now_micros_ = 1'000'000;
  ManagerOptions options_;
  std::mutex mutex_;
  std::vector<SaveReport> reports_;
  std::unique_ptr<TestModel> model_;
  std::unique_ptr<CheckpointManager> manager_;
};

// Whether saves go on beside the training, and the copy fits the budget.
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
    options_.async = GetParam().async;
    options_.arena_bytes = GetParam().arena_bytes;
  }
};

TEST_P(ManagerModeTest, SavesBySchedule) {
  Start();
  TrainTo(7);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 6));
  for (const int64_t step : {2, 4, 6}) ExpectStepHolds(step);
  ASSERT_EQ(reports_.size(), 3U);
  EXPECT_EQ(reports_[0].result.kind, StepKind::kFull);
  EXPECT_EQ(reports_[2].result.kind, StepKind::kDelta);
  for (const SaveReport& report : reports_) {
    EXPECT_OK(report.status);
    EXPECT_EQ(report.copied_bytes > 0, GetParam().name == "copied");
    EXPECT_GT(report.finished_micros, 0);
  }
}

TEST_P(ManagerModeTest, GoesOnWhereItWas) {
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
  // The table is that of the step: what changed since will do.
  for (const SaveReport& each : reports_) {
    EXPECT_EQ(each.result.kind,
              each.step == 2 ? StepKind::kFull : StepKind::kDelta)
        << each.step;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Modes, ManagerModeTest,
    ::testing::Values(Mode{"copied", true, uint64_t{1} << 20},
                      Mode{"over_budget", true, 0}, Mode{"sync", false, 0}),
    [](const auto& mode) { return mode.param.name; });

TEST_F(ManagerTest, NothingToRestoreIsNotFound) {
  Start();
  EXPECT_THAT(manager_->Restore(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no step")));
  RestoreRequest request;
  request.step = 5;
  EXPECT_THAT(manager_->Restore(request),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no step 5")));
}

TEST_F(ManagerTest, TheModelMayChangeOnceItIsStaged) {
  Start();
  gate_.Close();
  TrainTo(2);
  EXPECT_TRUE(manager_->IsSavingInProgress());
  // Written over while nothing of it is on disk.
  model_->Train(3);
  model_->Train(4);
  gate_.Open();
  ASSERT_OK(manager_->WaitUntilFinished());
  EXPECT_FALSE(manager_->IsSavingInProgress());
  ExpectStepHolds(2);
}

TEST_F(ManagerTest, TwoFutures) {
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

TEST_F(ManagerTest, ACancelledSaveLeavesItsMarksToTheNext) {
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
  // Raised once.
  EXPECT_THAT(manager_->WaitUntilFinished(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("step 3")));
  EXPECT_OK(manager_->CheckForErrors());
  EXPECT_THAT(Steps(), ElementsAre(2));
  TrainTo(4);
  ASSERT_OK(manager_->Close());
  EXPECT_EQ(reports_.back().result.kind, StepKind::kDelta);
  ExpectStepHolds(4);
}

TEST_F(ManagerTest, ABackgroundErrorIsRaisedByTheNextStep) {
  Start();
  gate_.Close();
  TrainTo(1);
  ASSERT_OK_AND_ASSIGN(PendingSave save, manager_->Save());
  save.Cancel();
  gate_.Open();
  EXPECT_FALSE(save.WaitCommitted().ok());
  EXPECT_THAT(TrainStep(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("step 1")));
  TrainTo(4);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(4));
  ExpectStepHolds(4);
}

TEST_F(ManagerTest, SomeFailuresAreTolerated) {
  options_.tolerated_failures = 1;
  Start();
  model_->users.FailWith(absl::UnavailableError("no rows today"));
  TrainTo(3);  // the save of step 2 fails
  EXPECT_OK(manager_->CheckForErrors());
  const auto fourth = TrainStep();  // so does that of step 4
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

class BusyTest : public ManagerTest {
 protected:
  // Steps 1 to 4 are trained; the save of step 2 ends after step 4, or during
  // it when it waits.
  absl::StatusOr<StepOutcome> FourSteps(BusyPolicy busy) {
    options_.busy = busy;
    Start();
    gate_.Close();
    TrainTo(3);
    std::future<void> opened;
    if (busy == BusyPolicy::kWait) {
      opened = std::async(std::launch::async, [this] { gate_.Open(); });
    }
    const auto outcome = TrainStep();
    gate_.Open();
    return outcome;
  }
};

TEST_F(BusyTest, Waits) {
  ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, FourSteps(BusyPolicy::kWait));
  EXPECT_TRUE(outcome.save.has_value());
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
  ExpectStepHolds(4);
}

TEST_F(BusyTest, Skips) {
  ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, FourSteps(BusyPolicy::kSkip));
  EXPECT_FALSE(outcome.save.has_value());
  EXPECT_EQ(outcome.decision.why,
            "step 4 is a multiple of 2, but step 2 is being saved");
  TrainTo(5);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2));
  ASSERT_OK_AND_ASSIGN(const StepStory story, manager_->Explain(4));
  EXPECT_EQ(story.saved, "not saved: " + outcome.decision.why);
}

TEST_F(BusyTest, Coalesces) {
  ASSERT_OK_AND_ASSIGN(const StepOutcome outcome,
                       FourSteps(BusyPolicy::kCoalesce));
  EXPECT_FALSE(outcome.save.has_value());
  ASSERT_OK(manager_->WaitUntilFinished());
  TrainTo(5);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2, 5));
  ExpectStepHolds(5);
  ASSERT_OK_AND_ASSIGN(const StepStory story, manager_->Explain(5));
  EXPECT_THAT(story.saved, HasSubstr("step 4 was not saved, as step 2 is"));
}

TEST_F(BusyTest, Fails) {
  EXPECT_THAT(FourSteps(BusyPolicy::kFail),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("step 4 cannot be saved: step 2 is being")));
  ASSERT_OK(manager_->WaitUntilFinished());
  TrainTo(6);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2, 6));
}

TEST_F(ManagerTest, RetiresWithTheCommit) {
  ASSERT_OK_AND_ASSIGN(options_.retention.keep, LatestN(2));
  Start();
  TrainTo(8);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(6, 8));
  EXPECT_THAT(reports_.back().retired, ElementsAre(4));
  ASSERT_OK_AND_ASSIGN(const StepStory gone, manager_->Explain(4));
  EXPECT_EQ(gone.saved, "step 4 is a multiple of 2");
  EXPECT_THAT(gone.kept, HasSubstr("removed: "));
  ASSERT_OK_AND_ASSIGN(const StepStory newest, manager_->Explain(8));
  EXPECT_EQ(newest.kept, "kept: the newest");
  ASSERT_OK_AND_ASSIGN(const StepStory never, manager_->Explain(7));
  EXPECT_THAT(never.saved, HasSubstr("not saved: "));
  EXPECT_THAT(manager_->Explain(99),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no step 99")));
}

TEST_F(ManagerTest, ExplainsAfterARestart) {
  Start();
  TrainTo(2);
  Start();
  ASSERT_OK_AND_ASSIGN(const StepStory story, manager_->Explain(2));
  EXPECT_EQ(story.saved, "step 2 is a multiple of 2");
}

TEST_F(ManagerTest, KeepsWhatIsPinnedAndWhatItBeganFrom) {
  ASSERT_OK_AND_ASSIGN(options_.retention.keep, LatestN(1));
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

TEST_F(ManagerTest, GoingBackGivesLaterStepsUp) {
  Start();
  TrainTo(6);
  Start();
  RestoreRequest request;
  request.step = 2;
  ASSERT_OK(manager_->Restore(request));
  EXPECT_EQ(manager_->global_step(), 2);
  TrainTo(4);
  ASSERT_OK(manager_->WaitUntilFinished());
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
  EXPECT_EQ(reports_.back().result.kind, StepKind::kDelta);
  ExpectStepHolds(4);
  // And once more in the same process, the model being another by now.
  TrainTo(5);
  ASSERT_OK(manager_->Restore(request));
  TrainTo(4);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
  ExpectStepHolds(4);
}

TEST_F(ManagerTest, RestoresTheBest) {
  options_.best = BestOptions{.metric = "auc"};
  Start();
  for (const double auc : {0.1, 0.5, 0.1, 0.9, 0.1, 0.7}) {
    ASSERT_OK(TrainStep({{"auc", auc}}));
  }
  ASSERT_OK(manager_->Close());
  Start();
  RestoreRequest request;
  request.best = true;
  ASSERT_OK_AND_ASSIGN(const RestoreReport report, manager_->Restore(request));
  EXPECT_EQ(report.version.step, 4);
}

TEST_F(ManagerTest, FallsBackFromADamagedStep) {
  Start();
  TrainTo(4);
  ASSERT_OK(manager_->Close());
  manager_.reset();
  // The newest file of small saves.
  std::filesystem::path newest;
  for (const auto& entry :
       std::filesystem::directory_iterator(options_.path + "/db")) {
    if (entry.path().extension() != ".sst") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (bytes.find("ckptdb.greatest_key") != std::string::npos) {
      newest = std::max(newest, entry.path());
    }
  }
  {
    std::fstream file(newest, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(30);
    file.put('\x5a');
  }
  Start();
  RestoreRequest named;
  named.step = 4;
  named.fall_back = true;
  EXPECT_THAT(manager_->Restore(named).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("step 4")));
  RestoreRequest any;
  any.fall_back = true;
  ASSERT_OK_AND_ASSIGN(const RestoreReport report, manager_->Restore(any));
  EXPECT_EQ(report.version.step, 2);
  EXPECT_THAT(report.damaged, ElementsAre(4));
  ASSERT_OK_AND_ASSIGN(const StepRecord damaged,
                       manager_->store()->FindStep(4));
  EXPECT_TRUE(damaged.quarantined);
  TrainTo(4);  // written over
  ASSERT_OK(manager_->Close());
  ExpectStepHolds(4);
}

TEST_F(ManagerTest, MissingStateIsAnError) {
  Start();
  TrainTo(2);
  ASSERT_OK(manager_->Close());
  manager_.reset();
  float more = 5;
  ASSERT_OK(model_->state.AddTensor("more", TensorState::Of(&more, {1})));
  ASSERT_OK(model_->state.AddValue("later", &model_->epoch));
  ASSERT_OK_AND_ASSIGN(manager_,
                       CheckpointManager::Open(options_, &model_->state));
  const std::vector<float> before = model_->weights;
  model_->weights[0] = 77;
  EXPECT_THAT(
      manager_->Restore(),
      StatusIs(absl::StatusCode::kNotFound,
               HasSubstr("step 2 has no extra \"later\", dense \"more\"")));
  EXPECT_EQ(model_->weights[0], 77) << "nothing is touched";
}

TEST_F(ManagerTest, AnExistingStepIsNotSavedAgain) {
  Start();
  TrainTo(2);
  EXPECT_THAT(manager_->Save(),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("step 2")));
  EXPECT_FALSE(manager_->IsSavingInProgress());
  ASSERT_OK_AND_ASSIGN(const StepStory story, manager_->Explain(2));
  EXPECT_EQ(story.saved, "step 2 is a multiple of 2");
  TrainTo(4);
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
}

// A decision knows of the save before it, although nobody waited for it.
TEST_F(ManagerTest, DecidesByTheNewestStep) {
  std::vector<int64_t> newest;
  ASSERT_OK_AND_ASSIGN(
      options_.schedule.permanent,
      SaveIf("noted", [&](const SaveContext& context) {
        newest.push_back(context.last ? context.last->step : -1);
        return true;
      }));
  Start();
  for (int64_t step = 1; step <= 3; ++step) {
    ASSERT_OK_AND_ASSIGN(const StepOutcome outcome, TrainStep());
    ASSERT_TRUE(outcome.save.has_value());
    ASSERT_OK(outcome.save->WaitCommitted());
  }
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(newest, ElementsAre(-1, 1, 2));
}

TEST_F(ManagerTest, EveryNSavesOneIsWhole) {
  options_.base_every = 2;
  Start();
  TrainTo(8);
  ASSERT_OK(manager_->Close());
  std::vector<StepKind> kinds;
  for (const SaveReport& report : reports_) kinds.push_back(report.result.kind);
  EXPECT_THAT(kinds, ElementsAre(StepKind::kFull, StepKind::kDelta,
                                 StepKind::kFull, StepKind::kDelta));
}

class PreemptedTest : public ManagerTest {
 protected:
  // Step 2 is ephemeral; then the machine is to be taken away.
  absl::StatusOr<StepOutcome> PreemptAfterTwo(absl::Duration grace) {
    options_.preemption_grace = grace;
    options_.schedule.permanent = OnPreemption();
    const auto every = FixedInterval(2);
    EXPECT_OK(every);
    options_.schedule.ephemeral = *every;
    Start();
    TrainTo(2);
    EXPECT_OK(manager_->WaitUntilFinished());
    EXPECT_FALSE(manager_->preempted());
    manager_->SetPreempted();
    auto outcome = TrainStep();
    EXPECT_OK(manager_->Close());
    return outcome;
  }
};

TEST_F(PreemptedTest, TheNextStepIsSaved) {
  ASSERT_OK_AND_ASSIGN(const StepOutcome outcome,
                       PreemptAfterTwo(absl::InfiniteDuration()));
  EXPECT_EQ(outcome.decision.why, "preempted");
  EXPECT_THAT(Steps(), ElementsAre(2, 3));
  ASSERT_OK_AND_ASSIGN(const StepRecord saved, manager_->store()->FindStep(3));
  EXPECT_FALSE(saved.ephemeral);
}

TEST_F(PreemptedTest, TheNewestEphemeralStepIsPromotedWhenTimeIsShort) {
  ASSERT_OK_AND_ASSIGN(const StepOutcome outcome,
                       PreemptAfterTwo(absl::ZeroDuration()));
  EXPECT_FALSE(outcome.save.has_value());
  EXPECT_THAT(outcome.decision.why, HasSubstr("step 2 is permanent now"));
  EXPECT_THAT(Steps(), ElementsAre(2));
  ASSERT_OK_AND_ASSIGN(const StepRecord saved, manager_->store()->FindStep(2));
  EXPECT_FALSE(saved.ephemeral);
}

TEST_F(ManagerTest, LogsWhatSavesCost) {
  options_.statistics_path = dir_.path() + "/statistics";
  Start();
  TrainTo(2);
  ASSERT_OK(manager_->WaitUntilFinished());
  model_->users.FailWith(absl::UnavailableError("no \"rows\""));
  TrainTo(4);
  EXPECT_FALSE(manager_->Close().ok());
  std::ifstream log(options_.statistics_path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(log, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 2U);
  ASSERT_OK_AND_ASSIGN(const StepStory failed, manager_->Explain(4));
  EXPECT_THAT(failed.saved,
              HasSubstr("not saved, although step 4 is a multiple of 2: "
                        "UNAVAILABLE: table"));
  EXPECT_THAT(lines[0], HasSubstr(R"({"step":2,"kind":"permanent","why":)"
                                  R"("step 2 is a multiple of 2","status":)"
                                  R"("OK","attempt":1,"saved_as":"full",)"));
  EXPECT_THAT(lines[1], HasSubstr(R"("status":"UNAVAILABLE","error":"table)"
                                  R"( \"user\": no \"rows\"")"));
}

// What a save takes is given back or used again.
TEST_F(ManagerTest, TwoHundredSavesDoNotGrow) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has memory of its own";
  ASSERT_OK_AND_ASSIGN(options_.retention.keep, LatestN(2));
  ASSERT_OK_AND_ASSIGN(options_.schedule.permanent, FixedInterval(1));
  options_.store.background_sweep = true;
  options_.base_every = 5;
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

TEST_F(ManagerTest, OptionsAreChecked) {
  TestModel model;
  const auto expect = [&](const ManagerOptions& options,
                          const std::string& what) {
    EXPECT_THAT(CheckpointManager::Open(options, &model.state).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  };
  expect({}, "path is empty");
  ManagerOptions options = options_;
  options.base_every = -1;
  expect(options, "base_every is -1; it must be at least 0");
  options = options_;
  options.copy_threads = 0;
  expect(options, "copy_threads is 0; it must be at least 1");
  options = options_;
  options.slice_bounds = {0, 5, kSlices};
  expect(options, "3 slice_bounds for 1 ranks; it must be one more");
  options = options_;
  options.deadline = absl::ZeroDuration();
  expect(options, "deadline is 0; it must be above 0");
  EXPECT_FALSE(std::filesystem::exists(options_.path));
}

}  // namespace
}  // namespace ckptdb::testing
