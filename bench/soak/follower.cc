// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/follower.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/soak/check.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::soak {
namespace {

// The step was deleted, or the writer changed the store while it was opened: a
// newer step follows.
bool IsOvertaken(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsAborted(status) ||
         absl::IsUnavailable(status);
}

}  // namespace

Follower::Follower(std::string path, const Content& content)
    : path_(std::move(path)),
      content_(content),
      thread_([this] { Follow(); }) {}

Follower::~Follower() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
  }
  stops_.notify_all();
  thread_.join();
}

absl::Status Follower::status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

bool Follower::Pause() {
  constexpr std::chrono::milliseconds kPoll(20);
  std::unique_lock<std::mutex> lock(mutex_);
  return !stops_.wait_for(lock, kPoll, [this] { return stopped_; });
}

void Follower::Follow() {
  while (Pause()) {
    const absl::Status status = CatchUp();
    if (status.ok()) continue;
    if (IsOvertaken(status)) {
      ++overtaken_;
      continue;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    status_ = internal::Annotate(status, "follower");
    return;
  }
}

absl::Status Follower::CatchUp() {
  if (reader_ == nullptr) {
    CKPTDB_ASSIGN_OR_RETURN(reader_, Reader::Open(path_));
  } else {
    CKPTDB_RETURN_IF_ERROR(reader_->Refresh());
  }
  CKPTDB_ASSIGN_OR_RETURN(const StepRecord latest, reader_->Latest());
  if (held_ == latest.version) return absl::OkStatus();
  absl::Status status = GoTo(latest.version);
  // Some rows may already be those of the step that it did not reach.
  if (!status.ok()) held_.reset();
  return status;
}

absl::Status Follower::GoTo(const Version& latest) {
  if (!held_) return ReadWhole(latest);
  const absl::Status status = GoByChanges(latest);
  return absl::IsFailedPrecondition(status) ? ReadWhole(latest) : status;
}

absl::Status Follower::GoByChanges(const Version& latest) {
  CKPTDB_ASSIGN_OR_RETURN(const auto changes,
                          reader_->OpenChanges(*held_, latest.step));
  CKPTDB_RETURN_IF_ERROR(changes->ScanTable(kTable, {}, &rows_));
  CKPTDB_RETURN_IF_ERROR(Check(changes->to()));
  for (const ChangeReader::ItemName& item : changes->ChangedItems()) {
    if (item.kind != Item::Kind::kTensor) continue;
    CKPTDB_RETURN_IF_ERROR(CheckTensor(changes->to(), content_, item.name));
  }
  held_ = changes->to().record().version;
  ++by_changes_;
  return absl::OkStatus();
}

absl::Status Follower::ReadWhole(const Version& latest) {
  CKPTDB_ASSIGN_OR_RETURN(const auto step, reader_->OpenStep(latest.step));
  CKPTDB_RETURN_IF_ERROR(
      step->RestoreTable(kTable, LiveTable::RestoreMode::kClear, {}, &rows_));
  CKPTDB_RETURN_IF_ERROR(Check(*step));
  CKPTDB_RETURN_IF_ERROR(CheckTensor(*step, content_, kFrozenTensor));
  held_ = step->record().version;
  ++whole_;
  return absl::OkStatus();
}

absl::Status Follower::Check(const StepReader& step) const {
  const Version& version = step.record().version;
  return CompareRows(rows_.rows(), content_.RowsAt(version.step),
                     ToString(version));
}

}  // namespace ckptdb::soak
