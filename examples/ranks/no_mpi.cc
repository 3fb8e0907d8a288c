// SPDX-License-Identifier: Apache-2.0
// This file replaces mpi_ranks.cc where MPI is not built.
#include "ranks/mpi_ranks.h"

namespace examples {

absl::StatusOr<std::unique_ptr<Ranks>> StartMpi(absl::Duration /*deadline*/) {
  return absl::UnimplementedError(
      "this program was started by mpirun, but is built without MPI; configure "
      "with CKPTDB_MPI=ON where MPI is installed");
}

void EndMpi() {}

}  // namespace examples
