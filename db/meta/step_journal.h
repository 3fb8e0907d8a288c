// SPDX-License-Identifier: Apache-2.0
// A journal of the most recently changed steps of a store; internal to db/.
#ifndef CKPTDB_DB_META_STEP_JOURNAL_H_
#define CKPTDB_DB_META_STEP_JOURNAL_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "db/base/changed_steps.h"

namespace ckptdb::internal {

// Remembers the last kSteps changes. Not thread-safe.
class StepJournal {
 public:
  static constexpr size_t kSteps = 256;

  void Add(int64_t step) {
    if (steps_.size() == kSteps) steps_.pop_front();
    steps_.push_back(step);
    ++until_;
  }

  ChangedSteps Since(uint64_t since) const {
    ChangedSteps changes;
    changes.until = until_;
    if (since == 0 || since > until_ || until_ - since > steps_.size()) {
      changes.all = true;
      return changes;
    }
    changes.steps.assign(steps_.end() - static_cast<ptrdiff_t>(until_ - since),
                         steps_.end());
    return changes;
  }

 private:
  std::deque<int64_t> steps_;
  uint64_t until_ = 1;  // 0 means "never looked"
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_STEP_JOURNAL_H_
