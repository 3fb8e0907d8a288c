// SPDX-License-Identifier: Apache-2.0
// The folder of a death test that runs again in a child (EXPECT_EXIT in the
// "threadsafe" style): the child exits without destroying its TempDir.
#ifndef CKPTDB_TESTS_SUPPORT_EXIT_FOLDER_H_
#define CKPTDB_TESTS_SUPPORT_EXIT_FOLDER_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "tests/support/temp_dir.h"

namespace ckptdb::testing {

// Returns the folder of the test's own process. In the child, returns the
// parent's folder, and removes the child's.
inline std::string ExitFolder(const TempDir& own) {
  constexpr char kVariable[] = "CKPTDB_EXIT_TEST_FOLDER";
  if (!::testing::internal::InDeathTestChild()) {
    setenv(kVariable, own.path().c_str(), /*overwrite=*/1);
    return own.path();
  }
  std::error_code ignored;
  std::filesystem::remove(own.path(), ignored);
  const char* const folder = std::getenv(kVariable);
  return folder != nullptr ? folder : own.path();
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_EXIT_FOLDER_H_
