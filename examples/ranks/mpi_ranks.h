// Ranks that are processes under mpirun, where the examples are built with MPI
// (CKPTDB_MPI).
#ifndef CKPTDB_EXAMPLES_RANKS_MPI_RANKS_H_
#define CKPTDB_EXAMPLES_RANKS_MPI_RANKS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ranks/ranks.h"

namespace examples {

// Returns whether this process is one of those that mpirun, or what stands for
// it, has started.
bool StartedByMpirun();

// Initializes MPI and returns this process as one of its ranks. Returns
// Unimplemented in a program that was built without MPI.
absl::StatusOr<std::unique_ptr<Ranks>> StartMpi(absl::Duration deadline);

// Finalizes MPI, when all ranks have come to their end and the object that
// StartMpi returned is gone.
void EndMpi();

}  // namespace examples

#endif  // CKPTDB_EXAMPLES_RANKS_MPI_RANKS_H_
