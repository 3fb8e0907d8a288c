// SPDX-License-Identifier: Apache-2.0
// The steps of a store that changed between two calls, for a manager that
// remembers what it read of each step.
//
//   ChangedSteps changes = StepsChangedSince(*store, 0);  // all, at first
//   ...
//   changes = StepsChangedSince(*store, changes.until);
//   for (const int64_t step : changes.steps) {
//     const bool there = store->VisitStep(step, update);
//     if (!there) forget(step);
//   }
#ifndef CKPTDB_DB_BASE_CHANGED_STEPS_H_
#define CKPTDB_DB_BASE_CHANGED_STEPS_H_

#include <cstdint>
#include <vector>

#include "db/store.h"

namespace ckptdb::internal {

struct ChangedSteps {
  // Steps that were saved or removed, or whose record changed: one entry per
  // change, oldest first.
  std::vector<int64_t> steps;
  // True if any step may have changed, and `steps` is empty: in the first call,
  // or after hundreds of changes.
  bool all = false;
  // The argument of the next call, valid for this Store object.
  uint64_t until = 0;
};

// Returns the steps that changed since the call that returned `since` as
// `until`. Pass 0 in the first call.
ChangedSteps StepsChangedSince(const Store& store, uint64_t since);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_CHANGED_STEPS_H_
