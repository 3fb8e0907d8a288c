// SPDX-License-Identifier: Apache-2.0
// Puts the records of versions into a store that has no owner yet; internal to
// db/transfer/.
#ifndef CKPTDB_DB_TRANSFER_VERSION_RECORDS_H_
#define CKPTDB_DB_TRANSFER_VERSION_RECORDS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/rocks/change_batch.h"
#include "db/rocks/database.h"
#include "schema/records/records.h"
#include "schema/records/remote.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Returns the step record. Returns DataLoss if the records contradict each
// other, or are not those of `version`.
absl::StatusOr<StepRecord> CheckedRecord(const Version& version,
                                         const RemoteVersion& records);

// Adds what CheckedRecord has checked, and the entries of inline. Unless
// `is_step`, other steps only need its data.
absl::Status PutVersion(const Database& database, const StepRecord& record,
                        const RemoteVersion& records, bool is_step,
                        ChangeBatch* batch);

// Deletes all that PutVersion puts.
absl::Status DeleteVersion(const Database& database, const Version& version,
                           bool is_step, ChangeBatch* batch);

absl::Status PutRoot(const Database& database, const RootRecord& root,
                     ChangeBatch* batch);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_TRANSFER_VERSION_RECORDS_H_
