// SPDX-License-Identifier: Apache-2.0
// Reports how a step differs from the registered model; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_LOAD_FIT_H_
#define CKPTDB_MANAGER_LOAD_LOAD_FIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "manager/load/loaded_items.h"
#include "manager/load/step_items.h"

namespace ckptdb::internal {

// Returns FailedPrecondition if the step lacks `missing` items, contains
// `misfits` of another type, or both, so that a user can fix them all at once.
// For each missing item, the error names the nearest of the `unexpected` ones,
// under whose name it may have been saved. It ends with `remedy`, which may be
// empty. Returns OK if both lists are empty. A list names at most 20 items, and
// counts the rest.
absl::Status CheckFit(int64_t step,
                      const std::vector<const LoadedItem*>& missing,
                      const std::vector<const LoadedItem*>& misfits,
                      const std::vector<StepItem>& unexpected,
                      absl::string_view remedy);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_LOAD_FIT_H_
