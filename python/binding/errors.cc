// SPDX-License-Identifier: Apache-2.0
#include "python/binding/errors.h"

#include <nanobind/stl/string.h>

#include <deque>
#include <iterator>
#include <optional>

#include "absl/strings/match.h"
#include "db/options.h"

namespace ckptdb::python {
namespace {

// Exceptions whose statuses were dropped are forgotten, oldest first.
constexpr size_t kMostExceptions = 64;

// What Python code raised, with the text by which a status refers to it, which
// the library keeps, also between threads. Used with the GIL, and never
// destroyed, because the interpreter may be gone by then.
struct Raised {
  std::string text;
  nb::object exception;
};
std::deque<Raised>& AllRaised() {
  static auto* const kRaised = new std::deque<Raised>();
  return *kRaised;
}

// Python's main thread, which ends the interpreter and handles signals. It may
// be another than the one that imports this module.
std::atomic<unsigned long> main_thread = 0;  // NOLINT(google-runtime-int)

bool IsMainThread() { return PyThread_get_thread_ident() == main_thread; }

// The interrupt of the call that this thread waits in, and whether a signal
// interrupted the call of the main thread.
thread_local Interrupt* waiting_in = nullptr;
std::atomic<bool> main_interrupted = false;

std::atomic<bool> ending = false;  // of the interpreter
std::atomic<int> in_python = 0;    // threads that have the GIL, or wait for it

// Whether this is not the main thread, and the interpreter ends.
bool MayNotTakeGil() { return ending && !IsMainThread(); }

// Called last before the interpreter ends. Waits up to two seconds for threads
// that run Python code or wait for the GIL.
void EndThreads() {
  ending = true;
  PyThreadState* const thread = PyEval_SaveThread();
  constexpr int kMostMillis = 2000;
  for (int i = 0; i < kMostMillis && in_python > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  PyEval_RestoreThread(thread);
}

// The forked thread is a child's only one.
void AfterFork() {
  main_thread = PyThread_get_thread_ident();
  in_python = 0;
}

// ckptdb._errors.make(code, message, holder)
nb::object* make_error = nullptr;

// Returns the newest exception that the status refers to, and forgets it.
std::optional<nb::object> CauseOf(const absl::Status& status) {
  std::deque<Raised>& all = AllRaised();
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    if (!absl::StrContains(status.message(), at->text)) continue;
    nb::object cause = std::move(at->exception);
    all.erase(std::next(at).base());
    return cause;
  }
  return std::nullopt;
}

// False for KeyboardInterrupt and SystemExit.
bool IsException(const nb::object& raised) {
  return PyObject_IsInstance(raised.ptr(), PyExc_Exception) == 1;
}

void SetError(const nb::object& error) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())),
                  error.ptr());
}

void RaiseStatus(const absl::Status& status) {
  if (make_error == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, status.ToString().c_str());
    return;
  }
  const std::optional<nb::object> cause = CauseOf(status);
  if (cause.has_value() && !IsException(*cause)) {
    SetError(*cause);  // KeyboardInterrupt and SystemExit end the program
    return;
  }
  nb::object holder = nb::none();
  if (const auto payload = status.GetPayload(kHolderPayload)) {
    holder = nb::cast(std::string(*payload));
  }
  const nb::object error = (*make_error)(static_cast<int>(status.code()),
                                         std::string(status.message()), holder);
  if (cause.has_value()) {
    PyException_SetCause(error.ptr(), nb::object(*cause).release().ptr());
  }
  SetError(error);
}

// The code of an exception of ckptdb, or Internal.
absl::StatusCode CodeOf(const nb::object& exception) {
  const nb::object number = nb::getattr(exception, "_number", nb::none());
  if (!nb::isinstance<nb::int_>(number)) return absl::StatusCode::kInternal;
  return static_cast<absl::StatusCode>(nb::cast<int>(number));
}

}  // namespace

absl::Status FromPython(nb::python_error& error, absl::string_view what) {
  nb::object value = nb::borrow(error.value());
  const auto message = nb::cast<std::string>(nb::str(value));
  const auto type =
      nb::cast<std::string>(nb::str(nb::handle(value.type()).attr("__name__")));
  const absl::StatusCode code = CodeOf(value);
  const bool plain = code == absl::StatusCode::kInternal || message.empty();
  std::string text = plain ? absl::StrCat(what, " raised ", type,
                                          message.empty() ? "" : ": ", message)
                           : message;
  absl::Status status(code, text);
  std::deque<Raised>& all = AllRaised();
  all.push_back({std::move(text), std::move(value)});
  if (all.size() > kMostExceptions) all.pop_front();
  return status;
}

ReleaseGil::~ReleaseGil() {
  ++in_python;
  if (MayNotTakeGil()) {
    --in_python;
    // The interpreter is ending: this thread must never run Python again, and
    // its callers expect the GIL. The end of the process ends it.
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  PyEval_RestoreThread(thread_);
  --in_python;
}

TakeGil::TakeGil() {
  ++in_python;
  if (nb::is_alive() && !MayNotTakeGil()) gil_.emplace();
}

TakeGil::~TakeGil() {
  gil_.reset();
  --in_python;
}

PyRef Hold(nb::object object) {
  return PyRef(new nb::object(std::move(object)), [](nb::object* held) {
    const TakeGil gil;
    if (gil.taken()) {
      held->reset();
    } else {
      held->release();  // nobody is left to free it
    }
    delete held;
  });
}

bool Interrupt::Poll() {
  if (raised_.load(std::memory_order_relaxed)) return true;
  if (!IsMainThread()) return false;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return false;
  next_ = now + std::chrono::milliseconds(50);
  const TakeGil gil;
  if (!gil.taken()) return true;
  if (PyErr_CheckSignals() == 0) return false;
  nb::python_error error;
  End(nb::borrow(error.value()));
  return true;
}

void Interrupt::End(nb::object exception) {
  exception_ = Hold(std::move(exception));
  raised_ = true;
  if (IsMainThread()) main_interrupted = true;
}

void Interrupt::Raise() {
  if (!raised_.exchange(false)) return;
  main_interrupted = false;
  const nb::object exception = *std::exchange(exception_, nullptr);
  SetError(exception);
  throw nb::python_error();
}

bool SignalPending() {
  return waiting_in != nullptr ? waiting_in->Poll() : main_interrupted.load();
}

WaitingCall::WaitingCall(Interrupt* interrupt)
    : before_(std::exchange(waiting_in, interrupt)) {}

void WaitingCall::EndBy(const nb::object& exception) {
  if (waiting_in != nullptr && !IsException(exception)) {
    waiting_in->End(exception);
  }
}

WaitingCall::~WaitingCall() { waiting_in = before_; }

void BindErrors(nb::module_& module) {
  main_thread = nb::cast<unsigned long>(  // NOLINT(google-runtime-int)
      nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void*) {
        try {
          std::rethrow_exception(pointer);
        } catch (const StatusError& error) {
          RaiseStatus(error.status());
        }
      });
  module.def("_end_threads", &EndThreads);
  module.def("_after_fork", &AfterFork);
  module.def("_set_make_error", [](nb::object make) {
    make_error = new nb::object(std::move(make));
  });
}

}  // namespace ckptdb::python
