// SPDX-License-Identifier: Apache-2.0
// Finds changed rows that a delta omits; internal to manager/.
#ifndef CKPTDB_MANAGER_SAVE_DELTA_AUDIT_H_
#define CKPTDB_MANAGER_SAVE_DELTA_AUDIT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "db/reader.h"
#include "db/row_tracker.h"
#include "db/state.h"
#include "manager/model_state.h"
#include "manager/state/registered_state.h"

namespace ckptdb::internal {

// Compares the rank's rows that are not in `changes` with those of `parent`,
// byte by byte; a slot with a lossy codec must round to the parent's value.
// Returns FailedPrecondition naming the table, the lowest id that differs, the
// slot and the missing mark. `sharding` as returned by ResolveShardings. Takes
// 24 bytes per row.
absl::Status AuditTable(const StepReader& parent, const RegisteredTable& table,
                        const TableSharding& sharding,
                        const ChangeTracker::Changes& changes, uint32_t rank,
                        uint32_t world_size, const ReadOptions& read);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_SAVE_DELTA_AUDIT_H_
