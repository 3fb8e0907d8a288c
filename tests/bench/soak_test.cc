// SPDX-License-Identifier: Apache-2.0
// The soak as a whole, for a few seconds, or with CKPTDB_LONG for some minutes;
// and that it sees a store that is not what it should be.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "bench/soak/child.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/long_run.h"
#include "tests/support/seed.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::soak {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kLineTimeoutMs = 60'000;
constexpr int64_t kRunTimeoutMs = 600'000;

struct Ended {
  std::string output;
  std::string ending;
};

Ended RunSoak(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), CKPTDB_SOAK);
  Ended ended;
  const auto child = Child::Start(arguments, /*with_errors=*/true);
  EXPECT_OK(child);
  if (!child.ok()) return ended;
  while (true) {
    const auto line = (*child)->ReadLine(kRunTimeoutMs);
    if (!line.ok()) break;
    absl::StrAppend(&ended.output, *line, "\n");
  }
  ended.ending = (*child)->Wait();
  return ended;
}

// Returns the number in the report's line "saves   123".
int SavesOf(absl::string_view output) {
  for (const absl::string_view line : absl::StrSplit(output, '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    int saves = 0;
    if (words.size() == 2 && words[0] == "saves" &&
        absl::SimpleAtoi(words[1], &saves)) {
      return saves;
    }
  }
  return -1;
}

TEST(SoakTest, LosesNothingAndStaysBounded) {
  constexpr int kSaves = 150;
  constexpr int kLongSaves = 4000;
  const int saves = ckptdb::testing::IsLongRun() ? kLongSaves : kSaves;
  const ckptdb::testing::TempDir dir;
  const Ended soak =
      RunSoak({"--dir", dir.path(), "--saves", absl::StrCat(saves), "--seed",
               absl::StrCat(ckptdb::testing::TestSeed())});
  EXPECT_EQ(soak.ending, "exit 0") << soak.output;
  EXPECT_THAT(soak.output, HasSubstr(absl::StrCat("seed ")));
  // More than one may be acknowledged by the time that the writer is stopped.
  EXPECT_GE(SavesOf(soak.output), saves) << soak.output;
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(SoakTest, ChecksAStoreAgainstItsSeed) {
  const ckptdb::testing::TempDir dir;
  const std::string store = dir.path() + "/store";
  ASSERT_OK_AND_ASSIGN(const auto writer,
                       Child::Start({CKPTDB_SOAK, "write", store, "--seed", "7",
                                     "--life", "1"}));
  for (int saves = 0; saves < 8;) {
    ASSERT_OK_AND_ASSIGN(const std::string line,
                         writer->ReadLine(kLineTimeoutMs));
    if (absl::StartsWith(line, "saved")) ++saves;
  }
  writer->Kill();
  EXPECT_EQ(writer->Wait(), "signal 9");
  const Ended same = RunSoak({"check", store, "--seed", "7"});
  EXPECT_EQ(same.ending, "exit 0") << same.output;
  EXPECT_THAT(same.output, HasSubstr("steps are as they should be"));
  const Ended other = RunSoak({"check", store, "--seed", "8"});
  EXPECT_EQ(other.ending, "exit 1");
  EXPECT_THAT(other.output, HasSubstr("table \"user\", id "));
}

TEST(SoakTest, RejectsBadArguments) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{
           {"--saves", "0"}, {"--volume-mib", "1"}, {"write"}, {"listen"}}) {
    EXPECT_EQ(RunSoak(arguments).ending, "exit 2");
  }
}

}  // namespace
}  // namespace ckptdb::soak
