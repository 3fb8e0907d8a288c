// SPDX-License-Identifier: Apache-2.0
// Checks the arguments of a save; internal to db/. Each check returns
// InvalidArgument with the value and the limit.
#ifndef CKPTDB_DB_STORE_SAVE_CHECKS_H_
#define CKPTDB_DB_STORE_SAVE_CHECKS_H_

#include "absl/status/status.h"
#include "db/options.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Returns the error of a call that would remove or replace a pinned step.
absl::Status PinnedError(const StepRecord& record);

absl::Status CheckMetrics(const Metrics& metrics);

// Checks the arguments that do not depend on the store.
absl::Status CheckSaveSpec(const SaveSpec& spec);
absl::Status CheckPublication(const SaveSpec& spec);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_SAVE_CHECKS_H_
