// SPDX-License-Identifier: Apache-2.0
// Runs a program that a test kills.
#ifndef CKPTDB_TESTS_REMOTE_RUN_CHILD_H_
#define CKPTDB_TESTS_REMOTE_RUN_CHILD_H_

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace ckptdb::testing {

// Runs a program, whose path is the first argument, and returns its status as
// waitpid does.
inline int RunChild(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  EXPECT_EQ(
      posix_spawn(&child, argv[0], nullptr, nullptr, argv.data(), environ), 0);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_REMOTE_RUN_CHILD_H_
