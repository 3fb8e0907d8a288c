// SPDX-License-Identifier: Apache-2.0
// Removes damaged steps.
#ifndef CKPTDB_TOOLS_DAMAGED_STEPS_H_
#define CKPTDB_TOOLS_DAMAGED_STEPS_H_

#include <vector>

#include "absl/status/status.h"
#include "db/store.h"
#include "schema/types.h"

namespace ckptdb::tool {

// A step, and the result of verifying it.
struct ExaminedStep {
  StepRecord record;
  absl::Status status;
};

// Removes the steps whose status is DataLoss, except pinned ones and those that
// were removed or saved again since they were examined. Appends the removed
// versions, and returns the first error.
absl::Status RemoveDamaged(const std::vector<ExaminedStep>& steps, Store* store,
                           std::vector<Version>* removed);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_DAMAGED_STEPS_H_
