// SPDX-License-Identifier: Apache-2.0
// Saves of a manager beside a training: how long it stands still, and whether
// memory grows.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "bench/cases.h"
#include "bench/disk.h"
#include "bench/stall_model.h"
#include "bench/store_save.h"
#include "db/base/parallel.h"
#include "manager/checkpoint_manager.h"
#include "schema/status.h"

namespace ckptdb::bench {
namespace {

constexpr double kMaxCopies = 1.2;
constexpr int kTrainers = 2;
constexpr double kMicrosPerSecond = 1e6;

constexpr int kSaves = 200;
constexpr int kFirstSaves = 20;  // after which nothing grows any more
constexpr double kMaxGrowthBytes = 16 << 20;
// The model of the many saves is smaller by this.
constexpr uint64_t kSmaller = 64;

// A copy of the bytes that a save copies, by as many threads, into memory that
// was used before: memcpy of the tensors, and of each changed row where the
// table has it, in the table's order.
class RawCopy {
 public:
  static absl::StatusOr<std::unique_ptr<RawCopy>> Make(const StallModel& model,
                                                       int threads) {
    CKPTDB_ASSIGN_OR_RETURN(Pages to, Pages::Allocate(model.bytes_to_copy()));
    return std::unique_ptr<RawCopy>(new RawCopy(model, std::move(to), threads));
  }

  absl::Status Run() const {
    const Memory tensors = model_.tensors();
    const uint64_t pieces = (tensors.bytes + kPieceBytes - 1) / kPieceBytes;
    constexpr uint64_t kPieceRows = kPieceBytes / Table::kRowBytes;
    const uint64_t rows = model_.table().changed_rows();
    const uint64_t row_pieces = (rows + kPieceRows - 1) / kPieceRows;
    char* const to = to_.memory().data;
    return internal::ParallelFor(
        threads_, pieces + row_pieces, [&](int, uint64_t i) {
          if (i < pieces) {
            const size_t at = i * kPieceBytes;
            std::memcpy(to + at, tensors.data + at,
                        std::min(kPieceBytes, tensors.bytes - at));
            return absl::OkStatus();
          }
          const uint64_t first = (i - pieces) * kPieceRows;
          model_.table().CopyChanged(
              first, std::min(kPieceRows, rows - first),
              to + tensors.bytes + first * Table::kRowBytes);
          return absl::OkStatus();
        });
  }

 private:
  RawCopy(const StallModel& model, Pages to, int threads)
      : model_(model), to_(std::move(to)), threads_(threads) {}

  const StallModel& model_;
  const Pages to_;
  const int threads_;
};

// A manager that saves a model on request.
class StalledTraining {
 public:
  static absl::StatusOr<std::unique_ptr<StalledTraining>> Make(
      const std::string& path, StallRows kind, uint64_t rows,
      const BenchOptions& options) {
    auto training = std::make_unique<StalledTraining>();
    CKPTDB_ASSIGN_OR_RETURN(training->model_,
                            StallModel::Make(kind, rows, options.seed));
    ManagerOptions managing;
    managing.path = path;
    managing.store = StoreOptionsOf(options);
    managing.retention.keep = LatestN(2);
    StalledTraining* const self = training.get();
    managing.observers.on_saved = [self](const SaveReport& report) {
      self->report_ = report;
    };
    CKPTDB_ASSIGN_OR_RETURN(
        training->copy_,
        RawCopy::Make(*training->model_, managing.save.copy_threads));
    CKPTDB_ASSIGN_OR_RETURN(
        training->manager_,
        CheckpointManager::Open(managing, training->model_->state()));
    return training;
  }

  // A step that is saved, and a copy. The first is of all rows, and the second
  // the first one of those that changed.
  absl::Status Turn(Outcome* ours, Outcome* raw) {
    CKPTDB_RETURN_IF_ERROR(
        model_->Train(static_cast<uint64_t>(manager_->global_step())));
    CKPTDB_RETURN_IF_ERROR(manager_->Step().status());
    CKPTDB_ASSIGN_OR_RETURN(const Sample save,
                            Measure([&] { return manager_->Save().status(); }));
    CKPTDB_RETURN_IF_ERROR(manager_->WaitUntilFinished());
    CKPTDB_ASSIGN_OR_RETURN(const Sample copied,
                            Measure([&] { return copy_->Run(); }));
    ours->samples.push_back(
        {static_cast<double>(report_.blocking_micros) / kMicrosPerSecond,
         save.cpu_seconds});
    raw->samples.push_back(copied);
    return absl::OkStatus();
  }

  const SaveReport& report() const { return report_; }
  uint64_t bytes() const { return model_->bytes_to_copy(); }

 private:
  SaveReport report_;
  std::unique_ptr<StallModel> model_;
  std::unique_ptr<RawCopy> copy_;
  std::unique_ptr<CheckpointManager> manager_;
};

absl::Status RunSaves(const std::string& name, StallRows kind,
                      const BenchOptions& options, Report* report) {
  constexpr int kWarmUp = 2;
  CKPTDB_ASSIGN_OR_RETURN(
      const auto workspace,
      Workspace::Make(options.dir, 2 * options.rows * Table::kRowBytes));
  CKPTDB_ASSIGN_OR_RETURN(const auto training,
                          StalledTraining::Make(workspace->Path("store"), kind,
                                                options.rows, options));
  const Trainers trainers(kTrainers);
  Outcome first{"first", {}};
  Outcome ours{"ours", {}};
  Outcome raw{"memcpy", {}};
  for (int i = 0; i < kWarmUp; ++i) {
    CKPTDB_RETURN_IF_ERROR(training->Turn(&first, &first));
  }
  for (int i = 0; i < options.repetitions; ++i) {
    CKPTDB_RETURN_IF_ERROR(training->Turn(&ours, &raw));
  }
  CaseResult result = Compare(name, training->bytes(), {ours, raw});
  result.figures = {
      {"copied_bytes", static_cast<double>(training->report().copied_bytes)},
      {"seconds_of_all_rows", first.samples[0].seconds}};
  result.goals = {{"copies", result.ratio(), kMaxCopies}};
  report->Add(std::move(result));
  return absl::OkStatus();
}

absl::Status RunManySaves(const BenchOptions& options, Report* report) {
  const uint64_t rows = std::max<uint64_t>(1, options.rows / kSmaller);
  CKPTDB_ASSIGN_OR_RETURN(
      const auto workspace,
      Workspace::Make(options.dir, kSaves * rows * Table::kRowBytes));
  CKPTDB_ASSIGN_OR_RETURN(
      const auto training,
      StalledTraining::Make(workspace->Path("store"), StallRows::kArrays, rows,
                            options));
  const Trainers trainers(kTrainers);
  Outcome ours{"ours", {}};
  Outcome raw{"memcpy", {}};
  double first_bytes = 0;
  for (int i = 0; i < kSaves; ++i) {
    if (i == kFirstSaves) first_bytes = static_cast<double>(ResidentBytes());
    CKPTDB_RETURN_IF_ERROR(training->Turn(&ours, &raw));
  }
  const auto last_bytes = static_cast<double>(ResidentBytes());
  CaseResult result = Compare("stall/saves", training->bytes(), {ours, raw});
  result.figures = {{"saves", kSaves},
                    {"resident_bytes_at_first", first_bytes},
                    {"resident_bytes", last_bytes}};
  result.goals = {{"growth_bytes", last_bytes - first_bytes, kMaxGrowthBytes}};
  report->Add(std::move(result));
  return absl::OkStatus();
}

constexpr double kMaxStepSeconds = 1e-6;
constexpr double kMaxSaveSeconds = 0.5;
constexpr double kMaxPlanSeconds = 0.001;
constexpr int kStepsPerSample = 100'000;
constexpr int kStepsPerRepetition = 10;

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
  return static_cast<double>(std::max<int64_t>(micros, 1)) / kMicrosPerSecond;
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

// Measures a store of many steps: opening it, steps that are not saved, and the
// planning of a save.
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

}  // namespace

absl::Status RunStall(const BenchOptions& options, Report* report) {
  CKPTDB_RETURN_IF_ERROR(
      RunSaves("stall", StallRows::kArrays, options, report));
  CKPTDB_RETURN_IF_ERROR(
      RunSaves("stall/columns", StallRows::kColumns, options, report));
  CKPTDB_RETURN_IF_ERROR(
      RunSaves("stall/map", StallRows::kMap, options, report));
  CKPTDB_RETURN_IF_ERROR(RunManySaves(options, report));
  return RunStallSteps(options, report);
}

}  // namespace ckptdb::bench
