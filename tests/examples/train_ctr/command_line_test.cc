// SPDX-License-Identifier: Apache-2.0
// What train_ctr says of a wrong command line, before it does anything.
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program.h"
#include "tests/support/temp_dir.h"

namespace train_ctr {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CommandLineTest : public ::testing::Test {
 protected:
  std::string store() const { return dir_.path() + "/store"; }

  void ExpectRefused(std::vector<std::string> arguments,
                     const std::string& says) {
    arguments.insert(arguments.begin(), {"--store", store()});
    const ProgramResult result = RunProgram(dir_.path(), std::move(arguments));
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.errors, StartsWith("train_ctr: "));
    EXPECT_THAT(result.errors, HasSubstr(says));
    EXPECT_FALSE(std::filesystem::exists(store()));
  }

  ckptdb::testing::TempDir dir_;
};

TEST_F(CommandLineTest, RejectsWrongFlags) {
  ExpectRefused({"--bogus"}, "--bogus");
  ExpectRefused({"--steps", "abc"}, "--steps = abc");
  ExpectRefused({"--steps", "0", "--save-every", "1"}, "--steps 0");
  ExpectRefused({"--steps", "9", "--save-every", "3", "--base-every", "2"},
                "--delta");
  ExpectRefused({"--steps", "9", "--save-every", "3", "--abandoned", "keep"},
                "--resume-step");
  ExpectRefused({"--follow", "--batch", "3"}, "--batch");
}

TEST_F(CommandLineTest, RejectsInvalidDevices) {
  const std::vector<std::string> train = {"--steps", "9", "--save-every", "3"};
  const auto with = [&train](std::vector<std::string> more) {
    more.insert(more.end(), train.begin(), train.end());
    return more;
  };
  for (const std::string device : {"gpu", "cuda:", "cuda:x", "cuda:-1", ""}) {
    ExpectRefused(
        with({"--device", device}),
        "unknown device \"" + device + "\"; expected host, cuda, or cuda:N");
  }
  ExpectRefused(with({"--device-rows", "9"}), "--device");
  ExpectRefused(with({"--device", "host", "--device-rows", "0"}),
                "device-rows 0 is not in 1 to 2147483647");
  ExpectRefused(with({"--device", "host", "--device-rows", "2147483648"}),
                "device-rows 2147483648 is not in 1 to 2147483647");
}

// No machine has it: one has no driver, one fewer GPUs, and a build may have no
// CUDA. Each says which device was asked for and what is missing.
TEST_F(CommandLineTest, ReportsAMissingDevice) {
  ExpectRefused({"--steps", "9", "--save-every", "3", "--device", "cuda:1000"},
                "--device cuda:1000: this ");
  const ProgramResult result =
      RunProgram(dir_.path(), {"--store", store(), "--steps", "9",
                               "--save-every", "3", "--device", "cuda:1000"});
  EXPECT_THAT(result.errors,
              AnyOf(HasSubstr("machine has no CUDA device ("),
                    HasSubstr("CUDA devices, numbered from 0 to"),
                    HasSubstr("train_ctr was built without CUDA; configure")));
}

TEST_F(CommandLineTest, RejectsAnUnwritableReport) {
  const std::string report = dir_.path() + "/missing/report.json";
  const ProgramResult result =
      Program(report, {"--store", store(), "--steps", "9", "--save-every", "3"})
          .Finish();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr(report));
  EXPECT_FALSE(std::filesystem::exists(store()));
}

}  // namespace
}  // namespace train_ctr
