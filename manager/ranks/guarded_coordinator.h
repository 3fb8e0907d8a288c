// A trainer's coordinator whose exceptions are errors; internal to manager/.
#ifndef CKPTDB_MANAGER_RANKS_GUARDED_COORDINATOR_H_
#define CKPTDB_MANAGER_RANKS_GUARDED_COORDINATOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ckptdb/manager/coordinator.h"

namespace ckptdb::internal {

// The same coordinator, of which a call that throws is Internal. Its rank and
// world size are asked for now and never again. InvalidArgument for null, and
// for a rank that is not below the world size.
absl::StatusOr<std::unique_ptr<Coordinator>> GuardCoordinator(
    std::unique_ptr<Coordinator> ranks);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_RANKS_GUARDED_COORDINATOR_H_
