// Small saves of a manager, thousands in a row: whether memory grows, and
// whether those that go into the write batch take less time than files would.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "ckptdb/bench/cases.h"
#include "ckptdb/bench/disk.h"
#include "ckptdb/bench/measure.h"
#include "ckptdb/bench/payload.h"
#include "ckptdb/bench/store_save.h"
#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/schema/bytes/limits.h"
#include "ckptdb/schema/status.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::bench {
namespace {

// The margin of sizes just small enough for the write batch, and just too
// large.
constexpr uint64_t kMargin = kInlineBytes / 32;
constexpr uint64_t kBatchBytes = kInlineBytes - kMargin;
constexpr uint64_t kFileBytes = kInlineBytes + kMargin;
constexpr uint64_t kLargerBytes = 5'000'000;
constexpr uint64_t kSavesPerFileSave = 10;
// Saves before memory is first measured; it may grow until then.
constexpr uint64_t kWarmUpSaves = 100;
constexpr double kMaxGrowthOfSaves = 16 << 20;
constexpr double kMaxTimesFiles = 1;

// A manager that saves one tensor, another one each time.
class TensorTraining {
 public:
  static absl::StatusOr<std::unique_ptr<TensorTraining>> Make(
      const std::string& path, uint64_t bytes, const BenchOptions& options) {
    CKPTDB_ASSIGN_OR_RETURN(Pages tensor, Pages::Allocate(bytes));
    FillRandom(tensor.memory(), options.seed);
    auto training =
        std::unique_ptr<TensorTraining>(new TensorTraining(std::move(tensor)));
    CKPTDB_RETURN_IF_ERROR(training->Open(path, options));
    return training;
  }

  // One save, from its step until it is acknowledged.
  absl::Status Save(Outcome* outcome) {
    Change();
    CKPTDB_RETURN_IF_ERROR(manager_->Step().status());
    CKPTDB_ASSIGN_OR_RETURN(const Sample sample, Measure([&]() -> absl::Status {
                              CKPTDB_RETURN_IF_ERROR(manager_->Save().status());
                              return manager_->WaitUntilFinished();
                            }));
    outcome->samples.push_back(sample);
    return absl::OkStatus();
  }

 private:
  explicit TensorTraining(Pages tensor) : tensor_(std::move(tensor)) {}

  absl::Status Open(const std::string& path, const BenchOptions& options) {
    const Memory memory = tensor_.memory();
    const auto elements = static_cast<int64_t>(memory.bytes / sizeof(float));
    CKPTDB_RETURN_IF_ERROR(model_.AddTensor(
        "weights",
        TensorState::Of(reinterpret_cast<float*>(memory.data), {elements})));
    ManagerOptions managing;
    managing.path = path;
    managing.stage = StageOptionsOf(options);
    managing.retention.keep = LatestN(2);
    CKPTDB_ASSIGN_OR_RETURN(manager_,
                            CheckpointManager::Open(managing, &model_));
    return absl::OkStatus();
  }

  void Change() {
    const uint64_t word = MixId(++changes_);
    std::memcpy(tensor_.memory().data, &word, sizeof(word));
  }

  const Pages tensor_;
  uint64_t changes_ = 0;
  ModelState model_;
  std::unique_ptr<CheckpointManager> manager_;
};

// The most that was resident until now.
class MostResident {
 public:
  void Look() { bytes_ = std::max(bytes_, ResidentBytes()); }
  double bytes() const { return static_cast<double>(bytes_); }

 private:
  uint64_t bytes_ = 0;
};

}  // namespace

absl::Status RunSmall(const BenchOptions& options, Report* report) {
  constexpr uint64_t kNeededBytes = uint64_t{1} << 30;
  CKPTDB_ASSIGN_OR_RETURN(const auto workspace,
                          Workspace::Make(options.dir, kNeededBytes));
  const auto train = [&](const char* name, uint64_t bytes) {
    return TensorTraining::Make(workspace->Path(name), bytes, options);
  };
  CKPTDB_ASSIGN_OR_RETURN(const auto in_batch, train("batch", kBatchBytes));
  CKPTDB_ASSIGN_OR_RETURN(const auto in_files, train("files", kFileBytes));
  CKPTDB_ASSIGN_OR_RETURN(const auto larger, train("larger", kLargerBytes));
  Outcome batch{"batch", {}};
  Outcome files{"files", {}};
  Outcome more{"larger", {}};
  MostResident first;
  MostResident all;
  for (uint64_t i = 0; i < options.saves; ++i) {
    if (i % kSavesPerFileSave == 0) {
      CKPTDB_RETURN_IF_ERROR(in_files->Save(&files));
    }
    CKPTDB_RETURN_IF_ERROR(in_batch->Save(&batch));
    CKPTDB_RETURN_IF_ERROR(larger->Save(&more));
    if (i < kWarmUpSaves) first.Look();
    all.Look();
  }
  CaseResult result = Compare("small", kBatchBytes, {batch, files});
  const double growth_bytes = all.bytes() - first.bytes();
  result.figures = {{"saves", static_cast<double>(options.saves)},
                    {"file_bytes", static_cast<double>(kFileBytes)},
                    {"larger_bytes", static_cast<double>(kLargerBytes)},
                    {"larger_seconds", SecondsOf(more).median},
                    {"resident_bytes_at_first", first.bytes()},
                    {"resident_bytes_most", all.bytes()}};
  result.goals = {{"growth_bytes", growth_bytes, kMaxGrowthOfSaves},
                  {"times_files", result.ratio(), kMaxTimesFiles}};
  report->Add(std::move(result));
  return absl::OkStatus();
}

}  // namespace ckptdb::bench
