// SPDX-License-Identifier: Apache-2.0
#include "tools/tensor_stats.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "schema/status.h"
#include "tools/widened.h"

namespace ckptdb::tool {
namespace {

// The statistics of the first pass.
struct StatsPass {
  TensorStats stats;
  double sum = 0;
};

template <typename T>
void CountBlock(const T* numbers, size_t count, StatsPass* pass) {
  TensorStats& stats = pass->stats;
  T min = std::numeric_limits<T>::max();
  T max = std::numeric_limits<T>::lowest();
  uint64_t finite = 0;
  uint64_t nan = 0;
  uint64_t zeros = 0;
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    const T x = numbers[i];
    const bool is_finite = IsFiniteElement(x);
    finite += is_finite ? 1 : 0;
    nan += IsNanElement(x) ? 1 : 0;
    zeros += x == 0 ? 1 : 0;
    min = is_finite && x < min ? x : min;
    max = is_finite && x > max ? x : max;
    sum += is_finite ? static_cast<double>(x) : 0;
  }
  if (finite > 0) {
    const bool first = stats.finite() == 0;
    stats.min = first ? min : std::min<long double>(stats.min, min);
    stats.max = first ? max : std::max<long double>(stats.max, max);
  }
  stats.elements += count;
  stats.nan += nan;
  stats.inf += count - finite - nan;
  stats.zeros += zeros;
  pass->sum += sum;
}

void CountArray(DType dtype, const char* bytes, uint64_t size,
                StatsPass* pass) {
  ForWidened(dtype, bytes, size / DTypeBytes(dtype), 1,
             [&](const auto* numbers, size_t count) {
               CountBlock(numbers, count, pass);
             });
}

// The second pass: squared deviations from the mean, and the histogram.
class TensorSpread {
 public:
  TensorSpread(size_t bins, TensorStats* stats) : stats_(stats) {
    const auto range = static_cast<double>(stats->max - stats->min);
    if (range > 0) stats->histogram.resize(bins);
    min_ = static_cast<double>(stats->min);
    // A range above the largest double is infinite.
    scale_ = static_cast<double>(bins) / range;
    last_ = bins - 1;
  }

  template <typename T>
  void Add(const T* numbers, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; ++i) {
      if (!IsFiniteElement(numbers[i])) continue;
      const auto x = static_cast<double>(numbers[i]);
      sum += (x - stats_->mean) * (x - stats_->mean);
      if (stats_->histogram.empty()) continue;
      ++stats_->histogram[std::min(
          last_, static_cast<size_t>(std::max((x - min_) * scale_, 0.0)))];
    }
    squares_ += sum;
  }

  void Finish() {
    const auto finite = static_cast<double>(stats_->finite());
    if (finite > 0) stats_->std = std::sqrt(squares_ / finite);
  }

 private:
  TensorStats* const stats_;
  double min_ = 0;
  double scale_ = 0;
  size_t last_ = 0;
  double squares_ = 0;
};

}  // namespace

TensorStats CountElements(DType dtype, const char* bytes, uint64_t size) {
  StatsPass pass;
  CountArray(dtype, bytes, size, &pass);
  return pass.stats;
}

absl::StatusOr<std::vector<TensorStats>> MeasureTensors(
    const StepReader& step, absl::Span<const TensorPart> parts, size_t bins,
    const ReadOptions& options) {
  std::vector<StatsPass> passes(parts.size());
  CKPTDB_RETURN_IF_ERROR(ScanTensors(
      step, parts, options, [&](size_t i, const char* bytes, uint64_t size) {
        CountArray(parts[i].spec.dtype, bytes, size, &passes[i]);
        return absl::OkStatus();
      }));
  std::vector<TensorStats> stats;
  for (StatsPass& pass : passes) {
    const auto finite = static_cast<double>(pass.stats.finite());
    if (finite > 0) pass.stats.mean = pass.sum / finite;
    stats.push_back(std::move(pass.stats));
  }
  if (bins == 0) return stats;
  std::vector<TensorSpread> spreads;
  for (TensorStats& each : stats) spreads.emplace_back(bins, &each);
  CKPTDB_RETURN_IF_ERROR(ScanTensors(
      step, parts, options, [&](size_t i, const char* bytes, uint64_t size) {
        const DType dtype = parts[i].spec.dtype;
        ForWidened(dtype, bytes, size / DTypeBytes(dtype), 1,
                   [&](const auto* numbers, size_t count) {
                     spreads[i].Add(numbers, count);
                   });
        return absl::OkStatus();
      }));
  for (TensorSpread& spread : spreads) spread.Finish();
  return stats;
}

}  // namespace ckptdb::tool
