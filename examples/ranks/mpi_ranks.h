// SPDX-License-Identifier: Apache-2.0
// Ranks that are processes under mpirun, where the examples are built with MPI
// (CKPTDB_MPI).
#ifndef CKPTDB_EXAMPLES_RANKS_MPI_RANKS_H_
#define CKPTDB_EXAMPLES_RANKS_MPI_RANKS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ranks/ranks.h"

namespace examples {

// Returns whether mpirun, or an equivalent launcher, has started this process.
bool StartedByMpirun();

// Initializes MPI and returns this process as one of its ranks. Returns
// Unimplemented in a program that was built without MPI.
absl::StatusOr<std::unique_ptr<Ranks>> StartMpi(absl::Duration deadline);

// Finalizes MPI, after all ranks have ended and the object that StartMpi
// returned was destroyed.
void EndMpi();

}  // namespace examples

#endif  // CKPTDB_EXAMPLES_RANKS_MPI_RANKS_H_
