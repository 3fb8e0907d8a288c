// The steps of a store that changed between two looks at it.
//
//   StepChanges changes = store->ChangedSteps(0);  // all, at first
//   ...
//   changes = store->ChangedSteps(changes.until);
//   for (const int64_t step : changes.steps) {
//     const bool there = store->VisitStep(step, update);
//     if (!there) forget(step);
//   }
#ifndef CKPTDB_DB_STEP_CHANGES_H_
#define CKPTDB_DB_STEP_CHANGES_H_

#include <cstdint>
#include <vector>

namespace ckptdb {

struct StepChanges {
  // Saved, removed, or with another record; the oldest change first, a step as
  // often as it changed.
  std::vector<int64_t> steps;
  // Any step may have changed, and `steps` is empty: the first look, or the
  // last one is hundreds of changes ago.
  bool all = false;
  // Where the next look goes on. Of this handle of the store only.
  uint64_t until = 0;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_STEP_CHANGES_H_
