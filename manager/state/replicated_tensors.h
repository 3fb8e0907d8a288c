// The tensors that all ranks have alike; internal to manager/.
#ifndef CKPTDB_MANAGER_STATE_REPLICATED_TENSORS_H_
#define CKPTDB_MANAGER_STATE_REPLICATED_TENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/manager/model_state.h"

namespace ckptdb::internal {

// Returns the rank that saves each tensor of the model, in its order; of a
// sharded tensor, which each rank saves its shard of, the number says nothing.
// It depends on the names and sizes of the replicated tensors alone, so that
// all ranks come to the same result, and a tensor that does not change is saved
// by the same rank as before and refers to the bytes that are stored already.
absl::StatusOr<std::vector<uint32_t>> AssignSavers(
    const ModelState& model, ModelState::Replication::Saver saver,
    uint32_t world_size);

// Describes what ranks must have alike, a line for each replicated tensor.
std::string DescribeReplicas(const ModelState& model,
                             const ModelState::Replication& replication);

// Returns InvalidArgument naming the first difference if the descriptions of
// rank 0 and of another rank differ: a tensor would be saved by no rank.
absl::Status CompareReplicas(absl::string_view owners, size_t rank,
                             absl::string_view other);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_REPLICATED_TENSORS_H_
