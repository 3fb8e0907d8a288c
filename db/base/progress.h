// SPDX-License-Identifier: Apache-2.0
// Reports the progress of a call to a function of the caller; internal to db/
// and manager/.
#ifndef CKPTDB_DB_BASE_PROGRESS_H_
#define CKPTDB_DB_BASE_PROGRESS_H_

#include <cstdint>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "db/base/mutex.h"

namespace ckptdb::internal {

// Sums up the bytes that threads have processed. Thread-safe.
class Progress {
 public:
  using Function = std::function<void(uint64_t done_bytes, uint64_t all_bytes)>;

  // `report`, which may be empty, outlives this object. `name` is that of the
  // option.
  Progress(const char* name, const Function& report)
      : name_(name), report_(report) {}

  // Called before the first Advance.
  void AddTotal(uint64_t bytes) { all_bytes_ += bytes; }
  // Reports the sum, at most the total, which may be an estimate. Returns
  // Internal if `report` throws.
  absl::Status Advance(uint64_t bytes);

 private:
  const char* const name_;
  const Function& report_;
  uint64_t all_bytes_ = 0;
  Mutex mutex_;
  uint64_t done_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_PROGRESS_H_
