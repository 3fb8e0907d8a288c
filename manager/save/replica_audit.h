// SPDX-License-Identifier: Apache-2.0
// Finds replicated tensors and tables that differ between ranks; internal to
// manager/.
#ifndef CKPTDB_MANAGER_SAVE_REPLICA_AUDIT_H_
#define CKPTDB_MANAGER_SAVE_REPLICA_AUDIT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "db/state.h"
#include "manager/coordinator.h"
#include "manager/model_state.h"

namespace ckptdb::internal {

// Compares all ranks' replicated tensors, and the rows of their replicated
// tables, by digests, which the owner gathers. All ranks call it and get the
// same status: FailedPrecondition naming what differs and the ranks that differ
// from rank 0, or the error of a rank that cannot read its replicas.
// `shardings` as returned by ResolveShardings. The model must not change
// meanwhile.
absl::Status AuditReplicas(const ModelState& model,
                           absl::Span<const TableSharding> shardings,
                           Coordinator* ranks, uint32_t attempt,
                           absl::Duration deadline);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_SAVE_REPLICA_AUDIT_H_
