#include "ckptdb/manager/keep_policy.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/manager/policy_checks.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {
namespace {

using internal::CheckAtLeast;
using internal::CheckName;
using internal::CheckParts;
using internal::CheckSeconds;
using internal::HavePassed;
using Steps = absl::Span<const StepInfo>;

// A policy of one function.
class Function : public KeepPolicy {
 public:
  using Decision = std::function<std::vector<Verdict>(Steps, int64_t)>;
  explicit Function(Decision decide) : decide_(std::move(decide)) {}
  std::vector<Verdict> Decide(Steps steps, int64_t now_micros) const override {
    return decide_(steps, now_micros);
  }

 private:
  const Decision decide_;
};

KeepPolicyPtr Make(Function::Decision decide) {
  return std::make_shared<Function>(std::move(decide));
}

// Of a function that needs to know but one step at a time.
template <typename OfOne>
KeepPolicyPtr MakeOfEach(OfOne of_one) {
  return Make([of_one = std::move(of_one)](Steps steps, int64_t now_micros) {
    std::vector<Verdict> verdicts;
    verdicts.reserve(steps.size());
    for (const StepInfo& step : steps) {
      verdicts.push_back(of_one(step, now_micros));
    }
    return verdicts;
  });
}

// A metric as a rank, higher is better: whether it is there, 1 for NaN and 2
// for a number, and its value.
using Score = std::pair<int, double>;

Score ScoreOf(const StepInfo& step, const BestOptions& options) {
  const auto found = step.metrics.find(options.metric);
  if (found == step.metrics.end()) return {0, 0};
  if (std::isnan(found->second)) return {1, 0};
  return {2, options.better == Better::kMax ? found->second : -found->second};
}

std::vector<Verdict> KeepBest(Steps steps, const BestOptions& options) {
  std::vector<Score> scores;
  for (const StepInfo& step : steps) scores.push_back(ScoreOf(step, options));
  std::vector<size_t> order(steps.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(scores[a], a) > std::pair(scores[b], b);
  });
  std::vector<Verdict> verdicts(steps.size());
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const size_t at = order[rank];
    if (scores[at].first == 0) {
      verdicts[at] = {options.keep_without_metric,
                      absl::StrCat("it has no ", options.metric)};
      continue;
    }
    const bool yes = rank < static_cast<uint64_t>(options.count);
    verdicts[at] = {
        yes,
        absl::StrCat(options.metric, " ", steps[at].metrics.at(options.metric),
                     " is number ", rank + 1, yes ? "" : ", not",
                     " of the best ", options.count)};
  }
  return verdicts;
}

std::vector<Verdict> KeepSpaced(Steps steps, double seconds) {
  std::vector<Verdict> verdicts;
  const StepInfo* kept = nullptr;
  for (const StepInfo& step : steps) {
    const bool first = kept == nullptr;
    const bool yes =
        first || HavePassed(kept->time_micros, step.time_micros, seconds);
    verdicts.push_back(
        {yes, first ? "the first of all"
                    : absl::StrCat(yes ? "" : "not ", seconds,
                                   " seconds after step ", kept->step)});
    if (yes) kept = &step;
  }
  return verdicts;
}

KeepPolicyPtr Compose(std::vector<KeepPolicyPtr> policies,
                      Verdict (*combine)(const std::vector<Verdict>&)) {
  return Make([policies = std::move(policies), combine](Steps steps,
                                                        int64_t now_micros) {
    std::vector<std::vector<Verdict>> of_step(steps.size());
    for (const KeepPolicyPtr& policy : policies) {
      std::vector<Verdict> verdicts = policy->Decide(steps, now_micros);
      for (size_t i = 0; i < steps.size(); ++i) {
        of_step[i].push_back(std::move(verdicts[i]));
      }
    }
    std::vector<Verdict> combined;
    combined.reserve(steps.size());
    for (const auto& verdicts : of_step) combined.push_back(combine(verdicts));
    return combined;
  });
}

}  // namespace

KeepPolicyPtr KeepAll() {
  return MakeOfEach([](const StepInfo&, int64_t) -> Verdict {
    return {true, "all steps are kept"};
  });
}

absl::StatusOr<KeepPolicyPtr> LatestN(int64_t count) {
  CKPTDB_RETURN_IF_ERROR(CheckAtLeast("LatestN", "count", count, 0));
  return Make([count](Steps steps, int64_t) {
    std::vector<Verdict> verdicts;
    for (size_t i = 0; i < steps.size(); ++i) {
      const bool yes = steps.size() - i <= static_cast<uint64_t>(count);
      verdicts.push_back(
          {yes, absl::StrCat(yes ? "one" : "none", " of the latest ", count)});
    }
    return verdicts;
  });
}

absl::StatusOr<KeepPolicyPtr> EveryNSteps(int64_t steps) {
  CKPTDB_RETURN_IF_ERROR(CheckAtLeast("EveryNSteps", "interval", steps, 1));
  return MakeOfEach([steps](const StepInfo& step, int64_t) -> Verdict {
    const bool yes = step.step % steps == 0;
    return {yes, absl::StrCat(yes ? "a" : "no", " multiple of ", steps)};
  });
}

absl::StatusOr<KeepPolicyPtr> KeepEveryNSeconds(double seconds) {
  CKPTDB_RETURN_IF_ERROR(
      CheckSeconds("KeepEveryNSeconds", seconds, /*may_be_zero=*/false));
  return Make(
      [seconds](Steps steps, int64_t) { return KeepSpaced(steps, seconds); });
}

absl::StatusOr<KeepPolicyPtr> BestN(BestOptions options) {
  CKPTDB_RETURN_IF_ERROR(CheckAtLeast("BestN", "count", options.count, 0));
  if (options.metric.empty()) {
    return absl::InvalidArgumentError("BestN: no metric is named");
  }
  return Make([options = std::move(options)](Steps steps, int64_t) {
    return KeepBest(steps, options);
  });
}

absl::StatusOr<KeepPolicyPtr> TimeToLive(double seconds) {
  CKPTDB_RETURN_IF_ERROR(
      CheckSeconds("TimeToLive", seconds, /*may_be_zero=*/true));
  return MakeOfEach([seconds](const StepInfo& step, int64_t now) -> Verdict {
    const double age =
        (static_cast<double>(now) - static_cast<double>(step.time_micros)) /
        internal::kMicrosPerSecond;
    const bool yes = age <= seconds;
    return {yes, absl::StrCat(age, " seconds old, ", yes ? "not more" : "more",
                              " than ", seconds)};
  });
}

absl::StatusOr<KeepPolicyPtr> KeepIf(std::string name,
                                     KeepPredicate predicate) {
  CKPTDB_RETURN_IF_ERROR(CheckName("KeepIf", name));
  if (predicate == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("KeepIf: predicate ", name, " is null"));
  }
  return MakeOfEach([name = std::move(name), predicate = std::move(predicate)](
                        const StepInfo& step, int64_t) -> Verdict {
    const bool yes = predicate(step);
    return {yes, absl::StrCat(name, " said ", yes ? "yes" : "no")};
  });
}

absl::StatusOr<KeepPolicyPtr> CustomKeep(std::string name,
                                         KeepFunction function) {
  CKPTDB_RETURN_IF_ERROR(CheckName("CustomKeep", name));
  if (function == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("CustomKeep: function ", name, " is null"));
  }
  return Make([name = std::move(name), function = std::move(function)](
                  Steps steps, int64_t now_micros) {
    const std::vector<bool> keep = function(steps, now_micros);
    std::vector<Verdict> verdicts;
    for (size_t i = 0; i < steps.size(); ++i) {
      verdicts.push_back(
          i < keep.size()
              ? Verdict{keep[i],
                        absl::StrCat(name, " said ", keep[i] ? "yes" : "no")}
              : Verdict{true, absl::StrCat(name, " said nothing")});
    }
    return verdicts;
  });
}

absl::StatusOr<KeepPolicyPtr> AnyKeep(std::vector<KeepPolicyPtr> policies) {
  CKPTDB_RETURN_IF_ERROR(CheckParts("AnyKeep", policies));
  return Compose(std::move(policies), AnyOf);
}

absl::StatusOr<KeepPolicyPtr> AllKeep(std::vector<KeepPolicyPtr> policies) {
  CKPTDB_RETURN_IF_ERROR(CheckParts("AllKeep", policies));
  return Compose(std::move(policies), AllOf);
}

absl::StatusOr<KeepPolicyPtr> NotKeep(KeepPolicyPtr policy) {
  CKPTDB_RETURN_IF_ERROR(
      CheckParts("NotKeep", std::vector<KeepPolicyPtr>{policy}));
  return Make([policy = std::move(policy)](Steps steps, int64_t now_micros) {
    std::vector<Verdict> verdicts = policy->Decide(steps, now_micros);
    for (Verdict& verdict : verdicts) verdict = Negate(std::move(verdict));
    return verdicts;
  });
}

}  // namespace ckptdb
