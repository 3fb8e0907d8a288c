// SPDX-License-Identifier: Apache-2.0
// A file system that is really full neither ends the process nor loses
// anything, and can be freed by removing steps.
#include <gmock/gmock.h>

#include "absl/strings/match.h"
#include "tests/db/child.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

class FullVolumeTest : public ::testing::TestWithParam<std::string> {};

TEST_P(FullVolumeTest, NothingAbortsAndNoStepIsLost) {
  const TempDir dir;
  const std::string folder = dir.path() + "/volume";
  std::filesystem::create_directory(folder);
  Child child({"fill", GetParam(), folder});
  std::string answer;
  for (std::string line = child.ReadLine(); !line.empty();
       line = child.ReadLine()) {
    std::cout << line << std::endl;
    answer = line;
  }
  const int code = child.Wait();
  if (absl::StrContains(answer, "UNIMPLEMENTED")) GTEST_SKIP() << answer;
  EXPECT_EQ(code, 0) << answer;
  EXPECT_THAT(answer, ::testing::StartsWith("ok "));
}

INSTANTIATE_TEST_SUITE_P(FileSystems, FullVolumeTest,
                         ::testing::Values("tmpfs", "ext4"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace ckptdb::testing
