// SPDX-License-Identifier: Apache-2.0
// The calls of Store that change the records of steps, and the store's
// metadata; internal to db/.
#ifndef CKPTDB_DB_STORE_STEP_EDITS_H_
#define CKPTDB_DB_STORE_STEP_EDITS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "db/store/committer.h"
#include "db/store/store_components.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Each acquires Committer::changes(), and is durable on return.
absl::Status DeleteStep(const StoreComponents& store, int64_t step);
absl::Status SetStepFlag(const StoreComponents& store, int64_t step,
                         bool StepRecord::*flag, bool value,
                         Spare spare = Spare::kKeep);
// Returns Aborted if the step was overwritten in the meantime.
absl::Status EndQuarantine(const StoreComponents& store,
                           const Version& version);
absl::Status AddStepMetrics(const StoreComponents& store, int64_t step,
                            const Metrics& metrics);
absl::Status SetStoreMetadata(const StoreComponents& store,
                              const UserMetadata& metadata);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_STEP_EDITS_H_
