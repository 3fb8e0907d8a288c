#include "ckptdb/manager/pending_save.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ckptdb/manager/save/pending_save_state.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {

void PendingSave::State::SetStaged(const absl::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  staged_ = status;
  changed_.notify_all();
}

void PendingSave::State::Finish(const absl::StatusOr<SaveResult>& result) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!staged_.has_value()) staged_ = result.status();
  result_ = result;
  changed_.notify_all();
}

void PendingSave::State::End(const absl::Status& error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  end_ = error;
  changed_.notify_all();
}

absl::Status PendingSave::State::WaitFor(std::unique_lock<std::mutex>* lock,
                                         absl::Duration timeout,
                                         const char* what,
                                         const std::function<bool()>& done) {
  const absl::Time end = absl::Now() + timeout;
  while (!done()) {
    if (timeout == absl::InfiniteDuration()) {
      changed_.wait(*lock);
    } else if (changed_.wait_until(*lock, absl::ToChronoTime(end)) ==
                   std::cv_status::timeout &&
               !done()) {
      return absl::DeadlineExceededError(
          absl::StrCat("step ", step_, " is not ", what, " after ",
                       absl::FormatDuration(timeout)));
    }
  }
  return absl::OkStatus();
}

absl::Status PendingSave::State::WaitStaged(absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  CKPTDB_RETURN_IF_ERROR(
      WaitFor(&lock, timeout, "staged", [&] { return staged_.has_value(); }));
  return *staged_;
}

absl::StatusOr<SaveResult> PendingSave::State::WaitFinished(
    absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  CKPTDB_RETURN_IF_ERROR(WaitFor(&lock, timeout, "committed",
                                 [&] { return result_.has_value(); }));
  if (!result_->ok() && std::this_thread::get_id() == trainer_) told_ = true;
  return *result_;
}

bool PendingSave::State::finished() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return result_.has_value();
}

absl::Status PendingSave::State::WaitEnded(absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  CKPTDB_RETURN_IF_ERROR(
      WaitFor(&lock, timeout, "saved", [&] { return end_.has_value(); }));
  return *end_;
}

bool PendingSave::State::ended() {
  const std::lock_guard<std::mutex> lock(mutex_);
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
bool PendingSave::committed_or_failed() const { return state_->finished(); }
void PendingSave::Cancel() { state_->Cancel(); }

}  // namespace ckptdb
