// Says how a step differs from what is registered; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_LOAD_FIT_H_
#define CKPTDB_MANAGER_LOAD_LOAD_FIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ckptdb/manager/load/loaded_items.h"
#include "ckptdb/manager/load/step_items.h"

namespace ckptdb::internal {

// Returns FailedPrecondition for a step that lacks `missing` items, has
// `misfits` of another type, or both, so that a user mends all of them at once.
// The error has for each missing item the nearest of the `unexpected` ones, by
// which it may have been renamed, and ends with `remedy`. Returns OK if both
// lists are empty. A list names at most 20 items, and counts the others.
absl::Status CheckFit(int64_t step,
                      const std::vector<const LoadedItem*>& missing,
                      const std::vector<const LoadedItem*>& misfits,
                      const std::vector<StepItem>& unexpected,
                      absl::string_view remedy);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_LOAD_FIT_H_
