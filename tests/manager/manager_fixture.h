// SPDX-License-Identifier: Apache-2.0
// A manager of a single process, and its model.
#ifndef CKPTDB_TESTS_MANAGER_MANAGER_FIXTURE_H_
#define CKPTDB_TESTS_MANAGER_MANAGER_FIXTURE_H_

#include <condition_variable>
#include <fstream>
#include <mutex>

#include "absl/strings/match.h"
#include "manager/checkpoint_manager.h"
#include "tests/manager/test_model.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {

// Blocks threads that reach it while it is closed.
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
    options_.save.bounds.max_delta_ratio = 100;
    options_.store.on_point = [this](absl::string_view point) {
      if (absl::StartsWith(point, "stage:")) gate_.Pass();
    };
    options_.observers.on_saved = [this](const SaveReport& report) {
      const std::lock_guard<std::mutex> lock(mutex_);
      reports_.push_back(report);
    };
    options_.observers.on_warning = [this](const std::string& warning) {
      const std::lock_guard<std::mutex> lock(mutex_);
      warnings_.push_back(warning);
    };
    options_.observers.now_micros = [this] { return now_micros_; };
    options_.schedule.permanent = SaveEveryNSteps(2);
  }
  void TearDown() override { gate_.Open(); }

  // Simulates a new process.
  void Start() {
    manager_.reset();
    model_ = std::make_unique<TestModel>();
    Reopen();
  }
  // Opens the store again with the same model.
  void Reopen() {
    manager_.reset();
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
  void TrainAndWait(int64_t step) {
    TrainTo(step);
    ASSERT_OK(manager_->WaitUntilFinished());
  }
  void TrainAndClose(int64_t step) {
    TrainTo(step);
    ASSERT_OK(manager_->Close());
  }
  // Returns why a step was saved or not.
  std::string WhySaved(int64_t step) {
    const auto story = manager_->Explain(step);
    EXPECT_OK(story);
    return story.ok() ? story->saved : "";
  }
  std::string WhyKept(int64_t step) {
    const auto story = manager_->Explain(step);
    EXPECT_OK(story);
    return story.ok() ? story->kept : "";
  }
  StepRecord Record(int64_t step) {
    const auto record = manager_->store()->FindStep(step);
    EXPECT_OK(record);
    return record.value_or(StepRecord());
  }
  // Returns the step that was restored; -1 if none was.
  int64_t Restored(const RestoreRequest& request = {}) {
    const auto report = manager_->Restore(request);
    EXPECT_OK(report);
    return report.ok() ? report->version.step : -1;
  }
  // Returns the lines of the statistics.
  std::vector<std::string> Statistics() const {
    std::ifstream file(options_.observers.statistics_path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  // Makes saves fail from now on, or succeed again.
  void FailSaves(bool fail = true) {
    model_->users.FailWith(fail ? absl::UnavailableError("no rows today")
                                : absl::OkStatus());
  }
  // Expects that `step` contains a model trained up to it.
  void ExpectStepHolds(int64_t step) {
    TestModel loaded;
    ManagerOptions options;
    options.path = dir_.path() + "/other";
    ASSERT_OK_AND_ASSIGN(const auto other,
                         CheckpointManager::Open(options, &loaded.state));
    ASSERT_OK(other->Restore({.step = step, .path = options_.path}));
    ExpectTrained(loaded, step);
  }
  StoreOptions HowToRead() const {
    StoreOptions options;
    options.environment = options_.store.environment;
    return options;
  }
  // Returns the records of all steps, even of a closed manager or of none.
  std::vector<StepRecord> Records() {
    if (manager_ != nullptr && manager_->store() != nullptr) {
      return manager_->store()->Steps();
    }
    const auto reader = Reader::Open(options_.path, HowToRead());
    EXPECT_OK(reader);
    return reader.ok() ? (*reader)->Steps() : std::vector<StepRecord>();
  }
  std::vector<int64_t> Steps() {
    std::vector<int64_t> steps;
    for (const StepRecord& record : Records()) {
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
  std::vector<std::string> warnings_;
  std::unique_ptr<TestModel> model_;
  std::unique_ptr<CheckpointManager> manager_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_MANAGER_MANAGER_FIXTURE_H_
