// SPDX-License-Identifier: Apache-2.0
// The tensors that are equal on all ranks; internal to manager/.
#ifndef CKPTDB_MANAGER_STATE_REPLICATED_TENSORS_H_
#define CKPTDB_MANAGER_STATE_REPLICATED_TENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "manager/manager_options.h"
#include "manager/model_state.h"

namespace ckptdb::internal {

// Returns the rank that saves each tensor, in the model's order; meaningless
// for a sharded tensor, of which each rank saves its shard. It depends only on
// the names and sizes of the replicated tensors, so that all ranks compute the
// same result, and an unchanged tensor is saved by the same rank as before and
// refers to bytes that are already stored.
absl::StatusOr<std::vector<uint32_t>> AssignSavers(
    const ModelState& model, ManagerOptions::ReplicatedSaver saver,
    uint32_t world_size);

// Describes the replicated tensors, which must match on all ranks, a line for
// each.
std::string DescribeReplicas(const ModelState& model,
                             const ManagerOptions::Ranks& replication);

// Returns InvalidArgument naming the first difference if the descriptions of
// rank 0 and another rank differ: no rank would save that tensor.
absl::Status CompareReplicas(absl::string_view owners, size_t rank,
                             absl::string_view other);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_REPLICATED_TENSORS_H_
