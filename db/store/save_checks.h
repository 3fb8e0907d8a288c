// The checks of what a caller asks a save for; internal to db/. Each returns
// InvalidArgument with what is wrong and what is allowed.
#ifndef CKPTDB_DB_STORE_SAVE_CHECKS_H_
#define CKPTDB_DB_STORE_SAVE_CHECKS_H_

#include "absl/status/status.h"
#include "ckptdb/db/options.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

// Returns the error of a call that would remove or replace a pinned step.
absl::Status PinnedError(const StepRecord& record);

absl::Status CheckMetrics(const Metrics& metrics);

// Checks what can be checked without looking at the store.
absl::Status CheckSaveSpec(const SaveSpec& spec);
absl::Status CheckPublishSpec(const PublishSpec& spec);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_SAVE_CHECKS_H_
