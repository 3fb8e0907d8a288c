// SPDX-License-Identifier: Apache-2.0
// Errors between C++ and Python, in both directions, and Ctrl-C.
#ifndef CKPTDB_PYTHON_BINDING_ERRORS_H_
#define CKPTDB_PYTHON_BINDING_ERRORS_H_

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ckptdb::python {

namespace nb = nanobind;

// A status on its way to Python, where it becomes ckptdb.Error or one of its
// subclasses.
class StatusError : public std::exception {
 public:
  explicit StatusError(absl::Status status)
      : status_(std::move(status)), message_(status_.message()) {}
  const absl::Status& status() const { return status_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  absl::Status status_;
  std::string message_;
};

inline void Check(const absl::Status& status) {
  if (!status.ok()) throw StatusError(status);
}
template <typename T>
T Check(absl::StatusOr<T> value) {
  if (!value.ok()) throw StatusError(value.status());
  return *std::move(value);
}

// Returns the status of an exception that Python code raised, which names
// `what`. When the status reaches Python again, the exception is its cause.
// Call it with the GIL.
absl::Status FromPython(nb::python_error& error, absl::string_view what);

// Releases the GIL while it exists. Once the interpreter ends, threads other
// than the main one stay in the destructor for good: the interpreter would end
// a thread that asks for the GIL by unwinding C++ code, which terminates the
// process.
class ReleaseGil {
 public:
  ReleaseGil() : thread_(PyEval_SaveThread()) {}
  ~ReleaseGil();
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;

 private:
  PyThreadState* const thread_;
};

// Takes the GIL while it exists, on any thread, unless the interpreter ends and
// this is not its main thread. The interpreter does not end while it exists,
// for up to two seconds: a thread that asks for the GIL afterwards, as all code
// in Python does now and then, would be ended by unwinding C++ code.
class TakeGil {
 public:
  TakeGil();
  ~TakeGil();
  TakeGil(const TakeGil&) = delete;
  TakeGil& operator=(const TakeGil&) = delete;

  bool taken() const { return gil_.has_value() && gil_->is_valid(); }

 private:
  std::optional<nb::gil_scoped_acquire> gil_;
};

// A reference that any thread may copy and drop, with or without the GIL, also
// when the interpreter is gone.
using PyRef = std::shared_ptr<nb::object>;
PyRef Hold(nb::object object);

// Runs `call` with the GIL, and returns what it raised. Without an interpreter,
// returns Cancelled.
template <typename Call>
absl::Status WithPython(absl::string_view what, const Call& call) {
  const TakeGil gil;
  if (!gil.taken()) {
    return absl::CancelledError(
        absl::StrCat(what, ": the interpreter has ended"));
  }
  try {
    call();
  } catch (nb::python_error& error) {
    return FromPython(error, what);
  } catch (const StatusError& error) {
    return error.status();
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(what, ": ", error.what()));
  }
  return absl::OkStatus();
}

// Notices signals, such as Ctrl-C, while a call waits. One for a call, or for
// calls that are made one at a time.
class Interrupt {
 public:
  // Whether to end the call. Any thread, without the GIL; only Python's main
  // thread looks for signals, about twenty times a second.
  bool Poll();
  // Ends the call with an exception that Python code called by it has raised.
  void End(nb::object exception);
  // Raises the exception of the signal's handler, if there was one.
  void Raise();

 private:
  std::atomic<bool> raised_ = false;
  std::chrono::steady_clock::time_point next_{};
  PyRef exception_;
};

// Whether a signal interrupts the call that this thread waits in or, on a
// thread that works for others, such as one that reads ahead, the call of
// Python's main thread. Any thread, without the GIL.
bool SignalPending();

// The interrupt of the call that a thread waits in, while it exists.
class WaitingCall {
 public:
  explicit WaitingCall(Interrupt* interrupt);
  ~WaitingCall();
  WaitingCall(const WaitingCall&) = delete;
  WaitingCall& operator=(const WaitingCall&) = delete;

  // Ends the call that this thread waits in, if any, if the exception is a
  // KeyboardInterrupt or SystemExit. Called where the library ignores errors of
  // Python code, such as in a read ahead. Elsewhere the call returns the error.
  static void EndBy(const nb::object& exception);

 private:
  Interrupt* const before_;
};

// Runs a call without the GIL. What a signal's handler raised meanwhile takes
// the place of its result.
template <typename Call>
auto Interruptible(Interrupt* interrupt, const Call& call) {
  auto result = [&] {
    const ReleaseGil release;
    const WaitingCall waiting(interrupt);
    return call();
  }();
  interrupt->Raise();
  return result;
}

// Whether this is the process that created it, and not a forked child.
class Process {
 public:
  bool IsThis() const { return pid_ == ::getpid(); }
  void Check() const {
    if (IsThis()) return;
    throw StatusError(absl::FailedPreconditionError(
        absl::StrCat("the store was opened by process ", pid_,
                     ", and this is its forked child ", ::getpid(),
                     "; start processes that use stores with spawn instead")));
  }

 private:
  const pid_t pid_ = ::getpid();
};

void BindErrors(nb::module_& module);

}  // namespace ckptdb::python

#endif  // CKPTDB_PYTHON_BINDING_ERRORS_H_
