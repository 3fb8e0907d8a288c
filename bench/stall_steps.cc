// SPDX-License-Identifier: Apache-2.0
#include "bench/stall_steps.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "bench/disk.h"
#include "bench/many_steps.h"
#include "bench/measure.h"
#include "manager/checkpoint_manager.h"
#include "schema/status.h"

namespace ckptdb::bench {
namespace {

constexpr double kMaxStepSeconds = 1e-6;
constexpr double kMaxSaveSeconds = 0.5;
constexpr double kMaxPlanSeconds = 0.001;
constexpr int kStepsPerSample = 100'000;
constexpr int kStepsPerRepetition = 10;
constexpr double kMicrosInSecond = 1e6;

// The manager of a store of many steps, all of which it keeps.
class ManySteps {
 public:
  explicit ManySteps(std::string path) : tensor_(kManyStepsTensorElements) {
    options_.path = std::move(path);
    options_.observers.on_saved = [this](const SaveReport& report) {
      report_ = report;
    };
  }

  absl::Status Configure() {
    constexpr int64_t kNever = int64_t{1} << 60;
    options_.schedule.permanent = SaveEveryNSteps(kNever);
    options_.retention.keep = LatestN(3) | BestN("auc", 1) | KeepEveryNSteps(1);
    return model_.AddTensor(
        "w", TensorState::Of(tensor_.data(), {kManyStepsTensorElements}));
  }
  absl::Status Open() {
    CKPTDB_ASSIGN_OR_RETURN(manager_,
                            CheckpointManager::Open(options_, &model_));
    return absl::OkStatus();
  }
  absl::Status Close() {
    CKPTDB_RETURN_IF_ERROR(manager_->Close());
    manager_.reset();
    return absl::OkStatus();
  }

  CheckpointManager& manager() { return *manager_; }
  const std::string& path() const { return options_.path; }

  // Trains a step that is saved, and returns the report of the save.
  absl::StatusOr<SaveReport> SaveStep() {
    ++tensor_[0];
    CKPTDB_RETURN_IF_ERROR(manager_->Step().status());
    CKPTDB_RETURN_IF_ERROR(manager_->Save().status());
    CKPTDB_RETURN_IF_ERROR(manager_->WaitUntilFinished());
    return report_;
  }

 private:
  ManagerOptions options_;
  std::vector<uint64_t> tensor_;
  ModelState model_;
  SaveReport report_;
  std::unique_ptr<CheckpointManager> manager_;
};

absl::Status MeasureOpen(const BenchOptions& options, ManySteps* many,
                         Report* report) {
  const std::string path = many->path();
  const auto store = std::make_shared<std::unique_ptr<Store>>();
  Contestant ours{"ours", nullptr, [many] { return many->Open(); },
                  [many] { return many->Close(); }};
  Contestant raw{"Store::Open", nullptr,
                 [path, store] {
                   CKPTDB_ASSIGN_OR_RETURN(*store, Store::Open(path));
                   return absl::OkStatus();
                 },
                 [store] {
                   store->reset();
                   return absl::OkStatus();
                 }};
  CKPTDB_ASSIGN_OR_RETURN(
      const std::vector<Outcome> outcomes,
      TakeTurns("stall/open", {std::move(ours), std::move(raw)},
                options.repetitions));
  CaseResult result = Compare("stall/open", FileBytes(path), outcomes);
  result.figures = {{"steps", static_cast<double>(options.steps)}};
  result.goals = {{"seconds", result.seconds.median, kMaxSaveSeconds}};
  report->Add(std::move(result));
  return absl::OkStatus();
}

// Divides each outcome by the number of steps, for the time of one of many
// calls.
void DivideBySteps(std::vector<Outcome>* outcomes) {
  for (Outcome& outcome : *outcomes) {
    for (Sample& sample : outcome.samples) {
      sample.seconds /= kStepsPerSample;
      sample.cpu_seconds /= kStepsPerSample;
    }
  }
}

absl::Status MeasureSteps(const BenchOptions& options, ManySteps* many,
                          Report* report) {
  Contestant ours{"ours", nullptr,
                  [many]() -> absl::Status {
                    for (int i = 0; i < kStepsPerSample; ++i) {
                      CKPTDB_RETURN_IF_ERROR(many->manager().Step().status());
                    }
                    return absl::OkStatus();
                  },
                  nullptr};
  Contestant raw{"absl::Now", nullptr,
                 [] {
                   absl::Time last;
                   for (int i = 0; i < kStepsPerSample; ++i) {
                     last = std::max(last, absl::Now());
                   }
                   return last == absl::Time()
                              ? absl::InternalError("the clock stands still")
                              : absl::OkStatus();
                 },
                 nullptr};
  CKPTDB_ASSIGN_OR_RETURN(
      std::vector<Outcome> outcomes,
      TakeTurns("stall/step", {std::move(ours), std::move(raw)},
                options.repetitions));
  DivideBySteps(&outcomes);
  CaseResult result = Compare("stall/step", sizeof(int64_t), outcomes);
  result.goals = {{"seconds", result.seconds.median, kMaxStepSeconds}};
  report->Add(std::move(result));
  return absl::OkStatus();
}

// A report counts whole microseconds.
double Seconds(int64_t micros) {
  return static_cast<double>(std::max<int64_t>(micros, 1)) / kMicrosInSecond;
}

absl::Status MeasurePlans(const BenchOptions& options, ManySteps* many,
                          Report* report) {
  Outcome ours{"ours", {}};
  Outcome whole{"the whole save", {}};
  uint64_t bytes = 0;
  for (int i = 0; i < options.repetitions * kStepsPerRepetition; ++i) {
    CKPTDB_ASSIGN_OR_RETURN(const SaveReport saved, many->SaveStep());
    bytes = saved.result.exclusive_bytes;
    ours.samples.push_back({Seconds(saved.planning_micros), 0});
    whole.samples.push_back({Seconds(saved.total_micros), 0});
  }
  CaseResult result = Compare("stall/plan", bytes, {ours, whole});
  result.figures = {{"steps", static_cast<double>(options.steps)}};
  result.goals = {{"seconds", result.seconds.median, kMaxPlanSeconds}};
  report->Add(std::move(result));
  return absl::OkStatus();
}

}  // namespace

absl::Status RunStallSteps(const BenchOptions& options, Report* report) {
  constexpr uint64_t kNeededBytes = uint64_t{1} << 30;
  CKPTDB_ASSIGN_OR_RETURN(const auto workspace,
                          Workspace::Make(options.dir, kNeededBytes));
  ManySteps many(workspace->Path("store"));
  CKPTDB_RETURN_IF_ERROR(many.Configure());
  CKPTDB_RETURN_IF_ERROR(BuildSteps(many.path(), options.steps, options.seed));
  CKPTDB_RETURN_IF_ERROR(MeasureOpen(options, &many, report));
  CKPTDB_RETURN_IF_ERROR(many.Open());
  CKPTDB_RETURN_IF_ERROR(many.manager().Restore().status());
  CKPTDB_RETURN_IF_ERROR(MeasureSteps(options, &many, report));
  CKPTDB_RETURN_IF_ERROR(MeasurePlans(options, &many, report));
  return many.Close();
}

}  // namespace ckptdb::bench
