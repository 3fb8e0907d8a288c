// SPDX-License-Identifier: Apache-2.0
// Explains why a step was or was not saved, and is or is not kept; internal to
// manager/.
#ifndef CKPTDB_MANAGER_CORE_EXPLAIN_STEP_H_
#define CKPTDB_MANAGER_CORE_EXPLAIN_STEP_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "db/store.h"
#include "manager/checkpoint_manager.h"
#include "manager/policy/history.h"
#include "manager/policy/retirement.h"

namespace ckptdb::internal {

// Returns NotFound if neither the store nor the history contains the step.
// Thread-safe.
absl::StatusOr<StepExplanation> ExplainStep(const Store& store,
                                            const History& history,
                                            const Retirement& retirement,
                                            int64_t step);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_EXPLAIN_STEP_H_
