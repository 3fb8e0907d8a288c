// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "manager/policies.h"
#include "manager/policy/keep_rule.h"
#include "manager/policy/policy_checks.h"
#include "manager/policy/verdict.h"

namespace ckptdb {
namespace {

using internal::Ask;
using internal::CheckAtLeast;
using internal::CheckSeconds;
using internal::KeepAnswer;
using internal::KeepJson;
using internal::KeyedJson;
using internal::MakeKeep;
using internal::TextJson;
using internal::Verdict;
using Steps = absl::Span<const StepInfo>;

// With the digits that distinguish it from all others.
std::string SecondsJson(double seconds) {
  return nlohmann::json(seconds).dump();
}

std::string Returned(const std::string& name, bool yes) {
  return absl::StrCat(name, " returned ", yes ? "true" : "false");
}

// Makes a policy from functions of a single step. Calls `keeps` again for a
// reason, so a function of KeepIf may be called twice for a step.
template <typename Keeps, typename Why>
KeepPolicy MakeOfEach(absl::Status status, std::string json, Keeps keeps,
                      Why why) {
  return MakeKeep(std::move(status), std::move(json),
                  [keeps = std::move(keeps), why = std::move(why)](
                      Steps steps, int64_t now) {
                    KeepAnswer answer;
                    answer.keep.reserve(steps.size());
                    for (const StepInfo& step : steps) {
                      answer.keep.push_back(keeps(step, now));
                    }
                    answer.reason = [=](size_t at) {
                      return why(steps[at], now, keeps(steps[at], now));
                    };
                    return answer;
                  });
}

// Keeps the first step, and then each whose save began `seconds` or more after
// that of the last one kept.
KeepAnswer KeepSpaced(Steps steps, double seconds) {
  KeepAnswer answer;
  answer.keep.reserve(steps.size());
  size_t kept = 0;
  for (size_t at = 0; at < steps.size(); ++at) {
    const bool yes =
        at == 0 || internal::HavePassed(steps[kept].time_micros,
                                        steps[at].time_micros, seconds);
    answer.keep.push_back(yes);
    if (yes) kept = at;
  }
  answer.reason = [keep = answer.keep, steps,
                   seconds](size_t at) -> std::string {
    if (at == 0) return "the first of all";
    size_t before = at - 1;
    while (!keep[before]) --before;
    return internal::PassedReason(keep[at], steps[before].time_micros,
                                  steps[at].time_micros, seconds, "not ",
                                  steps[before].step);
  };
  return answer;
}

// A step can be the nearest only to the first multiple at or after it and to
// the last at or before it.
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
  answer.reason = [keep = answer.keep, interval](size_t at) {
    return absl::StrCat(keep[at] ? "the" : "not the",
                        " nearest to a multiple of ", interval);
  };
  return answer;
}

// Keeps only the latest `count` of the steps that `all` keeps. A step that
// `all` does not keep has the reason from `all`.
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
  latest.reason = [all = std::move(all), keep = latest.keep,
                   count](size_t at) -> std::string {
    if (!all.keep[at]) return all.reason(at);
    return absl::StrCat(keep[at] ? "" : "not ", "among the latest ", count,
                        " of these: ", all.reason(at));
  };
  return latest;
}

// Keeps a step that one of two policies keeps (`any`), or that both keep. Only
// one warning fits, so the second's is used only if the first has none.
KeepAnswer CombineAnswers(KeepAnswer left, KeepAnswer right, bool any) {
  KeepAnswer answer;
  answer.keep.reserve(left.keep.size());
  for (size_t at = 0; at < left.keep.size(); ++at) {
    answer.keep.push_back(any ? left.keep[at] || right.keep[at]
                              : left.keep[at] && right.keep[at]);
  }
  answer.warning = left.warning.empty() ? right.warning : left.warning;
  answer.reason = [left = std::move(left), right = std::move(right),
                   any](size_t at) {
    const Verdict one{left.keep[at], left.reason(at)};
    const Verdict other{right.keep[at], right.reason(at)};
    return (any ? AnyOf(one, other) : AllOf(one, other)).reason;
  };
  return answer;
}

// An operand's error becomes the composition's.
KeepPolicy ComposeKeep(absl::string_view name, const KeepPolicy& left,
                       const KeepPolicy& right, bool any) {
  return MakeKeep(
      internal::CheckOperands(name, left, right),
      KeyedJson(any ? "any" : "all",
                absl::StrCat("[", KeepJson(left), ", ", KeepJson(right), "]")),
      [=](Steps steps, int64_t now_micros) {
        return CombineAnswers(Ask(left, steps, now_micros),
                              Ask(right, steps, now_micros), any);
      });
}

// Completes the answer of a caller's function: steps without an answer must not
// be removed.
KeepAnswer AnswerOf(const std::string& name, std::vector<bool> keep,
                    size_t steps) {
  KeepAnswer answer;
  const size_t answered = keep.size();
  if (answered != steps) {
    answer.warning =
        absl::StrCat("KeepFunction \"", name, "\" answered for ", answered,
                     " of ", steps, " steps; steps without an answer are kept");
  }
  answer.keep = std::move(keep);
  answer.keep.resize(steps, true);
  answer.reason = [name, answered, keep = answer.keep](size_t at) {
    return at < answered ? Returned(name, keep[at])
                         : absl::StrCat(name, " returned no answer");
  };
  return answer;
}

KeepAnswer KeepEach(Steps steps, const std::string& why) {
  KeepAnswer answer;
  answer.keep.assign(steps.size(), true);
  answer.reason = [why](size_t) { return why; };
  return answer;
}

}  // namespace

absl::Status KeepPolicy::status() const {
  return has_value() ? rule_->status : absl::OkStatus();
}

KeepPolicy internal::MakeKeep(absl::Status status, std::string json,
                              KeepRule::Answer answer) {
  constexpr size_t kMaxJsonBytes = 4096;
  if (json.size() > kMaxJsonBytes) json = TextJson("too_long");
  return KeepPolicy(std::make_shared<const KeepRule>(
      KeepRule{std::move(status), std::move(json), std::move(answer)}));
}

std::string internal::KeepJson(const KeepPolicy& policy) {
  return policy.has_value() ? policy.rule()->json : TextJson("keep_all");
}

std::string internal::KeyedJson(absl::string_view key,
                                absl::string_view value) {
  return absl::StrCat("{", TextJson(key), ": ", value, "}");
}

std::string internal::TextJson(absl::string_view text) {
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', /*ensure_ascii=*/true,
            nlohmann::json::error_handler_t::replace);
}

internal::KeepAnswer internal::Ask(const KeepPolicy& policy, Steps steps,
                                   int64_t now_micros) {
  if (!policy.has_value()) return KeepEach(steps, "all steps are kept");
  // A policy with an error keeps everything, because a removed step cannot be
  // recovered.
  if (policy.status().ok()) return policy.rule()->answer(steps, now_micros);
  return KeepEach(steps, std::string(policy.status().message()));
}

KeepPolicy KeepAll() {
  return MakeKeep(absl::OkStatus(), TextJson("keep_all"),
                  [](Steps steps, int64_t) {
                    return KeepEach(steps, "all steps are kept");
                  });
}

KeepPolicy LatestN(int64_t count) {
  const auto answer = [count](Steps steps, int64_t) {
    const size_t all = steps.size();
    const size_t old =
        all - std::min<uint64_t>(all, static_cast<uint64_t>(count));
    KeepAnswer latest;
    latest.keep.assign(all, true);
    std::fill_n(latest.keep.begin(), old, false);
    latest.reason = [count, old](size_t at) {
      return absl::StrCat(at < old ? "not " : "", "among the latest ", count);
    };
    return latest;
  };
  return MakeKeep(CheckAtLeast("LatestN", "count", count, 0),
                  KeyedJson("latest_n", absl::StrCat(count)), answer);
}

KeepPolicy LatestOf(const KeepPolicy& policy, int64_t count) {
  absl::Status status = internal::CheckOperand("LatestOf", policy);
  status.Update(CheckAtLeast("LatestOf", "count", count, 0));
  return MakeKeep(std::move(status),
                  KeyedJson("latest_of", absl::StrCat("{\"count\": ", count,
                                                      ", \"policy\": ",
                                                      KeepJson(policy), "}")),
                  [policy, count](Steps steps, int64_t now_micros) {
                    return KeepLatestOf(Ask(policy, steps, now_micros), count);
                  });
}

KeepPolicy KeepSteps(const std::vector<int64_t>& steps) {
  return MakeOfEach(
      internal::CheckSteps("KeepSteps", steps),
      KeyedJson("keep_steps",
                absl::StrCat("[", absl::StrJoin(steps, ", "), "]")),
      [all = std::set<int64_t>(steps.begin(), steps.end())](
          const StepInfo& step, int64_t) { return all.contains(step.step); },
      [](const StepInfo&, int64_t, bool yes) {
        return absl::StrCat(yes ? "" : "not ", "one of the listed steps");
      });
}

KeepPolicy KeepEveryNSteps(int64_t steps) {
  return MakeOfEach(
      CheckAtLeast("KeepEveryNSteps", "interval", steps, 1),
      KeyedJson("keep_every_n_steps", absl::StrCat(steps)),
      [steps](const StepInfo& step, int64_t) { return step.step % steps == 0; },
      [steps](const StepInfo&, int64_t, bool yes) {
        return absl::StrCat(yes ? "a" : "not a", " multiple of ", steps);
      });
}

KeepPolicy KeepNearestToEveryNSteps(int64_t steps) {
  return MakeKeep(
      CheckAtLeast("KeepNearestToEveryNSteps", "interval", steps, 1),
      KeyedJson("keep_nearest_to_every_n_steps", absl::StrCat(steps)),
      [steps](Steps all, int64_t) { return KeepNearest(all, steps); });
}

KeepPolicy KeepEveryNSeconds(double seconds) {
  return MakeKeep(
      CheckSeconds("KeepEveryNSeconds", seconds, /*may_be_zero=*/false),
      KeyedJson("keep_every_n_seconds", SecondsJson(seconds)),
      [seconds](Steps steps, int64_t) { return KeepSpaced(steps, seconds); });
}

KeepPolicy KeepForNSeconds(double seconds) {
  const auto age = [](const StepInfo& step, int64_t now) {
    // Converts the times to double first, because the difference of two int64
    // may overflow. If the clock was set back, the age is negative, which keeps
    // the step.
    return (static_cast<double>(now) - static_cast<double>(step.time_micros)) /
           internal::kMicrosPerSecond;
  };
  return MakeOfEach(
      CheckSeconds("KeepForNSeconds", seconds, /*may_be_zero=*/true),
      KeyedJson("keep_for_n_seconds", SecondsJson(seconds)),
      [=](const StepInfo& step, int64_t now) {
        return age(step, now) <= seconds;
      },
      [=](const StepInfo& step, int64_t now, bool yes) {
        return absl::StrCat(age(step, now), " seconds old, ",
                            yes ? "not more" : "more", " than ", seconds);
      });
}

KeepPolicy KeepIf(std::string name,
                  std::function<bool(const StepInfo& step)> function) {
  absl::Status status = internal::CheckFunction("KeepIf", name, function);
  std::string json = KeyedJson("keep_if", TextJson(name));
  auto keeps = [name, function = std::move(function)](const StepInfo& step,
                                                      int64_t) {
    return internal::CallNamed("KeepIf", name, [&] { return function(step); });
  };
  return MakeOfEach(
      std::move(status), std::move(json), std::move(keeps),
      [name = std::move(name)](const StepInfo&, int64_t, bool yes) {
        return Returned(name, yes);
      });
}

KeepPolicy KeepFunction(
    std::string name,
    std::function<std::vector<bool>(absl::Span<const StepInfo> steps,
                                    int64_t now_micros)>
        function) {
  absl::Status status = internal::CheckFunction("KeepFunction", name, function);
  std::string json = KeyedJson("keep_function", TextJson(name));
  return MakeKeep(
      std::move(status), std::move(json),
      [name = std::move(name), function = std::move(function)](
          Steps steps, int64_t now_micros) {
        return AnswerOf(
            name,
            internal::CallNamed("KeepFunction", name,
                                [&] { return function(steps, now_micros); }),
            steps.size());
      });
}

KeepPolicy operator|(const KeepPolicy& left, const KeepPolicy& right) {
  return ComposeKeep("operator|", left, right, /*any=*/true);
}

KeepPolicy operator&(const KeepPolicy& left, const KeepPolicy& right) {
  return ComposeKeep("operator&", left, right, /*any=*/false);
}

KeepPolicy operator!(const KeepPolicy& policy) {
  return MakeKeep(internal::CheckOperand("operator!", policy),
                  KeyedJson("not", KeepJson(policy)),
                  [policy](Steps steps, int64_t now_micros) {
                    KeepAnswer answer = Ask(policy, steps, now_micros);
                    answer.keep.flip();
                    return answer;
                  });
}

}  // namespace ckptdb
