// SPDX-License-Identifier: Apache-2.0
// Errors that no call has returned yet; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_ERROR_LEDGER_H_
#define CKPTDB_MANAGER_CORE_ERROR_LEDGER_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "db/base/mutex.h"
#include "manager/save/pending_save_state.h"

namespace ckptdb::internal {

// Keeps errors that occurred outside any call: of saves in the background, and
// of callbacks. The first error of each kind is kept until it is taken.
// Thread-safe: the save thread adds errors, the training thread takes them, any
// thread may peek.
class ErrorLedger {
 public:
  // Adds the error of a save that is not tolerated.
  void NoteSave(std::shared_ptr<PendingSave::State> save, absl::Status error);
  // Adds the exception that a callback threw; OK is ignored.
  void NoteCallback(const absl::Status& status);
  // Adds the error of writing a line to the statistics log; OK is ignored.
  void NoteStatistics(const absl::Status& status);

  // These forget what they return. A save's error that
  // PendingSave::WaitCommitted has returned to the training thread is OK here.
  absl::Status TakeSaveError();
  absl::Status TakeCallbackError();
  absl::Status TakeStatisticsError();
  // Takes a save's error, or else a callback's.
  absl::Status TakeError();

  // Returns what TakeError would return.
  absl::Status PeekError() const;
  bool HasCallbackError() const;

 private:
  struct SaveError {
    std::shared_ptr<PendingSave::State> save;
    absl::Status error;
  };

  mutable Mutex mutex_;
  SaveError save_error_ ABSL_GUARDED_BY(mutex_);
  absl::Status callback_error_ ABSL_GUARDED_BY(mutex_);
  absl::Status statistics_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_ERROR_LEDGER_H_
