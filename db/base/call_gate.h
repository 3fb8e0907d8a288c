// Tracks which calls of an object are under way, and on which threads; internal
// to the library.
#ifndef CKPTDB_DB_BASE_CALL_GATE_H_
#define CKPTDB_DB_BASE_CALL_GATE_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/base/home_process.h"
#include "ckptdb/db/base/mutex.h"

namespace ckptdb::internal {

// Lets calls in until it is closed. Thread-safe.
class CallGate {
 public:
  // One call, from its construction to its destruction, on one thread. Calls
  // of a thread end in the reverse order of their beginning.
  class Call {
   public:
    explicit Call(CallGate* gate);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // Returns false if the gate was closed or is another process's: the call
    // must not be made.
    bool admitted() const { return gate_ != nullptr; }

   private:
    friend class CallGate;
    CallGate* gate_;
    const Call* const outer_;
  };

  CallGate() = default;
  CallGate(const CallGate&) = delete;
  CallGate& operator=(const CallGate&) = delete;

  const HomeProcess& home() const { return home_; }
  // The error of a call of `what` that was not admitted; `name` names the
  // object: "the store \"/a\"".
  absl::Status Refusal(absl::string_view what, absl::string_view name) const;

  // Returns whether this thread is in a call, as is a hook of the caller that a
  // call runs.
  bool InCall() const;
  bool closed() const;

  // Lets no further call in, and returns once those under way have ended.
  // Returns false if it was closed already. The calling thread must not be in a
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
