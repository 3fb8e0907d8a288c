// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/follower.h"

#include <ckptdb/schema/status.h>

#include <chrono>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "train_ctr/digest.h"

namespace train_ctr {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin)
      .count();
}

void Print(const FollowedStep& followed) {
  const std::string from =
      followed.from ? absl::StrCat("from ", *followed.from) : "from nothing";
  const std::string how = followed.incremental
                              ? "by changes"
                              : absl::StrCat("whole, ", followed.whole_reason);
  std::fprintf(stderr,
               "step %lld reached %s: %s, %llu rows upserted, %llu erased, "
               "%.1f ms\n",
               static_cast<long long>(followed.to), from.c_str(), how.c_str(),
               static_cast<unsigned long long>(followed.change.rows_upserted),
               static_cast<unsigned long long>(followed.change.rows_erased),
               followed.ms);
}

// Returns whether there is no store yet. Unavailable means a store that is
// being created.
bool NotYet(const absl::Status& opened) {
  return absl::IsNotFound(opened) || absl::IsUnavailable(opened);
}

// Maps the error of opening a step that was retired since the reader looked, or
// that the trainer did not let it open, to Aborted, as there is a newer step to
// go to.
absl::Status OpenError(const absl::Status& status) {
  return NotYet(status) ? absl::AbortedError(status.message()) : status;
}

}  // namespace

absl::StatusOr<FollowReport> Follower::Run() {
  while (!Done()) {
    CKPTDB_RETURN_IF_ERROR(CatchUp());
    WaitForPoll();
  }
  FollowReport report;
  report.restores = std::move(restores_);
  if (!held_) return report;
  report.step = held_->step;
  report.digest = StateDigest(replica_.state());
  report.rows = replica_.rows();
  std::fprintf(stderr, "digest %s\n", report.digest.c_str());
  return report;
}

void Follower::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopped_ = true;
  wakes_.notify_all();
}

bool Follower::Done() const {
  if (held_ && options_.until_step && held_->step >= *options_.until_step) {
    return true;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  return stopped_;
}

void Follower::WaitForPoll() {
  if (Done()) return;
  std::unique_lock<std::mutex> lock(mutex_);
  wakes_.wait_for(lock, std::chrono::milliseconds(options_.poll_ms),
                  [this] { return stopped_; });
}

// Returns false if there is no store yet.
absl::StatusOr<bool> Follower::Refresh() {
  if (reader_ != nullptr) {
    const absl::Status refreshed = reader_->Refresh();
    // The trainer saves all the time: the next look may find it at rest.
    if (absl::IsUnavailable(refreshed)) return false;
    CKPTDB_RETURN_IF_ERROR(refreshed);
    return true;
  }
  absl::StatusOr<std::unique_ptr<ckptdb::Reader>> opened =
      ckptdb::Reader::Open(store_);
  if (NotYet(opened.status())) {
    if (!waiting_) {
      std::fprintf(stderr, "waiting for a store at %s\n", store_.c_str());
    }
    waiting_ = true;
    return false;
  }
  CKPTDB_RETURN_IF_ERROR(opened.status());
  reader_ = *std::move(opened);
  return true;
}

absl::Status Follower::CatchUp() {
  CKPTDB_ASSIGN_OR_RETURN(const bool there, Refresh());
  if (!there) return absl::OkStatus();
  const absl::StatusOr<ckptdb::StepRecord> latest = reader_->Latest();
  if (absl::IsNotFound(latest.status())) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(latest.status());
  if (held_ == latest->version) return absl::OkStatus();
  absl::StatusOr<FollowedStep> followed = Reach(*latest);
  if (absl::IsAborted(followed.status())) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(followed.status());
  Print(*followed);
  restores_.push_back(*std::move(followed));
  return absl::OkStatus();
}

absl::StatusOr<FollowedStep> Follower::Reach(const ckptdb::StepRecord& latest) {
  const Clock::time_point begin = Clock::now();
  absl::StatusOr<FollowedStep> followed =
      held_ ? ReachByChanges(latest)
            : ReachWhole(latest, "as nothing is held yet");
  if (followed.ok()) followed->ms = MillisecondsSince(begin);
  return followed;
}

absl::StatusOr<FollowedStep> Follower::ReachByChanges(
    const ckptdb::StepRecord& latest) {
  FollowedStep followed;
  followed.from = held_->step;
  followed.incremental = true;
  const auto changes = reader_->OpenChanges(*held_, latest.version.step);
  if (absl::IsFailedPrecondition(changes.status())) {
    return ReachWhole(latest, std::string(changes.status().message()));
  }
  CKPTDB_RETURN_IF_ERROR(OpenError(changes.status()));
  CKPTDB_ASSIGN_OR_RETURN(followed.change, replica_.Follow(**changes));
  held_ = (*changes)->to().record().version;
  followed.to = held_->step;
  return followed;
}

absl::StatusOr<FollowedStep> Follower::ReachWhole(
    const ckptdb::StepRecord& latest, std::string reason) {
  FollowedStep followed;
  if (held_) followed.from = held_->step;
  followed.whole_reason = std::move(reason);
  const auto step = reader_->OpenStep(latest.version.step);
  CKPTDB_RETURN_IF_ERROR(OpenError(step.status()));
  CKPTDB_ASSIGN_OR_RETURN(followed.change, replica_.Restore(**step));
  held_ = (*step)->record().version;
  followed.to = held_->step;
  return followed;
}

}  // namespace train_ctr
