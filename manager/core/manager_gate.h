// SPDX-License-Identifier: Apache-2.0
// Controls which calls of a manager may be made; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_MANAGER_GATE_H_
#define CKPTDB_MANAGER_CORE_MANAGER_GATE_H_

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "db/base/call_gate.h"
#include "db/base/call_guard.h"
#include "db/base/mutex.h"
#include "schema/status.h"

namespace ckptdb::internal {

// Refuses calls in a forked process, after Close, and from code that the
// manager itself calls; and admits one training call at a time, so its mutex
// guards everything documented as belonging to the training thread.
// Thread-safe.
class ManagerGate {
 public:
  // `path` is the store's, for error messages. `calls` are the calls in
  // progress: the caller's, the save thread while it runs a save, and the
  // thread that ships while it runs a callback. They outlive the gate.
  ManagerGate(std::string path, CallGate* calls)
      : path_(std::move(path)), calls_(*calls) {}
  ManagerGate(const ManagerGate&) = delete;
  ManagerGate& operator=(const ManagerGate&) = delete;

  CallGate& calls() { return calls_; }
  const HomeProcess& home() const { return calls_.home(); }

  // Runs a call that any thread may make. An exception of `function` becomes
  // its error.
  template <typename Function>
  auto Look(absl::string_view what, Function&& function)
      -> std::invoke_result_t<Function> {
    const CallGate::Call call(&calls_);
    if (!call.admitted()) return ClosedError(what);
    return CallGuarded(what, std::forward<Function>(function));
  }

  // Runs a training call: its thread is the training thread from now on.
  template <typename Function>
  auto Enter(absl::string_view what, Function&& function)
      -> std::invoke_result_t<Function> {
    CKPTDB_RETURN_IF_ERROR(CheckCaller(what));
    const MutexLock training(&training_mutex_);
    NoteTrainingThread();
    return Look(what, std::forward<Function>(function));
  }

  // Runs `call` if the calling thread is the training thread and no other
  // thread is in a training call; otherwise runs `other`. Both return a status.
  template <typename Call, typename Other>
  absl::Status EnterIfTraining(Call&& call, Other&& other) {
    if (training_thread_.load() != std::this_thread::get_id() ||
        !training_mutex_.TryLock()) {
      return std::forward<Other>(other)();
    }
    const MutexLock training(&training_mutex_, std::adopt_lock);
    return std::forward<Call>(call)();
  }

  // Runs the call that closes the manager, unless it is closed already. It may
  // run again if it has reopened calls().
  template <typename Function>
  absl::Status Close(absl::string_view what, Function&& function) {
    CKPTDB_RETURN_IF_ERROR(CheckCaller(what));
    const MutexLock training(&training_mutex_);
    if (calls_.closed()) return absl::OkStatus();
    return std::forward<Function>(function)();
  }

  // Makes the calling thread the training thread.
  void NoteTrainingThread() { training_thread_ = std::this_thread::get_id(); }

  // Returns FailedPrecondition: the manager is closed, or belongs to another
  // process.
  absl::Status ClosedError(absl::string_view what) const;
  // Returns FailedPrecondition: the caller runs inside a call of the manager.
  absl::Status ReentryError(absl::string_view what) const;

 private:
  absl::Status CheckCaller(absl::string_view what) const;

  const std::string path_;
  CallGate& calls_;
  Mutex training_mutex_;
  std::atomic<std::thread::id> training_thread_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_MANAGER_GATE_H_
