// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "manager/policies.h"
#include "manager/policy/keep_rule.h"
#include "manager/policy/policy_checks.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

using internal::KeepAnswer;
using Steps = absl::Span<const StepInfo>;

// A step's score; the highest is the best: 0 without the metric, 1 for NaN, 2
// for a number; then its value.
using Score = std::pair<int, double>;

Score ScoreOf(const Metrics& metrics, const KeepPolicy::BestOptions& options) {
  const auto found = metrics.find(options.metric);
  if (found == metrics.end()) return {0, 0};
  if (std::isnan(found->second)) return {1, 0};
  return {2, options.lower_is_better ? -found->second : found->second};
}

// Orders steps by a metric. Ranks are computed when the first is asked for.
class Ranking {
 public:
  Ranking(Steps steps, const KeepPolicy::BestOptions& options)
      : order_(steps.size()) {
    scores_.reserve(steps.size());
    for (const StepInfo& step : steps) {
      scores_.push_back(ScoreOf(step.metrics, options));
    }
    std::iota(order_.begin(), order_.end(), size_t{0});
  }

  bool HasMetric(size_t at) const { return scores_[at].first != 0; }

  // Returns the indexes of the `count` best steps, unordered: each save needs
  // them, and a full sort of all steps would take longer.
  absl::Span<const size_t> Best(uint64_t count) {
    const size_t end = std::min<uint64_t>(count, order_.size());
    std::nth_element(order_.begin(),
                     order_.begin() + static_cast<ptrdiff_t>(end), order_.end(),
                     [this](size_t a, size_t b) { return IsBetter(a, b); });
    return absl::MakeConstSpan(order_).subspan(0, end);
  }

  // Returns 1 for the best. Only a reason needs it, and few reasons are asked
  // for, so sorting is deferred until then.
  size_t PlaceOf(size_t at) {
    if (places_.empty()) {
      std::sort(order_.begin(), order_.end(),
                [this](size_t a, size_t b) { return IsBetter(a, b); });
      places_.resize(order_.size());
      for (size_t i = 0; i < order_.size(); ++i) places_[order_[i]] = i + 1;
    }
    return places_[at];
  }

 private:
  // If two steps have the same score, the later one is better.
  bool IsBetter(size_t a, size_t b) const {
    return std::pair(scores_[a], a) > std::pair(scores_[b], b);
  }

  std::vector<Score> scores_;
  std::vector<size_t> order_;
  std::vector<size_t> places_;
};

// Ignores the last step, which may receive its metric later.
std::string WarnOfNoMetric(const Ranking& ranking, size_t steps,
                           const KeepPolicy::BestOptions& options) {
  size_t without = 0;
  for (size_t at = 0; at + 1 < steps; ++at) without += !ranking.HasMetric(at);
  if (without == 0) return "";
  const bool none = without + 1 == steps && !ranking.HasMetric(without);
  if (none && options.keep_without_metric) {
    return absl::StrCat(
        "BestN: none of ", steps, " steps has a metric \"", options.metric,
        "\", so all of them are kept; pass the metric to Step or "
        "AddMetrics, name another one, or set "
        "keep_without_metric to false");
  }
  return absl::StrCat("BestN: ", without, " of ", steps,
                      " steps have no metric \"", options.metric, "\" and are ",
                      options.keep_without_metric ? "kept" : "removed");
}

KeepAnswer KeepBest(Steps steps, const KeepPolicy::BestOptions& options) {
  const auto ranking = std::make_shared<Ranking>(steps, options);
  const auto count = static_cast<uint64_t>(options.count);
  KeepAnswer answer;
  answer.keep.resize(steps.size());
  for (const size_t at : ranking->Best(count)) answer.keep[at] = true;
  for (size_t at = 0; at < steps.size(); ++at) {
    // If few steps have the metric, the best include some without it;
    // keep_without_metric decides about those.
    if (ranking->HasMetric(at)) continue;
    answer.keep[at] = options.keep_without_metric;
  }
  answer.warning = WarnOfNoMetric(*ranking, steps.size(), options);
  answer.reason = [ranking, steps, options, count](size_t at) {
    if (!ranking->HasMetric(at)) {
      return absl::StrCat("it has no ", options.metric);
    }
    const size_t place = ranking->PlaceOf(at);
    return absl::StrCat(options.metric, " ",
                        steps[at].metrics.at(options.metric), " is number ",
                        place, place <= count ? "" : ", not", " of the best ",
                        options.count);
  };
  return answer;
}

}  // namespace

KeepPolicy BestN(std::string metric, int64_t count) {
  return BestN(
      KeepPolicy::BestOptions{.metric = std::move(metric), .count = count});
}

KeepPolicy BestN(KeepPolicy::BestOptions options) {
  absl::Status status = internal::CheckBest("BestN", options);
  const auto yes = [](bool value) { return value ? "true" : "false"; };
  std::string json = internal::KeyedJson(
      "best_n",
      absl::StrCat("{\"metric\": ", internal::TextJson(options.metric),
                   ", \"count\": ", options.count, ", \"lower_is_better\": ",
                   yes(options.lower_is_better), ", \"keep_without_metric\": ",
                   yes(options.keep_without_metric), "}"));
  return internal::MakeKeep(
      std::move(status), std::move(json),
      [options = std::move(options)](Steps steps, int64_t) {
        return KeepBest(steps, options);
      });
}

absl::StatusOr<StepRecord> BestStep(absl::Span<const StepRecord> steps,
                                    const KeepPolicy::BestOptions& options) {
  CKPTDB_RETURN_IF_ERROR(internal::CheckBest("BestStep", options));
  const StepRecord* best = nullptr;
  Score highest = {0, 0};
  for (const StepRecord& step : steps) {
    const Score score = ScoreOf(step.metrics, options);
    // Steps ascend, so the later one wins ties here as well.
    if (step.quarantined || score.first == 0 || score < highest) continue;
    best = &step;
    highest = score;
  }
  if (best != nullptr) return *best;
  return absl::NotFoundError(absl::StrCat("none of ", steps.size(),
                                          " steps has a metric \"",
                                          options.metric, "\""));
}

}  // namespace ckptdb
