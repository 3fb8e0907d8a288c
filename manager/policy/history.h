// SPDX-License-Identifier: Apache-2.0
// Records why steps were saved, skipped, kept and removed; internal to
// manager/.
#ifndef CKPTDB_MANAGER_POLICY_HISTORY_H_
#define CKPTDB_MANAGER_POLICY_HISTORY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "db/base/mutex.h"
#include "manager/results.h"

namespace ckptdb::internal {

// Keeps at most kMaxSteps steps, the highest. Thread-safe.
class History {
 public:
  static constexpr size_t kMaxSteps = 10'000;

  void NoteSaved(int64_t step, std::string why);
  void NoteKept(int64_t step, std::string why);
  std::optional<StepExplanation> Find(int64_t step) const;

 private:
  StepExplanation& At(int64_t step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<int64_t, StepExplanation> explanations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_POLICY_HISTORY_H_
