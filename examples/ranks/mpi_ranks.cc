// SPDX-License-Identifier: Apache-2.0
#include "ranks/mpi_ranks.h"

#include <ckptdb/mpi/mpi_coordinator.h>

#include "absl/strings/str_cat.h"

namespace examples {

absl::Status StartMpi() {
  int provided = MPI_THREAD_SINGLE;
  const int code =
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  if (code != MPI_SUCCESS) {
    return absl::UnavailableError(
        absl::StrCat("MPI_Init_thread failed with code ", code));
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ckptdb::Coordinator>> MpiCoordinator(
    absl::Duration deadline) {
  return ckptdb::MpiCoordinator(MPI_COMM_WORLD, deadline);
}

void EndMpi() { MPI_Finalize(); }

}  // namespace examples
