// SPDX-License-Identifier: Apache-2.0
// Starts ranks as processes under mpirun on this host.
#ifndef CKPTDB_TESTS_MPI_MPIRUN_H_
#define CKPTDB_TESTS_MPI_MPIRUN_H_

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {

// Tests skip if mpirun cannot start processes, or fail if CKPTDB_REQUIRE_MPI is
// set in the environment.
class MpirunTest : public ::testing::Test {
 protected:
  // Keeps mpirun from ending the job when a rank dies.
  static constexpr char kGoOn[] = "--mca orte_enable_recovery 1";

  void SetUp() override {
    if (Mpirun(2, "", "true") == 0) return;
    if (std::getenv("CKPTDB_REQUIRE_MPI") != nullptr) {
      FAIL() << "mpirun does not start processes: " << log();
    }
    GTEST_SKIP() << "mpirun does not start processes here: " << log();
  }

  // Returns a shell command that runs `program`. Ranks communicate through
  // shared memory and yield while they wait.
  static std::string MpirunCommand(int ranks, const std::string& flags,
                                   const std::string& program) {
    return absl::StrCat("timeout -k 5 120 " CKPTDB_MPIRUN
                        " --oversubscribe "
                        "--allow-run-as-root --mca btl vader,self "
                        "--mca btl_vader_single_copy_mechanism none "
                        "--mca mpi_yield_when_idle 1 ",
                        flags, " -np ", ranks, " ", program);
  }

  // Returns the exit code, at least 128 for a signal. The output is in log().
  int Mpirun(int ranks, const std::string& flags, const std::string& program) {
    return Shell(MpirunCommand(ranks, flags, program));
  }

  int Shell(const std::string& command) {
    const int status = std::system(
        absl::StrCat("(", command, ") > ", dir_.path(), "/log 2>&1 < /dev/null")
            .c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  static std::string Read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file),
            std::istreambuf_iterator<char>()};
  }

  std::string log() const { return Read(dir_.path() + "/log"); }

  TempDir dir_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_MPI_MPIRUN_H_
