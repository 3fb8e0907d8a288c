// SPDX-License-Identifier: Apache-2.0
// This file replaces mpi_ranks.cc where MPI is not built.
#include "ranks/mpi_ranks.h"

namespace examples {

absl::Status StartMpi() {
  return absl::UnimplementedError(
      "this program was started by mpirun, but is built without MPI; configure "
      "with CKPTDB_MPI=ON where MPI is installed");
}

absl::StatusOr<std::unique_ptr<ckptdb::Coordinator>> MpiCoordinator(
    absl::Duration /*deadline*/) {
  return StartMpi();
}

void EndMpi() {}

}  // namespace examples
