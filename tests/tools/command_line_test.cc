// SPDX-License-Identifier: Apache-2.0
// The command line: arguments, exit codes, help and signals.
#include <csignal>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/interrupt.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/step_argument.h"

namespace ckptdb::tool {
namespace {

using ::ckptdb::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Result {
  ExitCode code = ExitCode::kOk;
  std::string out;
  std::string err;
};

Result RunLine(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "ckptdb");
  std::ostringstream out;
  std::ostringstream err;
  Result result;
  result.code = RunCommandLine(static_cast<int>(arguments.size()),
                               arguments.data(), {&out, &err, nullptr});
  result.out = out.str();
  result.err = err.str();
  return result;
}

TEST(ExitCodeOf, MapsEveryStatus) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), ExitCode::kOk);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("")), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("")), ExitCode::kNotFound);
  EXPECT_EQ(ExitCodeOf(absl::DataLossError("")), ExitCode::kDamaged);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("")), ExitCode::kBusy);
  EXPECT_EQ(ExitCodeOf(absl::FailedPreconditionError("")), ExitCode::kFailed);
  EXPECT_EQ(ExitCodeOf(absl::ResourceExhaustedError("")), ExitCode::kFailed);
  EXPECT_EQ(ExitCodeOf(absl::PermissionDeniedError("")), ExitCode::kFailed);
  EXPECT_EQ(ExitCodeOf(absl::InternalError("")), ExitCode::kFailed);
}

TEST(ExitCodes, MatchTheHelpText) {
  EXPECT_EQ(static_cast<int>(ExitCode::kOk), 0);
  EXPECT_EQ(static_cast<int>(ExitCode::kUsage), 1);
  EXPECT_EQ(static_cast<int>(ExitCode::kNotFound), 2);
  EXPECT_EQ(static_cast<int>(ExitCode::kDamaged), 3);
  EXPECT_EQ(static_cast<int>(ExitCode::kBusy), 4);
  EXPECT_EQ(static_cast<int>(ExitCode::kFailed), 5);
}

// A script's unset variable must not select all rows.
TEST(Usage, RefusesEmptyValues) {
  const std::vector<std::vector<const char*>> lines = {
      {"rows", "1", "user", "--ids", ""},
      {"rows", "1", "user", "--where", ""},
      {"rows", "1", "user", "--slots", ""},
      {"export", "1", "--npz", ""},
      {"export", "1", "", "--npz", "out"},
      {"import", "", "--step", "1"},
      {"copy", "a", ""},
      {"remote", "push", ""}};
  for (const auto& line : lines) {
    const Result result = RunLine(line);
    EXPECT_EQ(result.code, ExitCode::kUsage) << line[0];
    EXPECT_THAT(result.err, HasSubstr("empty")) << line[0];
  }
}

TEST(ReadingStatus, NeverReportsBusy) {
  EXPECT_THAT(ReadingStatus(absl::UnavailableError("read failed")),
              StatusIs(absl::StatusCode::kInternal, "read failed"));
  EXPECT_THAT(ReadingStatus(absl::DataLossError("bad")),
              StatusIs(absl::StatusCode::kDataLoss, "bad"));
}

TEST(WithPlace, NamesThePlaceOnce) {
  EXPECT_THAT(WithPlace(absl::NotFoundError("no store"), "/a"),
              StatusIs(absl::StatusCode::kNotFound, "/a: no store"));
  EXPECT_THAT(WithPlace(absl::NotFoundError("no store at /a"), "/a"),
              StatusIs(absl::StatusCode::kNotFound, "no store at /a"));
}

TEST(StepText, AcceptsANumberOrLatest) {
  EXPECT_OK(CheckStepText("0"));
  EXPECT_OK(CheckStepText("9223372036854775807"));
  EXPECT_OK(CheckStepText("latest"));
  EXPECT_EQ(StepNumber("9223372036854775807"), 9223372036854775807);
}

TEST(StepText, RejectsInvalidText) {
  for (const char* text :
       {"", "-1", "+1", " 1", "1x", "0x1", "newest", "9223372036854775808"}) {
    EXPECT_THAT(CheckStepText(text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("\"" + std::string(text) + "\"")));
  }
}

TEST(NumberJson, SpellsOutNumbersThatJsonLacks) {
  EXPECT_EQ(NumberJson(0.5).dump(), "0.5");
  EXPECT_EQ(NumberJson(std::stod("nan")).dump(), "\"nan\"");
  EXPECT_EQ(NumberJson(std::stod("inf")).dump(), "\"inf\"");
  EXPECT_EQ(NumberJson(std::stod("-inf")).dump(), "\"-inf\"");
}

TEST(PrintJson, ReplacesInvalidUtf8) {
  std::ostringstream out;
  PrintJson({{"key", "a\xff"}}, &out);
  EXPECT_EQ(out.str(), "{\n  \"key\": \"a\xef\xbf\xbd\"\n}\n");
}

TEST(Help, ListsAllCommands) {
  const Result result = RunLine({"--help"});
  EXPECT_EQ(result.code, ExitCode::kOk);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("Examples:"), HasSubstr("Exit codes:"),
                    HasSubstr("CKPTDB_STORE")));
  for (const auto& command : AllCommands()) {
    EXPECT_THAT(result.out, HasSubstr("\n  " + command->name() + " "));
    EXPECT_THAT(result.out, HasSubstr(command->summary()));
  }
}

TEST(Help, HasAnExampleForEachCommand) {
  for (const auto& command : AllCommands()) {
    const Result result = RunLine({command->name().c_str(), "--help"});
    EXPECT_EQ(result.code, ExitCode::kOk);
    EXPECT_EQ(result.err, "");
    EXPECT_THAT(result.out, HasSubstr("  ckptdb " + command->name()));
    EXPECT_THAT(result.out, AllOf(HasSubstr("--json"), HasSubstr("--store"),
                                  HasSubstr("Exit codes:")));
  }
}

TEST(Usage, RequiresACommand) {
  const Result result = RunLine({});
  EXPECT_EQ(result.code, ExitCode::kUsage);
  EXPECT_THAT(result.err, AllOf(StartsWith("ckptdb: "), HasSubstr("--help")));
  EXPECT_EQ(result.out, "");
}

TEST(Usage, NamesTheInvalidArgument) {
  const auto err = [](const std::vector<const char*>& arguments) {
    const Result result = RunLine(arguments);
    EXPECT_EQ(result.code, ExitCode::kUsage);
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_THAT(err({"frob"}), HasSubstr("frob"));
  EXPECT_THAT(err({"show"}),
              AllOf(StartsWith("ckptdb: show: "), HasSubstr("STEP")));
  EXPECT_THAT(err({"show", "x7"}),
              AllOf(StartsWith("ckptdb: show: "), HasSubstr("\"x7\"")));
  EXPECT_THAT(err({"rm", "1", "x7"}), HasSubstr("\"x7\""));
  EXPECT_THAT(err({"ls", "--frob"}), HasSubstr("--frob"));
  EXPECT_THAT(err({"ls", "extra"}), HasSubstr("extra"));
  EXPECT_THAT(err({"ls", "--store", ""}), HasSubstr("--store"));
  EXPECT_THAT(err({"items", "1", "--rank", "-1"}), HasSubstr("--rank"));
}

TEST(Interrupt, IsRequestedByASignal) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Interrupt interrupt;
    EXPECT_FALSE(Interrupt::asked());
    ASSERT_EQ(std::raise(signal), 0);
    EXPECT_TRUE(Interrupt::asked());
  }
}

TEST(InterruptDeathTest, TheSecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        const Interrupt interrupt;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

TEST(InterruptDeathTest, RestoresTheSignalHandler) {
  EXPECT_EXIT(
      {
        { const Interrupt interrupt; }
        std::raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST(Interrupt, LeavesAnIgnoredSignalIgnored) {
  ASSERT_NE(std::signal(SIGINT, SIG_IGN), SIG_ERR);
  {
    const Interrupt interrupt;
    ASSERT_EQ(std::raise(SIGINT), 0);
    EXPECT_FALSE(Interrupt::asked());
  }
  EXPECT_EQ(std::signal(SIGINT, SIG_DFL), SIG_IGN);
}

}  // namespace
}  // namespace ckptdb::tool
