// SPDX-License-Identifier: Apache-2.0
#include "python/binding/policies.h"

#include <nanobind/operators.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <vector>

#include "manager/policies.h"
#include "manager/policy/retention.h"
#include "python/binding/errors.h"

namespace ckptdb::python {
namespace {

using nb::literals::operator""_a;

// An error of a policy's own function is thrown as StatusError, which the
// library turns into the status of its call.
template <typename Call>
void CallPolicy(const std::string& name, const Call& call) {
  Check(WithPython(absl::StrCat("policy ", name), call));
}

// Policies made from values out of bounds raise at once.
template <typename Policy>
Policy Valid(Policy policy) {
  Check(policy.status());
  return policy;
}

// Like `if value:` in Python, also for the truth values of NumPy.
bool IsTrue(nb::handle value) {
  const int truth = PyObject_IsTrue(value.ptr());
  if (truth < 0) nb::raise_python_error();
  return truth == 1;
}

SavePolicy MakeSaveIf(const std::string& name, nb::callable function) {
  return SaveIf(name, [name, held = Hold(std::move(function))](
                          const SavePolicy::Context& context) {
    bool saves = false;
    CallPolicy(name, [&] { saves = IsTrue((*held)(context)); });
    return saves;
  });
}

KeepPolicy MakeKeepIf(const std::string& name, nb::callable function) {
  return KeepIf(name,
                [name, held = Hold(std::move(function))](const StepInfo& step) {
                  bool keeps = true;
                  CallPolicy(name, [&] { keeps = IsTrue((*held)(step)); });
                  return keeps;
                });
}

KeepPolicy MakeKeepFunction(const std::string& name, nb::callable function) {
  return KeepFunction(
      name, [name, held = Hold(std::move(function))](
                absl::Span<const StepInfo> steps, int64_t now_micros) {
        std::vector<bool> keeps;
        CallPolicy(name, [&] {
          const nb::object results =
              (*held)(std::vector<StepInfo>(steps.begin(), steps.end()),
                      static_cast<double>(now_micros) / 1e6);
          for (const nb::handle each : results) keeps.push_back(IsTrue(each));
        });
        return keeps;
      });
}

template <typename Policy>
void BindOperators(nb::class_<Policy>& type) {
  type.def(
          "__or__",
          [](const Policy& left, const Policy& right) { return left | right; },
          nb::is_operator(), "Either policy.")
      .def(
          "__and__",
          [](const Policy& left, const Policy& right) { return left & right; },
          nb::is_operator(), "Both policies.")
      .def(
          "__invert__", [](const Policy& policy) { return !policy; },
          "The opposite policy.")
      .def("__bool__", [](const Policy&) -> bool {
        throw nb::type_error(
            "a policy has no truth value; compose policies with |, & and ~");
      });
}

void BindSavePolicies(nb::module_& module) {
  nb::class_<SavePolicy> type(
      module, "SavePolicy",
      "Decides whether a step is saved: an immutable value, composed by `|`, "
      "`&` and `~`.");
  BindOperators(type);
  module.def(
      "save_every_n_steps",
      [](int64_t steps) { return Valid(SaveEveryNSteps(steps)); }, "steps"_a,
      "Saves multiples of `steps`, at least 1.");
  module.def(
      "save_at_or_after_every_n_steps",
      [](int64_t steps) { return Valid(SaveAtOrAfterEveryNSteps(steps)); },
      "steps"_a,
      "Saves when a multiple of `steps` was reached since the newest step, for "
      "trainers that advance several steps at a time.");
  module.def(
      "save_at_steps",
      [](const std::vector<int64_t>& steps) {
        return Valid(SaveAtSteps(steps));
      },
      "steps"_a, "Saves these steps. If empty, only `Manager.save` saves.");
  module.def(
      "save_every_n_seconds",
      [](double seconds) { return Valid(SaveEveryNSeconds(seconds)); },
      "seconds"_a,
      "Saves when `seconds` have passed since the newest step's save began.");
  module.def(
      "save_continuously",
      [](double seconds) { return Valid(SaveContinuously(seconds)); },
      "seconds"_a = 0.0,
      "Saves as soon as the previous save is done, but not within `seconds` "
      "after it began.");
  module.def("save_initially", &SaveInitially,
             "Saves if the store has no step yet.");
  module.def("save_on_preemption", &SaveOnPreemption,
             "Saves the step at which a preemption ends the training.");
  module.def("save_if", &MakeSaveIf, "name"_a, "function"_a,
             "Saves when `function(context)` returns true. `name` appears in "
             "reasons. Any thread may call it.");
}

void BindKeepPolicies(nb::module_& module) {
  nb::class_<KeepPolicy> type(
      module, "KeepPolicy",
      "Decides which steps are kept: an immutable value, composed by `|`, `&` "
      "and `~`.");
  BindOperators(type);
  module.def("retention_json", [](const KeepPolicy& policy) {
    return internal::RetentionJson({.keep = policy});
  });
  module.def("keep_all", &KeepAll, "Keeps all steps.");
  module.def(
      "latest_n", [](int64_t count) { return Valid(LatestN(count)); },
      "count"_a, "Keeps the `count` highest steps.");
  module.def(
      "latest_of",
      [](const KeepPolicy& policy, int64_t count) {
        return Valid(LatestOf(policy, count));
      },
      "policy"_a, "count"_a,
      "Keeps the `count` highest of the steps that `policy` keeps.");
  module.def(
      "keep_steps",
      [](const std::vector<int64_t>& steps) { return Valid(KeepSteps(steps)); },
      "steps"_a, "Keeps these steps.");
  module.def(
      "keep_every_n_steps",
      [](int64_t steps) { return Valid(KeepEveryNSteps(steps)); }, "steps"_a,
      "Keeps multiples of `steps`, at least 1.");
  module.def(
      "keep_nearest_to_every_n_steps",
      [](int64_t steps) { return Valid(KeepNearestToEveryNSteps(steps)); },
      "steps"_a,
      "Keeps the step nearest to each multiple of `steps`, the first step and "
      "the last one.");
  module.def(
      "keep_every_n_seconds",
      [](double seconds) { return Valid(KeepEveryNSeconds(seconds)); },
      "seconds"_a,
      "Keeps the first step, then each whose save began at least `seconds` "
      "after the last one kept.");
  module.def(
      "keep_for_n_seconds",
      [](double seconds) { return Valid(KeepForNSeconds(seconds)); },
      "seconds"_a, "Keeps steps whose save began at most `seconds` ago.");
  module.def(
      "best_n",
      [](const std::string& metric, int64_t count, bool lower_is_better,
         bool keep_without_metric) {
        return Valid(
            BestN({metric, count, lower_is_better, keep_without_metric}));
      },
      "metric"_a, "count"_a = 1, "lower_is_better"_a = false,
      "keep_without_metric"_a = true,
      "Keeps the `count` best steps by a metric. Steps without the metric are "
      "kept too, unless `keep_without_metric` is false.");
  module.def("keep_if", &MakeKeepIf, "name"_a, "function"_a,
             "Keeps steps for which `function(step_info)` returns true.");
  module.def("keep_function", &MakeKeepFunction, "name"_a, "function"_a,
             "`function(step_infos, now)` returns for each of these steps, in "
             "ascending order, whether to keep it; `now` is in seconds.");
}

}  // namespace

void BindPolicies(nb::module_& module) {
  nb::class_<StepInfo>(module, "StepInfo", "What policies know about a step.")
      .def_ro("step", &StepInfo::step)
      .def_prop_ro(
          "time",
          [](const StepInfo& info) {
            return static_cast<double>(info.time_micros) / 1e6;
          },
          "When its save began, in seconds since 1970, UTC.")
      .def_ro("ephemeral", &StepInfo::ephemeral)
      .def_ro("metrics", &StepInfo::metrics);
  nb::class_<SavePolicy::Context>(
      module, "SaveContext", "What a policy knows when it decides on a step.")
      .def_ro("step", &SavePolicy::Context::step)
      .def_prop_ro(
          "now",
          [](const SavePolicy::Context& context) {
            return static_cast<double>(context.now_micros) / 1e6;
          },
          "Seconds since 1970, UTC.")
      .def_ro("last", &SavePolicy::Context::last,
              "The newest step, committed or being saved, or None. For the "
              "policy `save`, the newest permanent one.")
      .def_ro("saving", &SavePolicy::Context::saving)
      .def_ro("preempted", &SavePolicy::Context::preempted)
      .def_ro("metrics", &SavePolicy::Context::metrics)
      .def(
          "history",
          [](const SavePolicy::Context& context) { return context.history(); },
          "The committed steps in ascending order. Call it only while the "
          "policy decides.");
  BindSavePolicies(module);
  BindKeepPolicies(module);
}

}  // namespace ckptdb::python
