// Lossy codecs: how fast they are, and how many bytes saves of changes have
// under them on a load that drifts.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ckptdb/bench/cases.h"
#include "ckptdb/bench/disk.h"
#include "ckptdb/bench/measure.h"
#include "ckptdb/bench/store_save.h"
#include "ckptdb/db/store.h"
#include "ckptdb/schema/bytes/limits.h"
#include "ckptdb/schema/bytes/lossy.h"
#include "ckptdb/schema/status.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::bench {
namespace {

constexpr uint32_t kNumbers = 64;
constexpr double kLeastGbPerSecond = 2;
// What Check-N-Run (Eisenman et al., NSDI 2022) reports of increments and
// quantization together.
constexpr double kReportedLeast = 6;
constexpr double kReportedMost = 17;

// A page of an embedding, which is encoded and decoded over and over.
class CodecSpeed {
 public:
  CodecSpeed(std::string name, Codec codec, uint32_t row_numbers, uint64_t seed)
      : name_(std::move(name)), codec_(codec), row_numbers_(row_numbers) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(0, 0.05f);
    for (uint64_t at = 0; at < kChunkBytes; at += sizeof(float)) {
      const float number = normal(random);
      raw_.append(reinterpret_cast<const char*>(&number), sizeof(number));
    }
    back_ = copy_ = raw_;
  }

  absl::Status Run(const BenchOptions& options, Report* report) {
    const std::vector<Contestant> contestants = {
        {"encode",
         {},
         [this] { return Repeat([this] { return Encode(); }); },
         {}},
        {"memcpy",
         {},
         [this] { return Repeat([this] { return Copy(); }); },
         {}},
        {"decode",
         {},
         [this] { return Repeat([this] { return Decode(); }); },
         {}}};
    CKPTDB_ASSIGN_OR_RETURN(const std::vector<Outcome> outcomes,
                            TakeTurns(name_, contestants, options.repetitions));
    CaseResult result =
        Compare("lossy/" + name_, kPages * raw_.size(), {outcomes.data(), 2});
    const auto gb_per_second = [&](const Outcome& outcome) {
      return 1 / PerGb(CpuSecondsOf(outcome).median, result.bytes);
    };
    result.figures = {{"encode_gb_per_cpu_second", gb_per_second(outcomes[0])},
                      {"decode_gb_per_cpu_second", gb_per_second(outcomes[2])},
                      {"memcpy_gb_per_cpu_second", gb_per_second(outcomes[1])},
                      {"stored_part", static_cast<double>(stored_.size()) /
                                          static_cast<double>(raw_.size())}};
    result.goals = {{"encode_gb_per_cpu_second", gb_per_second(outcomes[0]),
                     kLeastGbPerSecond, /*at_least=*/true},
                    {"decode_gb_per_cpu_second", gb_per_second(outcomes[2]),
                     kLeastGbPerSecond, /*at_least=*/true}};
    report->Add(std::move(result));
    return absl::OkStatus();
  }

 private:
  static constexpr int kPages = 1000;

  template <typename Once>
  absl::Status Repeat(const Once& once) {
    for (int i = 0; i < kPages; ++i) CKPTDB_RETURN_IF_ERROR(once());
    return absl::OkStatus();
  }
  absl::Status Encode() {
    Item::Error error;
    if (Quantize(codec_, raw_, row_numbers_, Rounding::kNearest, &stored_,
                 &error)) {
      return absl::OkStatus();
    }
    return absl::InternalError("the codec does not take the page");
  }
  absl::Status Decode() {
    return Dequantize(codec_, stored_, back_.size(), back_.data());
  }
  absl::Status Copy() {
    std::memcpy(copy_.data(), raw_.data(), raw_.size());
    // The compiler must not leave out a copy that nobody reads.
    asm volatile("" : : "r"(copy_.data()) : "memory");
    return absl::OkStatus();
  }

  const std::string name_;
  const Codec codec_;
  const uint32_t row_numbers_;
  std::string raw_;
  std::string stored_;
  std::string back_;
  std::string copy_;
};

// A table whose rows are drawn by a Zipf law of exponent 1, in an order that
// moves on from one interval to the next.
class DriftingTable {
 public:
  DriftingTable(uint64_t rows, uint64_t seed)
      : random_(seed), values_(rows * kNumbers), sums_(rows, 0) {
    std::normal_distribution<float> normal(0, 0.05f);
    for (float& value : values_) value = normal(random_);
    for (uint64_t i = 0; i < rows; ++i) ids_.push_back(static_cast<int64_t>(i));
  }

  uint64_t rows() const { return ids_.size(); }
  // Trains an interval of half as many draws as there are rows, and makes its
  // rows those that changed.
  void Train() {
    const uint64_t drift = rows() / 50 * ++interval_;
    std::uniform_real_distribution<double> uniform(0, 1);
    std::vector<bool> touched(rows());
    for (uint64_t draw = 0; draw < rows() / 2; ++draw) {
      const auto rank = static_cast<uint64_t>(
          std::pow(static_cast<double>(rows()), uniform(random_)));
      const uint64_t row = MixId(rank + drift) % rows();
      touched[row] = true;
      for (uint32_t i = 0; i < kNumbers; ++i) {
        values_[row * kNumbers + i] +=
            1e-3f * static_cast<float>(static_cast<int32_t>(random_())) /
            2147483648.0f;
      }
      sums_[row] += 1;
    }
    changed_.clear();
    for (uint64_t row = 0; row < rows(); ++row) {
      if (touched[row]) changed_.push_back(static_cast<int64_t>(row));
    }
    Gather();
  }
  uint64_t changed_rows() const { return changed_.size(); }

  // Calls `save` with the table, its changes too if `delta`.
  template <typename Save>
  absl::Status WithState(Codec codec, bool delta, const Save& save) const {
    const RowSource::Arrays all(
        ids_, {{values_.data(), kRowBytes}, {sums_.data(), sizeof(float)}});
    const RowSource::Arrays upserted(changed_,
                                     {{changed_values_.data(), kRowBytes},
                                      {changed_sums_.data(), sizeof(float)}});
    RankState state;
    RankState::Table table;
    table.name = "table";
    table.slots = {{"embedding", DType::kF32, kNumbers, codec},
                   {"adagrad_sum", DType::kF32, 1}};
    table.rows = &all;
    if (delta) table.changes = RankState::Changes{&upserted, {}};
    state.AddTable(table);
    return save(state);
  }

 private:
  static constexpr uint64_t kRowBytes = kNumbers * sizeof(float);

  void Gather() {
    changed_values_.resize(changed_.size() * kNumbers);
    changed_sums_.resize(changed_.size());
    for (size_t i = 0; i < changed_.size(); ++i) {
      const auto row = static_cast<size_t>(changed_[i]);
      std::copy_n(
          values_.begin() + static_cast<std::ptrdiff_t>(row * kNumbers),
          kNumbers,
          changed_values_.begin() + static_cast<std::ptrdiff_t>(i * kNumbers));
      changed_sums_[i] = sums_[row];
    }
  }

  std::mt19937_64 random_;
  std::vector<float> values_;
  std::vector<float> sums_;
  std::vector<int64_t> ids_;
  std::vector<int64_t> changed_;
  std::vector<float> changed_values_;
  std::vector<float> changed_sums_;
  uint64_t interval_ = 0;
};

// One way to save every interval, with a store of its own.
class Saver {
 public:
  Saver(std::string name, Codec codec, bool delta)
      : name_(std::move(name)), codec_(codec), delta_(delta) {}

  const std::string& name() const { return name_; }
  double stored_bytes() const { return stored_bytes_; }
  const Outcome& outcome() const { return outcome_; }

  absl::Status Save(const Workspace& workspace, const DriftingTable& table,
                    const BenchOptions& options) {
    if (store_ == nullptr) {
      outcome_.name = name_;
      CKPTDB_ASSIGN_OR_RETURN(
          store_, Store::Open(workspace.Path(absl::StrCat("store ", name_))));
    }
    const bool delta = delta_ && last_.has_value();
    return table.WithState(codec_, delta, [&](const RankState& state) {
      return SaveState(state, delta, options);
    });
  }

 private:
  absl::Status SaveState(const RankState& state, bool delta,
                         const BenchOptions& options) {
    SaveSpec spec;
    spec.step = ++step_;
    if (delta) spec.parent = last_;
    PublishSpec publish;
    if (!delta && step_ > 1) publish.retire = {step_ - 1};
    SaveResult saved;
    CKPTDB_ASSIGN_OR_RETURN(const Sample sample, Measure([&]() -> absl::Status {
                              CKPTDB_ASSIGN_OR_RETURN(
                                  saved, store_->Save(spec, state, publish,
                                                      StageOptionsOf(options)));
                              return absl::OkStatus();
                            }));
    outcome_.samples.push_back(sample);
    last_ = saved.version;
    if (delta != (saved.kind == StepRecord::Kind::kDelta)) {
      return absl::InternalError(
          absl::StrCat(name_, ": step ", step_, " is not of the right kind"));
    }
    stored_bytes_ += static_cast<double>(saved.exclusive_bytes);
    return absl::OkStatus();
  }

  const std::string name_;
  const Codec codec_;
  const bool delta_;
  std::unique_ptr<Store> store_;
  std::optional<Version> last_;
  int64_t step_ = 0;
  double stored_bytes_ = 0;
  Outcome outcome_;
};

// Saves a table after each of some intervals in several ways. The first save of
// changes is of the whole table.
absl::Status RunBandwidth(const BenchOptions& options, Report* report) {
  constexpr uint64_t kRowsPerRow = 16;  // it is saved many times over
  constexpr int kIntervals = 12;
  const uint64_t rows = std::max<uint64_t>(options.rows / kRowsPerRow, 1);
  const uint64_t raw_bytes = rows * (8 + 4 + kNumbers * sizeof(float));
  CKPTDB_ASSIGN_OR_RETURN(const auto workspace,
                          Workspace::Make(options.dir, raw_bytes * 16));
  DriftingTable table(rows, options.seed);
  Saver savers[] = {{"delta_int8", Codec::kInt8, true},
                    {"full_f32", Codec::kNone, false},
                    {"delta_f32", Codec::kNone, true},
                    {"full_int8", Codec::kInt8, false},
                    {"delta_bf16", Codec::kBf16, true}};
  double changed = 0;
  for (int interval = 0; interval < kIntervals; ++interval) {
    if (interval > 0) {
      table.Train();
      changed += static_cast<double>(table.changed_rows()) /
                 static_cast<double>(rows) / (kIntervals - 1);
    }
    for (Saver& saver : savers) {
      CKPTDB_RETURN_IF_ERROR(saver.Save(*workspace, table, options));
    }
  }
  CaseResult result = Compare("lossy/bandwidth", raw_bytes,
                              {savers[0].outcome(), savers[1].outcome()});
  const double full = savers[1].stored_bytes();
  result.figures = {{"rows", static_cast<double>(rows)},
                    {"saves", kIntervals},
                    {"changed_part", changed},
                    {"reported_least", kReportedLeast},
                    {"reported_most", kReportedMost}};
  for (const Saver& saver : savers) {
    result.figures.push_back({absl::StrCat("full_f32_over_", saver.name()),
                              full / saver.stored_bytes()});
  }
  result.goals = {{"full_f32_over_delta_int8", full / savers[0].stored_bytes(),
                   kReportedLeast, /*at_least=*/true}};
  report->Add(std::move(result));
  return absl::OkStatus();
}

}  // namespace

absl::Status RunLossy(const BenchOptions& options, Report* report) {
  const auto run = [&](const std::string& name, Codec codec, uint32_t numbers) {
    return CodecSpeed(name, codec, numbers, options.seed).Run(options, report);
  };
  CKPTDB_RETURN_IF_ERROR(run("bf16", Codec::kBf16, kNumbers));
  CKPTDB_RETURN_IF_ERROR(run("int8", Codec::kInt8, kNumbers));
  for (const uint32_t numbers : {128, 32, 16, 8, 4}) {
    CKPTDB_RETURN_IF_ERROR(
        run(absl::StrCat("int8/", numbers), Codec::kInt8, numbers));
  }
  return RunBandwidth(options, report);
}

}  // namespace ckptdb::bench
