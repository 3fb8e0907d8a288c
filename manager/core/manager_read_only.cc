// How a manager follows a store that another job writes.
#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "ckptdb/manager/core/manager_impl.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {
namespace {

// Of a preemption, while waiting.
constexpr std::chrono::milliseconds kNoticeEvery(100);

std::string SavedLast(const absl::StatusOr<StepRecord>& latest) {
  if (!latest.ok()) return std::string(latest.status().message());
  return absl::StrCat("step ", latest->version.step, " is the one saved last");
}

}  // namespace

absl::Status CheckpointManager::Impl::ReadOnlyError(
    absl::string_view what) const {
  return absl::FailedPreconditionError(absl::StrCat(
      what, ": the manager of store \"", options_.path, "\" is read-only"));
}

SaveDecision CheckpointManager::Impl::ReadOnlyDecision() const {
  return {SaveKind::kNone, "not saved: the manager is read-only"};
}

absl::StatusOr<StepOutcome> CheckpointManager::Impl::CountStep(int64_t step) {
  CKPTDB_RETURN_IF_ERROR(Count(step));
  base_due_ = "the model was trained";
  return StepOutcome{step, ReadOnlyDecision(), std::nullopt, preempted()};
}

// By attempts, which only grow: training may have gone back to an older step.
bool CheckpointManager::Impl::HasNewer() const {
  const absl::StatusOr<StepRecord> latest = reader_->Latest();
  return latest.ok() &&
         (!parent_.has_value() || StateOf(*latest).attempt > parent_state_);
}

absl::Status CheckpointManager::Impl::WaitForNewer(absl::Duration timeout) {
  const absl::Duration longest = absl::Hours(24) * 365;  // for the clock
  const Clock::time_point end =
      Clock::now() + absl::ToChronoNanoseconds(std::min(timeout, longest));
  // A signal handler sets the flag, and may not notify.
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    const absl::Status refreshed = reader_->Refresh();
    // A trainer that saves all the time: the next look is soon.
    if (!absl::IsUnavailable(refreshed)) CKPTDB_RETURN_IF_ERROR(refreshed);
    if (HasNewer()) return absl::OkStatus();
    Clock::time_point now = Clock::now();
    if (now >= end) break;
    const Clock::time_point look =
        std::min(end, now + absl::ToChronoNanoseconds(
                                std::min(options_.poll_every, longest)));
    for (; now < look; now = Clock::now()) {
      never.wait_until(lock, std::min(look, now + kNoticeEvery),
                       [&] { return preempted(); });
      if (preempted()) {
        return absl::CancelledError("preempted while waiting for a step");
      }
    }
  }
  return absl::DeadlineExceededError(absl::StrCat(
      options_.path, ": no newer step came in ", absl::FormatDuration(timeout),
      "; ", SavedLast(reader_->Latest())));
}

absl::StatusOr<RestoreReport> CheckpointManager::Impl::WaitForStep(
    absl::Duration timeout) {
  if (!read_only()) {
    return absl::FailedPreconditionError(
        absl::StrCat("WaitForStep: the manager of store \"", options_.path,
                     "\" is not read-only"));
  }
  const absl::Status status =
      is_owner() ? WaitForNewer(timeout) : absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(Agree(ranks_.get(), "wait for a step", status,
                               timeout + options_.deadline));
  const Clock::time_point begin = Clock::now();
  // The model is a step's, and of which is known.
  const bool by_changes = parent_.has_value() && base_due_.empty();
  CKPTDB_ASSIGN_OR_RETURN(RestoreReport report, RestoreOnce({}, by_changes));
  Report(begin, &report);
  return report;
}

}  // namespace ckptdb
