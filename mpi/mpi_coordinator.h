// A coordinator over MPI: the ranks of a training job are processes, on one
// host or on many.
//
//   int provided = 0;
//   MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
//   CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<Coordinator> ranks,
//                           MpiCoordinator(MPI_COMM_WORLD, absl::Minutes(5)));
//   CKPTDB_ASSIGN_OR_RETURN(
//       auto manager, CheckpointManager::Open(options, &model,
//                                             std::move(ranks)));
//
// It is in a library of its own, ckptdb::mpi, of find_package(ckptdb COMPONENTS
// mpi): ckptdb::ckptdb links no MPI. It is there when ckptdb was configured
// where MPI was found (CKPTDB_MPI).
//
// A rank that does not come, or has died, is DeadlineExceeded naming it, and
// never a hang: every call of MPI is a nonblocking one, which is looked at
// until the deadline has passed. Whether the job goes on when a process dies is
// up to MPI: by default mpirun ends it.
#ifndef CKPTDB_MPI_MPI_COORDINATOR_H_
#define CKPTDB_MPI_MPI_COORDINATOR_H_

// ckptdb needs the C interface alone.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX  // NOLINT(readability-identifier-naming): of MPI
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX  // NOLINT(readability-identifier-naming): of MPI
#endif
#include <mpi.h>

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ckptdb/manager/coordinator.h"

namespace ckptdb {

// Returns a coordinator of the ranks of `comm`, which all call it; no other
// collective call on `comm` is under way meanwhile. It has a communicator of
// its own, so its messages never meet those of the trainer.
//
// Destroy it before MPI_Finalize. Where ranks have died, MPI_Finalize may never
// return; a survivor ends by _exit().
//
// Returns FailedPrecondition when MPI is not initialized, is finalized already,
// or was initialized with less than MPI_THREAD_MULTIPLE: the manager calls MPI
// from its own thread while the training does from another. Returns
// DeadlineExceeded, naming the ranks that have not called it, after `deadline`,
// and InvalidArgument for an intercommunicator and for MPI_COMM_NULL.
absl::StatusOr<std::unique_ptr<Coordinator>> MpiCoordinator(
    MPI_Comm comm, absl::Duration deadline);

}  // namespace ckptdb

#endif  // CKPTDB_MPI_MPI_COORDINATOR_H_
