// SPDX-License-Identifier: Apache-2.0
// Tracks the calls in progress on an object, and their threads; internal to the
// library.
#ifndef CKPTDB_DB_BASE_CALL_GATE_H_
#define CKPTDB_DB_BASE_CALL_GATE_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "db/base/home_process.h"
#include "db/base/mutex.h"

namespace ckptdb::internal {

// Admits calls until it is closed. Thread-safe.
class CallGate {
 public:
  // One call, from construction to destruction, on one thread. A thread's calls
  // end in reverse order. InCall returns true in a call that was not admitted,
  // too, for callbacks that run nevertheless.
  class Call {
   public:
    explicit Call(CallGate* gate);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // Returns false if the gate is closed or belongs to another process: the
    // call must not proceed.
    bool admitted() const { return admitted_; }

   private:
    friend class CallGate;
    CallGate* gate_;  // null in another process
    const Call* const outer_;
    bool admitted_ = false;
  };

  // Makes the calling thread, from construction to destruction, a part of
  // another thread's calls, which wait for it: InCall returns the same on both.
  class Worker {
   public:
    // `calls` are those of the other thread, from InnermostCall().
    explicit Worker(const Call* calls);
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

   private:
    const Call* const outer_;
  };
  // Returns this thread's innermost call; null without one.
  static const Call* InnermostCall();

  CallGate() = default;
  CallGate(const CallGate&) = delete;
  CallGate& operator=(const CallGate&) = delete;

  const HomeProcess& home() const { return home_; }
  // Returns the error of a call of `what` that was not admitted; `name` names
  // the object: "the store \"/a\"".
  absl::Status Refusal(absl::string_view what, absl::string_view name) const;

  // Returns whether this thread is in a call, for example in a caller's hook
  // that the call runs.
  bool InCall() const;
  // Returns false in a forked child, in which no call is admitted either.
  bool closed() const;

  // Stops admitting calls, and returns once those in progress have ended.
  // Returns false if it was already closed. The calling thread must not be in a
  // call.
  bool Close();
  void Open();

 private:
  const HomeProcess home_;
  mutable Mutex mutex_;
  ConditionVariable idle_;
  uint64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_CALL_GATE_H_
