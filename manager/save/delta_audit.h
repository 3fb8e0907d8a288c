// Finds rows that a save of changes leaves out although they have changed;
// internal to manager/.
#ifndef CKPTDB_MANAGER_SAVE_DELTA_AUDIT_H_
#define CKPTDB_MANAGER_SAVE_DELTA_AUDIT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/db/row_tracker.h"
#include "ckptdb/db/state.h"
#include "ckptdb/manager/model_state.h"

namespace ckptdb::internal {

// Compares the rows of a rank that `changes` do not have with those of
// `parent`, byte by byte; under a lossy codec a row must round to that of the
// parent. Returns FailedPrecondition naming the table, the
// lowest id that differs, the slot and the mark that was missed. `sharding` as
// ResolveShardings gave it. Takes 24 bytes a row.
absl::Status AuditTable(const StepReader& parent,
                        const ModelState::Table& table,
                        const TableSharding& sharding,
                        const ChangeTracker::Changes& changes, uint32_t rank,
                        uint32_t world_size, const ReadOptions& read);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_SAVE_DELTA_AUDIT_H_
