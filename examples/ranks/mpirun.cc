// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "ranks/mpi_ranks.h"

namespace examples {

bool StartedByMpirun() {
  // Open MPI, MPICH and its kin, and others that use PMIx set these.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

}  // namespace examples
