// SPDX-License-Identifier: Apache-2.0
// fold: its effect on a step, and the state after an interrupt.
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/tool_fixture.h"
#include "tools/command_line.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::StartsWith;
using Json = nlohmann::json;

class ToolFold : public DeltaFixture {};

TEST_F(ToolFold, MakesAFullStepWithTheSameRows) {
  const Json before = RunJson({"row", "user", "-2"})["slots"];
  const ToolResult fold = Run({"fold", "400"});
  EXPECT_EQ(fold.code, 0) << fold.err;
  EXPECT_EQ(fold.err, "");
  EXPECT_THAT(fold.out,
              ContainsRegex("^before: step 400 attempt [0-9]+, 3 deltas of "
                            "[0-9.]+ K?i?B over a base of [0-9.]+ K?i?B\n"
                            "after: step 400 attempt [0-9]+, no deltas; wrote "
                            "14 rows in [0-9.]+ K?i?B, in "));
  EXPECT_EQ(RunJson({"row", "user", "-2"})["slots"], before);
  const ToolResult erased = Run({"row", "user", "50"});
  EXPECT_EQ(erased.code, 2);
  EXPECT_EQ(Run({"verify"}).code, 0);
}

TEST_F(ToolFold, AsJson) {
  const Json fold = RunJson({"fold", "latest"});
  EXPECT_EQ(fold["store"], path());
  EXPECT_EQ(fold["folded"], true);
  EXPECT_EQ(fold["before"]["step"], 400);
  EXPECT_EQ(fold["before"]["kind"], "delta");
  EXPECT_EQ(fold["before"]["deltas"], 3);
  EXPECT_EQ(fold["after"]["step"], 400);
  EXPECT_EQ(fold["after"]["kind"], "full");
  EXPECT_EQ(fold["after"]["deltas"], 0);
  EXPECT_GT(fold["after"]["attempt"], fold["before"]["attempt"]);
  EXPECT_EQ(fold["written_rows"], 10 + 4);
  EXPECT_GT(fold["written_bytes"], 0);
  EXPECT_GE(fold["parts"], 1);
  EXPECT_EQ(fold["resumed_parts"], 0);
  EXPECT_TRUE(fold["fold_micros"].is_number());
  EXPECT_TRUE(fold["freed_bytes"].is_number());
  EXPECT_THAT(fold["quarantined_versions"], IsEmpty());
}

TEST_F(ToolFold, KeepsDeltaRunsThatLeadToTheStep) {
  const int64_t attempt = RunJson({"show", "400"})["attempt"];
  ASSERT_EQ(Run({"fold", "400"}).code, 0);
  const Json chain = RunJson({"chain", "400"});
  EXPECT_EQ(chain["versions"].size(), 1u);
  EXPECT_EQ(chain["folded_from"]["attempt"], attempt);
  EXPECT_EQ(chain["folded_from"]["kind"], "delta");
  EXPECT_EQ(chain["folded_from"]["rows"], 2);
  EXPECT_THAT(Run({"chain", "400"}).out,
              ContainsRegex(" delta +\\+2 .* folded into this step\n"));
  const Json show = RunJson({"show", "400"});
  EXPECT_EQ(show["kind"], "full");
  EXPECT_EQ(show["folded_from"]["attempt"], attempt);
  EXPECT_THAT(Run({"show", "400"}).out,
              ContainsRegex("\nfolded from +step 400 attempt "));
  const Json du = RunJson({"du"});
  ASSERT_EQ(du["held_versions"].size(), 1u);
  EXPECT_EQ(du["held_versions"][0]["folded_into"], Json{400});
  // The delta runs still lead to the step.
  EXPECT_EQ(RunJson({"history", "item", "2"})["events"].size(), 2u);
}

TEST_F(ToolFold, FreesTheChain) {
  ASSERT_EQ(Run({"rm", "100", "200", "300"}).code, 0);
  EXPECT_EQ(RunJson({"du"})["held_versions"].size(), 3u);
  const Json fold = RunJson({"fold", "400"});
  // Step 100 has the tensor that all later steps use.
  EXPECT_EQ(fold["swept_versions"].size(), 2u);
  EXPECT_EQ(RunJson({"row", "user", "1"})["slots"][1]["values"], Json{2});
}

TEST_F(ToolFold, StepWithoutAChainIsUnchanged) {
  const ToolResult fold = Run({"fold", "100"});
  EXPECT_EQ(fold.code, 0);
  EXPECT_EQ(fold.err, "");
  EXPECT_EQ(fold.out, "step 100 has no chain to fold and is unchanged\n");
  const Json json = RunJson({"fold", "100"});
  EXPECT_EQ(json["folded"], false);
  EXPECT_EQ(json["before"], json["after"]);
  EXPECT_THAT(json["swept_versions"], IsEmpty());
}

TEST_F(ToolFold, FailsIfTheStepIsMissing) {
  const ToolResult fold = Run({"fold", "150"});
  EXPECT_EQ(fold.code, 2);
  EXPECT_EQ(fold.out, "");
  EXPECT_THAT(fold.err, AllOf(StartsWith("ckptdb: fold: "), HasSubstr("150")));
}

TEST_F(ToolFold, RejectsABusyStore) {
  Own();
  const ToolResult fold = Run({"fold", "400"});
  EXPECT_EQ(fold.code, 4);
  EXPECT_EQ(fold.out, "");
  EXPECT_THAT(fold.err, HasSubstr("pid " + std::to_string(getpid())));
}

// Presses Ctrl-C when the command has printed its first line.
class InterruptingBuffer : public std::stringbuf {
 private:
  int sync() override {
    if (!done_) std::raise(SIGINT);
    done_ = true;
    return 0;
  }
  bool done_ = false;
};

class BigToolFold : public BigDeltaFixture {};

TEST_F(BigToolFold, ResumesAfterAnInterrupt) {
  InterruptingBuffer buffer;
  std::ostream out(&buffer);
  std::ostringstream err;
  const std::string store = path();
  const std::vector<const char*> words = {"ckptdb", "fold", "200", "-s",
                                          store.c_str()};
  const tool::ExitCode code = tool::RunCommandLine(
      static_cast<int>(words.size()), words.data(), {&out, &err, nullptr});
  EXPECT_EQ(code, tool::ExitCode::kFailed);
  EXPECT_THAT(buffer.str(), MatchesRegex("before: step 200 attempt [^\n]*\n"));
  EXPECT_EQ(err.str(),
            "ckptdb: fold: step 200: the fold was interrupted and the step is "
            "unchanged; run \"ckptdb fold 200\" again to resume it\n");
  EXPECT_EQ(RunJson({"show", "200"})["kind"], "delta");
  const Json fold = RunJson({"fold", "200"});
  EXPECT_EQ(fold["after"]["kind"], "full");
  EXPECT_EQ(fold["written_rows"], 20'000 - 1);
  EXPECT_EQ(Run({"verify"}).code, 0);
}

TEST_F(BigToolFold, FreesTheFilesOfTheChain) {
  ASSERT_EQ(Run({"rm", "100"}).code, 0);
  const ToolResult fold = Run({"fold", "200"});
  EXPECT_EQ(fold.code, 0);
  EXPECT_THAT(fold.out,
              AllOf(HasSubstr("; wrote 19,999 rows in 9."),
                    ContainsRegex("\nfreed 9\\.[0-9] MiB of data files\n$")));
}

}  // namespace
}  // namespace ckptdb::testing
