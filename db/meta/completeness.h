// SPDX-License-Identifier: Apache-2.0
// Checks that a staged rank has all entries that its record lists; internal to
// db/.
#ifndef CKPTDB_DB_META_COMPLETENESS_H_
#define CKPTDB_DB_META_COMPLETENESS_H_

#include "absl/status/status.h"
#include "schema/records/staged.h"
#include "schema/types.h"

namespace ckptdb::internal {

// `record` is the decoded record of `staged`. Compares inline entries with
// their item's digest, and counts entries in files. Returns DataLoss naming an
// item that lacks entries, or the number of entries that belong to no item.
absl::Status CheckComplete(const internal::StagedRecord& staged,
                           const StepRecord::Rank& record);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_COMPLETENESS_H_
