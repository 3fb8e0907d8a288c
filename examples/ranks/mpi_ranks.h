// SPDX-License-Identifier: Apache-2.0
// Ranks that are processes under mpirun, where the examples are built with MPI
// (CKPTDB_MPI).
#ifndef CKPTDB_EXAMPLES_RANKS_MPI_RANKS_H_
#define CKPTDB_EXAMPLES_RANKS_MPI_RANKS_H_

#include <ckptdb/manager/coordinator.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace examples {

// Initializes MPI. Returns Unimplemented in a program that was built without
// it.
absl::Status StartMpi();

// Returns a new coordinator of all processes; all make the same calls.
absl::StatusOr<std::unique_ptr<ckptdb::Coordinator>> MpiCoordinator(
    absl::Duration deadline);

// Finalizes MPI, after all ranks have ended and all coordinators were
// destroyed.
void EndMpi();

}  // namespace examples

#endif  // CKPTDB_EXAMPLES_RANKS_MPI_RANKS_H_
