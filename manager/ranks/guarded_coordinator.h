// SPDX-License-Identifier: Apache-2.0
// Returns exceptions of the caller's coordinator as errors; internal to
// manager/.
#ifndef CKPTDB_MANAGER_RANKS_GUARDED_COORDINATOR_H_
#define CKPTDB_MANAGER_RANKS_GUARDED_COORDINATOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "manager/coordinator.h"

namespace ckptdb::internal {

// Returns a coordinator that forwards calls to `ranks`, and returns Internal if
// they throw. Reads the rank and the world size now, and never again. Returns
// InvalidArgument for null, and for a rank that is not below the world size.
absl::StatusOr<std::unique_ptr<Coordinator>> GuardCoordinator(
    std::unique_ptr<Coordinator> ranks);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_RANKS_GUARDED_COORDINATOR_H_
