// SPDX-License-Identifier: Apache-2.0
#include "manager/core/error_ledger.h"

#include <utility>

namespace ckptdb::internal {

// Keeps the first error, as later ones may follow from it. An error that
// WaitCommitted has returned to the training thread makes room for the next.
void ErrorLedger::NoteSave(std::shared_ptr<PendingSave::State> save,
                           absl::Status error) {
  const MutexLock lock(&mutex_);
  if (save_error_.error.ok() || save_error_.save->error_taken()) {
    save_error_ = {std::move(save), std::move(error)};
  }
}

void ErrorLedger::NoteCallback(const absl::Status& status) {
  const MutexLock lock(&mutex_);
  callback_error_.Update(status);
}

void ErrorLedger::NoteStatistics(const absl::Status& status) {
  const MutexLock lock(&mutex_);
  statistics_error_.Update(status);
}

// The training thread may have called WaitCommitted since the error was noted,
// and so have received it.
absl::Status ErrorLedger::TakeSaveError() {
  const MutexLock lock(&mutex_);
  const SaveError taken = std::exchange(save_error_, SaveError());
  if (taken.save != nullptr && taken.save->error_taken())
    return absl::OkStatus();
  return taken.error;
}

absl::Status ErrorLedger::TakeCallbackError() {
  const MutexLock lock(&mutex_);
  return std::exchange(callback_error_, absl::OkStatus());
}

absl::Status ErrorLedger::TakeStatisticsError() {
  const MutexLock lock(&mutex_);
  return std::exchange(statistics_error_, absl::OkStatus());
}

// A call returns one status. If both kinds of error exist, the callback's is
// left to the next call: a step that is not saved matters more.
absl::Status ErrorLedger::TakeError() {
  const absl::Status error = TakeSaveError();
  return error.ok() ? TakeCallbackError() : error;
}

absl::Status ErrorLedger::PeekError() const {
  const MutexLock lock(&mutex_);
  absl::Status error;
  if (save_error_.save != nullptr && !save_error_.save->error_taken()) {
    error = save_error_.error;
  }
  error.Update(callback_error_);
  return error;
}

bool ErrorLedger::HasCallbackError() const {
  const MutexLock lock(&mutex_);
  return !callback_error_.ok();
}

}  // namespace ckptdb::internal
