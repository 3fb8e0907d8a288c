// SPDX-License-Identifier: Apache-2.0
#include "db/base/call_gate.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace ckptdb::internal {
namespace {

// The innermost call of this thread, which links to the outer ones.
thread_local const CallGate::Call* innermost_call = nullptr;

}  // namespace

CallGate::Call::Call(CallGate* gate) : gate_(gate), outer_(innermost_call) {
  // In a forked child, a thread that does not exist there may hold the mutex.
  if (gate->home_.IsForked()) {
    gate_ = nullptr;
    return;
  }
  // The calls of a thread form a list, so that Close can detect that it was
  // called from within one, for which it would wait forever.
  innermost_call = this;
  const MutexLock lock(&gate->mutex_);
  admitted_ = !gate->closed_;
  if (admitted_) ++gate->calls_;
}

CallGate::Call::~Call() {
  if (gate_ == nullptr) return;
  // The list is thread-local memory, which a forked child has a copy of, so the
  // call is removed there, too.
  innermost_call = outer_;
  if (!admitted_ || gate_->home_.IsForked()) return;
  const MutexLock lock(&gate_->mutex_);
  if (--gate_->calls_ == 0) gate_->idle_.NotifyAll();
}

CallGate::Worker::Worker(const Call* calls)
    : outer_(std::exchange(innermost_call, calls)) {}

CallGate::Worker::~Worker() { innermost_call = outer_; }

const CallGate::Call* CallGate::InnermostCall() { return innermost_call; }

absl::Status CallGate::Refusal(absl::string_view what,
                               absl::string_view name) const {
  absl::Status status = home_.Check(what);
  if (!status.ok()) return status;
  return absl::FailedPreconditionError(
      absl::StrCat(what, ": ", name, " is closed"));
}

bool CallGate::InCall() const {
  for (const Call* call = innermost_call; call != nullptr;
       call = call->outer_) {
    if (call->gate_ == this) return true;
  }
  return false;
}

bool CallGate::closed() const {
  // The mutex may be locked by a thread that does not exist in the child.
  if (home_.IsForked()) return false;
  const MutexLock lock(&mutex_);
  return closed_;
}

bool CallGate::Close() {
  const MutexLock lock(&mutex_);
  // Only one caller closes: others must not shut down the object a second time.
  if (closed_) return false;
  closed_ = true;
  // No further calls are admitted, so this terminates.
  while (calls_ > 0) idle_.Wait(&mutex_);
  return true;
}

void CallGate::Open() {
  const MutexLock lock(&mutex_);
  closed_ = false;
}

}  // namespace ckptdb::internal
