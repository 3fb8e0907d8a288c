// SPDX-License-Identifier: Apache-2.0
// A coordinator over MPI, for a training job whose ranks are processes on one
// or more hosts.
//
//   int provided = 0;
//   MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
//   CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<Coordinator> ranks,
//                           MpiCoordinator(MPI_COMM_WORLD, absl::Minutes(5)));
//   CKPTDB_ASSIGN_OR_RETURN(
//       auto manager, CheckpointManager::Open(options, &model,
//                                             std::move(ranks)));
//
// It is in a separate library, ckptdb::mpi (find_package(ckptdb COMPONENTS
// mpi)); ckptdb::ckptdb does not link MPI. The library exists if MPI was found
// when ckptdb was configured (CKPTDB_MPI).
//
// A rank that is missing or has died causes DeadlineExceeded, which names it,
// and never a hang: all MPI calls are nonblocking and polled until the
// deadline. Whether the job survives the death of a process depends on MPI: by
// default mpirun ends the job.
#ifndef CKPTDB_MPI_MPI_COORDINATOR_H_
#define CKPTDB_MPI_MPI_COORDINATOR_H_

// ckptdb needs only the C interface.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX  // NOLINT(readability-identifier-naming): MPI's name
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX  // NOLINT(readability-identifier-naming): MPI's name
#endif
#include <mpi.h>

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "manager/coordinator.h"

namespace ckptdb {

// Returns a coordinator for the ranks of `comm`. All ranks must call it, with
// no other collective call on `comm` in progress. It duplicates the
// communicator, so its messages are separate from the trainer's.
//
// Destroy it before MPI_Finalize. If ranks have died, MPI_Finalize may never
// return; survivors should then exit with _exit().
//
// Returns FailedPrecondition if MPI is not initialized, is already finalized,
// or provides less than MPI_THREAD_MULTIPLE, which is needed because the
// manager calls MPI from its own thread while the training calls it from
// another. Returns DeadlineExceeded after `deadline`, naming the ranks that
// have not called it, and InvalidArgument for an intercommunicator or
// MPI_COMM_NULL.
absl::StatusOr<std::unique_ptr<Coordinator>> MpiCoordinator(
    MPI_Comm comm, absl::Duration deadline);

}  // namespace ckptdb

#endif  // CKPTDB_MPI_MPI_COORDINATOR_H_
