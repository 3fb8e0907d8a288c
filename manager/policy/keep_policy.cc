#include "ckptdb/manager/keep_policy.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/manager/policy/ask_whole.h"
#include "ckptdb/manager/policy/policy_checks.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {
namespace {

using internal::AskWhole;
using internal::CheckAtLeast;
using internal::CheckParts;
using internal::CheckPolicyName;
using internal::CheckSeconds;
using internal::HavePassed;
using Steps = absl::Span<const StepInfo>;

std::string Said(const std::string& name, bool yes) {
  return absl::StrCat(name, " said ", yes ? "yes" : "no");
}

// A policy of one function.
class FunctionKeepPolicy : public KeepPolicy {
 public:
  using Answer = std::function<KeepAnswer(Steps, int64_t)>;
  explicit FunctionKeepPolicy(Answer answer) : answer_(std::move(answer)) {}
  KeepAnswer Ask(Steps steps, int64_t now_micros) const override {
    return answer_(steps, now_micros);
  }

 private:
  const Answer answer_;
};

KeepPolicyPtr MakeKeep(FunctionKeepPolicy::Answer answer) {
  return std::make_shared<FunctionKeepPolicy>(std::move(answer));
}

// Of functions that need to know but one step at a time.
template <typename Keeps, typename Why>
KeepPolicyPtr MakeOfEach(Keeps keeps, Why why) {
  return MakeKeep([keeps = std::move(keeps), why = std::move(why)](
                      Steps steps, int64_t now) {
    KeepAnswer answer;
    answer.keep.reserve(steps.size());
    for (const StepInfo& step : steps) answer.keep.push_back(keeps(step, now));
    answer.why = [=](size_t at) {
      return why(steps[at], now, keeps(steps[at], now));
    };
    return answer;
  });
}

// A metric as a rank, higher is better: whether it is there, 1 for NaN and 2
// for a number, and its value.
using Score = std::pair<int, double>;

Score ScoreOf(const Metrics& metrics, const BestOptions& options) {
  const auto found = metrics.find(options.metric);
  if (found == metrics.end()) return {0, 0};
  if (std::isnan(found->second)) return {1, 0};
  return {2, options.better == Better::kMax ? found->second : -found->second};
}

// Steps by their metric. The places of all are found when one is asked for.
class Ranking {
 public:
  Ranking(Steps steps, const BestOptions& options) : order_(steps.size()) {
    scores_.reserve(steps.size());
    for (const StepInfo& step : steps) {
      scores_.push_back(ScoreOf(step.metrics, options));
    }
    std::iota(order_.begin(), order_.end(), size_t{0});
  }

  bool HasMetric(size_t at) const { return scores_[at].first != 0; }

  // Of the steps, the `count` best.
  absl::Span<const size_t> Best(uint64_t count) {
    const size_t end = std::min<uint64_t>(count, order_.size());
    std::nth_element(order_.begin(),
                     order_.begin() + static_cast<ptrdiff_t>(end), order_.end(),
                     [this](size_t a, size_t b) { return IsBetter(a, b); });
    return absl::MakeConstSpan(order_).subspan(0, end);
  }

  // 1 is the best.
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
  bool IsBetter(size_t a, size_t b) const {
    return std::pair(scores_[a], a) > std::pair(scores_[b], b);
  }

  std::vector<Score> scores_;
  std::vector<size_t> order_;
  std::vector<size_t> places_;
};

absl::Status CheckMetric(absl::string_view where, const BestOptions& options) {
  if (!options.metric.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": no metric is named"));
}

// The last step may get its metric later.
std::string WarnOfNoMetric(const Ranking& ranking, size_t steps,
                           const BestOptions& options) {
  size_t without = 0;
  for (size_t at = 0; at + 1 < steps; ++at) without += !ranking.HasMetric(at);
  if (without == 0) return "";
  const bool none = without + 1 == steps && !ranking.HasMetric(without);
  if (none && options.keep_without_metric) {
    return absl::StrCat("BestN: none of ", steps, " steps has a metric \"",
                        options.metric,
                        "\", and all of them stay; give Step or AddMetrics the "
                        "metric, name another one, or set keep_without_metric "
                        "to false");
  }
  return absl::StrCat("BestN: ", without, " of ", steps,
                      " steps have no metric \"", options.metric, "\", and ",
                      options.keep_without_metric ? "stay" : "go");
}

KeepAnswer KeepBest(Steps steps, const BestOptions& options) {
  const auto ranking = std::make_shared<Ranking>(steps, options);
  const auto count = static_cast<uint64_t>(options.count);
  KeepAnswer answer;
  answer.keep.resize(steps.size());
  for (const size_t at : ranking->Best(count)) answer.keep[at] = true;
  for (size_t at = 0; at < steps.size(); ++at) {
    if (ranking->HasMetric(at)) continue;
    answer.keep[at] = options.keep_without_metric;
  }
  answer.warning = WarnOfNoMetric(*ranking, steps.size(), options);
  answer.why = [ranking, steps, options, count](size_t at) {
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

KeepAnswer KeepSpaced(Steps steps, double seconds) {
  KeepAnswer answer;
  answer.keep.reserve(steps.size());
  size_t kept = 0;
  for (size_t at = 0; at < steps.size(); ++at) {
    const bool yes = at == 0 || HavePassed(steps[kept].time_micros,
                                           steps[at].time_micros, seconds);
    answer.keep.push_back(yes);
    if (yes) kept = at;
  }
  answer.why = [keep = answer.keep, steps, seconds](size_t at) -> std::string {
    if (at == 0) return "the first of all";
    size_t before = at - 1;
    while (!keep[before]) --before;
    return absl::StrCat(keep[at] ? "" : "not ", seconds, " seconds after step ",
                        steps[before].step);
  };
  return answer;
}

// Only the first multiple at or after a step, and the last at or before it, can
// have it as the nearest.
KeepAnswer KeepNearest(Steps steps, int64_t interval) {
  KeepAnswer answer;
  answer.keep.assign(steps.size(), false);
  for (size_t at = 0; at < steps.size(); ++at) {
    const int64_t below = steps[at].step % interval;
    const int64_t above = below == 0 ? 0 : interval - below;
    const auto nearest_above = [&] {
      if (at + 1 == steps.size()) return true;
      return above <= (steps[at + 1].step - steps[at].step) / 2;
    };
    const auto nearest_below = [&] {
      if (at == 0) return true;
      const int64_t way = steps[at].step - steps[at - 1].step;
      return below < way - way / 2;
    };
    answer.keep[at] = nearest_above() || nearest_below();
  }
  answer.why = [keep = answer.keep, interval](size_t at) {
    return absl::StrCat(keep[at] ? "the" : "not the",
                        " nearest to a multiple of ", interval);
  };
  return answer;
}

// Keeps only the latest `count` of the steps that a policy has kept.
KeepAnswer KeepLatestOf(KeepAnswer all, int64_t count) {
  KeepAnswer latest;
  latest.keep.assign(all.keep.size(), false);
  latest.warning = all.warning;
  int64_t left = count;
  for (size_t at = all.keep.size(); at-- > 0 && left > 0;) {
    if (!all.keep[at]) continue;
    latest.keep[at] = true;
    --left;
  }
  latest.why = [all = std::move(all), keep = latest.keep,
                count](size_t at) -> std::string {
    if (!all.keep[at]) return all.why(at);
    return absl::StrCat(keep[at] ? "one" : "none", " of the latest ", count,
                        " of these: ", all.why(at));
  };
  return latest;
}

// Of a step, kept when one policy says `decisive`, or else when none does.
KeepPolicyPtr ComposeKeep(std::vector<KeepPolicyPtr> policies, bool decisive) {
  return MakeKeep([policies = std::move(policies), decisive](
                      Steps steps, int64_t now_micros) {
    auto parts = std::make_shared<std::vector<KeepAnswer>>();
    KeepAnswer answer;
    answer.keep.assign(steps.size(), !decisive);
    for (const KeepPolicyPtr& policy : policies) {
      const KeepAnswer& part =
          parts->emplace_back(AskWhole(policy.get(), steps, now_micros));
      for (size_t at = 0; at < steps.size(); ++at) {
        if (part.keep[at] == decisive) answer.keep[at] = decisive;
      }
      if (answer.warning.empty()) answer.warning = part.warning;
    }
    answer.why = [parts, decisive](size_t at) {
      std::vector<Verdict> verdicts;
      for (const KeepAnswer& part : *parts) {
        verdicts.push_back({part.keep[at], part.why(at)});
      }
      return (decisive ? AnyOf(verdicts) : AllOf(verdicts)).why;
    };
    return answer;
  });
}

}  // namespace

std::vector<Verdict> KeepPolicy::Decide(Steps steps, int64_t now_micros) const {
  const KeepAnswer answer = AskWhole(this, steps, now_micros);
  std::vector<Verdict> verdicts;
  verdicts.reserve(steps.size());
  for (size_t at = 0; at < steps.size(); ++at) {
    verdicts.push_back({answer.keep[at], answer.why(at)});
  }
  return verdicts;
}

KeepPolicyPtr KeepAll() {
  return MakeOfEach(
      [](const StepInfo&, int64_t) { return true; },
      [](const StepInfo&, int64_t, bool) { return "all steps are kept"; });
}

absl::StatusOr<KeepPolicyPtr> LatestN(int64_t count) {
  CKPTDB_RETURN_IF_ERROR(CheckAtLeast("LatestN", "count", count, 0));
  return MakeKeep([count](Steps steps, int64_t) {
    const size_t all = steps.size();
    const size_t old =
        all - std::min<uint64_t>(all, static_cast<uint64_t>(count));
    KeepAnswer answer;
    answer.keep.assign(all, true);
    std::fill_n(answer.keep.begin(), old, false);
    answer.why = [count, old](size_t at) {
      return absl::StrCat(at < old ? "none" : "one", " of the latest ", count);
    };
    return answer;
  });
}

absl::StatusOr<KeepPolicyPtr> LatestOf(KeepPolicyPtr policy, int64_t count) {
  CKPTDB_RETURN_IF_ERROR(CheckAtLeast("LatestOf", "count", count, 0));
  CKPTDB_RETURN_IF_ERROR(
      CheckParts("LatestOf", std::vector<KeepPolicyPtr>{policy}));
  return MakeKeep(
      [policy = std::move(policy), count](Steps steps, int64_t now_micros) {
        return KeepLatestOf(policy->Ask(steps, now_micros), count);
      });
}

absl::StatusOr<KeepPolicyPtr> KeepSteps(std::vector<int64_t> steps) {
  for (const int64_t step : steps) {
    CKPTDB_RETURN_IF_ERROR(CheckAtLeast("KeepSteps", "step", step, 0));
  }
  return MakeOfEach(
      [all = std::set<int64_t>(steps.begin(), steps.end())](
          const StepInfo& step, int64_t) { return all.contains(step.step); },
      [](const StepInfo&, int64_t, bool yes) {
        return absl::StrCat(yes ? "one" : "none",
                            " of the steps that were asked for");
      });
}

absl::StatusOr<KeepPolicyPtr> EveryNSteps(int64_t steps) {
  CKPTDB_RETURN_IF_ERROR(CheckAtLeast("EveryNSteps", "interval", steps, 1));
  return MakeOfEach(
      [steps](const StepInfo& step, int64_t) { return step.step % steps == 0; },
      [steps](const StepInfo&, int64_t, bool yes) {
        return absl::StrCat(yes ? "a" : "no", " multiple of ", steps);
      });
}

absl::StatusOr<KeepPolicyPtr> NearestToEveryNSteps(int64_t steps) {
  CKPTDB_RETURN_IF_ERROR(
      CheckAtLeast("NearestToEveryNSteps", "interval", steps, 1));
  return MakeKeep(
      [steps](Steps all, int64_t) { return KeepNearest(all, steps); });
}

absl::StatusOr<KeepPolicyPtr> KeepEveryNSeconds(double seconds) {
  CKPTDB_RETURN_IF_ERROR(
      CheckSeconds("KeepEveryNSeconds", seconds, /*may_be_zero=*/false));
  return MakeKeep(
      [seconds](Steps steps, int64_t) { return KeepSpaced(steps, seconds); });
}

absl::StatusOr<KeepPolicyPtr> BestN(BestOptions options) {
  CKPTDB_RETURN_IF_ERROR(CheckAtLeast("BestN", "count", options.count, 0));
  CKPTDB_RETURN_IF_ERROR(CheckMetric("BestN", options));
  return MakeKeep([options = std::move(options)](Steps steps, int64_t) {
    return KeepBest(steps, options);
  });
}

absl::StatusOr<StepRecord> BestStep(absl::Span<const StepRecord> steps,
                                    const BestOptions& options) {
  CKPTDB_RETURN_IF_ERROR(CheckMetric("BestStep", options));
  const StepRecord* best = nullptr;
  Score highest = {0, 0};
  for (const StepRecord& step : steps) {
    const Score score = ScoreOf(step.metrics, options);
    if (step.quarantined || score.first == 0 || score < highest) continue;
    best = &step;
    highest = score;
  }
  if (best != nullptr) return *best;
  return absl::NotFoundError(absl::StrCat("none of ", steps.size(),
                                          " steps has a metric \"",
                                          options.metric, "\""));
}

absl::StatusOr<KeepPolicyPtr> TimeToLive(double seconds) {
  CKPTDB_RETURN_IF_ERROR(
      CheckSeconds("TimeToLive", seconds, /*may_be_zero=*/true));
  const auto age = [](const StepInfo& step, int64_t now) {
    return (static_cast<double>(now) - static_cast<double>(step.time_micros)) /
           internal::kMicrosPerSecond;
  };
  return MakeOfEach([=](const StepInfo& step,
                        int64_t now) { return age(step, now) <= seconds; },
                    [=](const StepInfo& step, int64_t now, bool yes) {
                      return absl::StrCat(age(step, now), " seconds old, ",
                                          yes ? "not more" : "more", " than ",
                                          seconds);
                    });
}

absl::StatusOr<KeepPolicyPtr> KeepIf(std::string name,
                                     KeepPredicate predicate) {
  CKPTDB_RETURN_IF_ERROR(CheckPolicyName("KeepIf", name));
  if (predicate == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("KeepIf: predicate ", name, " is null"));
  }
  return MakeOfEach(
      [predicate = std::move(predicate)](const StepInfo& step, int64_t) {
        return predicate(step);
      },
      [name = std::move(name)](const StepInfo&, int64_t, bool yes) {
        return Said(name, yes);
      });
}

absl::StatusOr<KeepPolicyPtr> CustomKeep(std::string name,
                                         KeepFunction function) {
  CKPTDB_RETURN_IF_ERROR(CheckPolicyName("CustomKeep", name));
  if (function == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("CustomKeep: function ", name, " is null"));
  }
  return MakeKeep([name = std::move(name), function = std::move(function)](
                      Steps steps, int64_t now_micros) {
    KeepAnswer answer;
    answer.keep = function(steps, now_micros);
    const size_t answered = answer.keep.size();
    answer.keep.resize(steps.size(), true);
    answer.why = [name, answered, keep = answer.keep](size_t at) {
      return at < answered ? Said(name, keep[at])
                           : absl::StrCat(name, " said nothing");
    };
    return answer;
  });
}

absl::StatusOr<KeepPolicyPtr> AnyKeep(std::vector<KeepPolicyPtr> policies) {
  CKPTDB_RETURN_IF_ERROR(CheckParts("AnyKeep", policies));
  return ComposeKeep(std::move(policies), /*decisive=*/true);
}

absl::StatusOr<KeepPolicyPtr> AllKeep(std::vector<KeepPolicyPtr> policies) {
  CKPTDB_RETURN_IF_ERROR(CheckParts("AllKeep", policies));
  return ComposeKeep(std::move(policies), /*decisive=*/false);
}

absl::StatusOr<KeepPolicyPtr> NotKeep(KeepPolicyPtr policy) {
  CKPTDB_RETURN_IF_ERROR(
      CheckParts("NotKeep", std::vector<KeepPolicyPtr>{policy}));
  return MakeKeep(
      [policy = std::move(policy)](Steps steps, int64_t now_micros) {
        KeepAnswer answer = AskWhole(policy.get(), steps, now_micros);
        answer.keep.flip();
        return answer;
      });
}

}  // namespace ckptdb
