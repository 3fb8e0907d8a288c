#include <cstdlib>

#include "ranks/mpi_ranks.h"

namespace examples {

bool StartedByMpirun() {
  // Of Open MPI, of MPICH and its kin, and of others that use PMIx.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

}  // namespace examples
