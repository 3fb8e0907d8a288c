// SPDX-License-Identifier: Apache-2.0
// Saves that run in the background, and results of steps, as Python objects.
#ifndef CKPTDB_PYTHON_BINDING_PENDING_SAVE_H_
#define CKPTDB_PYTHON_BINDING_PENDING_SAVE_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "manager/results.h"
#include "python/binding/errors.h"

namespace ckptdb::python {

// A save that runs in the background.
class PySave {
 public:
  PySave(PendingSave save, std::shared_ptr<Interrupt> interrupt)
      : save_(std::move(save)), interrupt_(std::move(interrupt)) {}
  int64_t step() const { return save_.step(); }
  bool done() const { return save_.committed_or_failed(); }
  void WaitStaged(std::optional<double> timeout) const {
    process_.Check();
    Check(Interruptible(interrupt_.get(),
                        [&] { return save_.WaitStaged(DurationOf(timeout)); }));
  }
  SaveResult WaitCommitted(std::optional<double> timeout) const {
    process_.Check();
    return Check(Interruptible(interrupt_.get(), [&] {
      return save_.WaitCommitted(DurationOf(timeout));
    }));
  }
  void WaitShipped(std::optional<double> timeout) const {
    process_.Check();
    Check(Interruptible(interrupt_.get(), [&] {
      return save_.WaitShipped(absl::Now() + DurationOf(timeout));
    }));
  }
  void Cancel() {
    const ReleaseGil release;
    save_.Cancel();
  }

 private:
  static absl::Duration DurationOf(std::optional<double> timeout) {
    return timeout.has_value() ? absl::Seconds(*timeout)
                               : absl::InfiniteDuration();
  }
  const Process process_{};
  PendingSave save_;
  const std::shared_ptr<Interrupt> interrupt_;
};

// The result of a step.
struct PyOutcome {
  StepOutcome outcome;
  std::shared_ptr<Interrupt> interrupt;

  std::unique_ptr<PySave> save() const {
    if (!outcome.save.has_value()) return nullptr;
    return std::make_unique<PySave>(*outcome.save, interrupt);
  }
};

void BindPendingSave(nanobind::module_& module);

}  // namespace ckptdb::python

#endif  // CKPTDB_PYTHON_BINDING_PENDING_SAVE_H_
