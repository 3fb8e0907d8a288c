// SPDX-License-Identifier: Apache-2.0
#include "manager/results.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "manager/save/pending_save_state.h"
#include "manager/state/poll_cancelled.h"
#include "schema/status.h"

namespace ckptdb {

using internal::MutexLock;

void PendingSave::State::SetStaged(const absl::Status& status) {
  const MutexLock lock(&mutex_);
  staged_ = status;
  changed_.NotifyAll();
}

// If staging did not finish, the save has failed, and callers that wait for
// staging get its error.
void PendingSave::State::Finish(const absl::StatusOr<SaveResult>& result) {
  const MutexLock lock(&mutex_);
  if (!staged_.has_value()) staged_ = result.status();
  result_ = result;
  changed_.NotifyAll();
}

// Called after Finish, when the callbacks have returned. Unlike Finish's, its
// error is OK for a tolerated failure.
void PendingSave::State::End(const absl::Status& error) {
  const MutexLock lock(&mutex_);
  end_ = error;
  changed_.NotifyAll();
}

template <typename Value>
absl::Status PendingSave::State::WaitFor(const std::optional<Value>& value,
                                         absl::Duration timeout,
                                         const char* what, bool poll) {
  const absl::Time end = absl::Now() + timeout;
  while (!value.has_value()) {
    const absl::Time next =
        poll ? absl::Now() + absl::FromChrono(internal::kPollEvery)
             : absl::InfiniteFuture();
    const absl::Time until = std::min(end, next);
    // The standard library's clocks have no infinite future.
    if (until == absl::InfiniteFuture()) {
      changed_.Wait(&mutex_);
    } else if (!changed_.WaitUntil(&mutex_, absl::ToChronoTime(until)) &&
               !value.has_value()) {
      if (until == end) {
        return absl::DeadlineExceededError(
            absl::StrCat("step ", step_, " is not ", what, " after ",
                         absl::FormatDuration(timeout)));
      }
      mutex_.Unlock();
      const absl::Status polled = internal::PollCancelled(
          cancelled_, absl::StrCat("step ", step_, " to be ", what));
      mutex_.Lock();
      CKPTDB_RETURN_IF_ERROR(polled);
    }
  }
  return absl::OkStatus();
}

absl::Status PendingSave::State::WaitStaged(absl::Duration timeout) {
  CKPTDB_RETURN_IF_ERROR(home_.Check("PendingSave::WaitStaged"));
  const MutexLock lock(&mutex_);
  CKPTDB_RETURN_IF_ERROR(
      WaitFor(staged_, timeout, "staged", cancelled_ != nullptr));
  return *staged_;
}

bool PendingSave::State::StagedWithin(std::chrono::milliseconds time) {
  const MutexLock lock(&mutex_);
  return WaitFor(staged_, absl::FromChrono(time), "staged", /*poll=*/false)
      .ok();
}

absl::StatusOr<SaveResult> PendingSave::State::WaitFinished(
    absl::Duration timeout) {
  CKPTDB_RETURN_IF_ERROR(home_.Check("PendingSave::WaitCommitted"));
  const MutexLock lock(&mutex_);
  CKPTDB_RETURN_IF_ERROR(
      WaitFor(result_, timeout, "committed", cancelled_ != nullptr));
  // The training thread has the error now, so the manager does not return it
  // again. Other threads may also receive it.
  if (!result_->ok() && std::this_thread::get_id() == trainer_)
    error_taken_ = true;
  return *result_;
}

absl::Status PendingSave::State::WaitShipped(absl::Time deadline) {
  CKPTDB_RETURN_IF_ERROR(home_.Check("PendingSave::WaitShipped"));
  if (shipping_ == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "PendingSave::WaitShipped: step ", step_,
        " is not shipped by this rank; only the owner, rank 0, ships, if "
        "ManagerOptions::ship.to is set"));
  }
  CKPTDB_ASSIGN_OR_RETURN(const SaveResult result,
                          WaitFinished(deadline - absl::Now()));
  return shipping_->WaitShipped(result.version, deadline, [this] {
    return internal::PollCancelled(
        cancelled_, absl::StrCat("step ", step_, " to be shipped"));
  });
}

bool PendingSave::State::finished() {
  if (home_.IsForked()) return false;
  const MutexLock lock(&mutex_);
  return result_.has_value();
}

absl::Status PendingSave::State::WaitEnded(absl::Duration timeout, bool poll) {
  const MutexLock lock(&mutex_);
  CKPTDB_RETURN_IF_ERROR(
      WaitFor(end_, timeout, "saved", poll && cancelled_ != nullptr));
  return *end_;
}

bool PendingSave::State::ended() {
  const MutexLock lock(&mutex_);
  return end_.has_value();
}

int64_t PendingSave::step() const { return state_->step(); }
absl::Status PendingSave::WaitStaged(absl::Duration timeout) const {
  return state_->WaitStaged(timeout);
}
absl::StatusOr<SaveResult> PendingSave::WaitCommitted(
    absl::Duration timeout) const {
  return state_->WaitFinished(timeout);
}
absl::Status PendingSave::WaitShipped(absl::Time deadline) const {
  return state_->WaitShipped(deadline);
}
bool PendingSave::committed_or_failed() const { return state_->finished(); }
void PendingSave::Cancel() { state_->Cancel(); }

}  // namespace ckptdb
