// SPDX-License-Identifier: Apache-2.0
#include "python/binding/pending_save.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "manager/policies.h"

namespace ckptdb::python {

using nb::literals::operator""_a;

void BindPendingSave(nb::module_& module) {
  nb::class_<PySave>(module, "PendingSave",
                     "A save that runs in the background. Any thread may call "
                     "its methods.")
      .def_prop_ro("step", &PySave::step, "The step that is saved.")
      .def_prop_ro("done", &PySave::done,
                   "Whether the step is durable, or has failed.")
      .def("wait_staged", &PySave::WaitStaged, "timeout"_a = nb::none(),
           "Waits until nothing reads the state any more. Raises "
           "DeadlineExceeded after `timeout` seconds.")
      .def("wait_committed", &PySave::WaitCommitted, "timeout"_a = nb::none(),
           "Waits until the step is durable, and returns its result or raises "
           "its error. Raises DeadlineExceeded after `timeout` seconds.")
      .def("wait_shipped", &PySave::WaitShipped, "timeout"_a = nb::none(),
           "Waits until the step is durable and in the object store of the "
           "option `ship`. Raises the save's error; DeadlineExceeded with the "
           "last error of shipping after `timeout` seconds; NotFound if the "
           "step was removed first; Cancelled if the manager is closed; and "
           "FailedPrecondition if this rank ships nothing.")
      .def("cancel", &PySave::Cancel,
           "Lets the save fail with Cancelled, unless it is too late.")
      .def("__repr__", [](const PySave& save) {
        return absl::StrCat("PendingSave(step ", save.step(), ", ",
                            save.done() ? "done" : "running", ")");
      });
  nb::class_<PyOutcome>(module, "StepOutcome", "The result of `Manager.step`.")
      .def_prop_ro(
          "step", [](const PyOutcome& self) { return self.outcome.step; },
          "The step that was counted.")
      .def_prop_ro(
          "saved",
          [](const PyOutcome& self) { return self.outcome.save.has_value(); },
          "Whether a save of this step began.")
      .def_prop_ro(
          "kind",
          [](const PyOutcome& self) {
            return std::string(SaveKindName(self.outcome.decision.kind));
          },
          "\"none\", \"permanent\" or \"ephemeral\".")
      .def_prop_ro(
          "reason",
          [](const PyOutcome& self) { return self.outcome.decision.reason; },
          "Why the step is saved.")
      .def_prop_ro("save", &PyOutcome::save,
                   "The save if the step is saved, or None.")
      .def_prop_ro(
          "preempted",
          [](const PyOutcome& self) { return self.outcome.preempted; },
          "Whether to end the training with this step.")
      .def("__repr__", [](const PyOutcome& self) {
        const SavePolicy::Decision& decision = self.outcome.decision;
        return absl::StrCat("StepOutcome(step ", self.outcome.step,
                            self.outcome.save.has_value() ? ", saved: " : ": ",
                            decision.reason,
                            self.outcome.preempted ? ", preempted" : "", ")");
      });
}

}  // namespace ckptdb::python
