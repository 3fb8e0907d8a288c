// SPDX-License-Identifier: Apache-2.0
// Which store the command opens, and its errors if it cannot.
#include <sys/wait.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ckptdb/version.h"
#include "tests/support/long_run.h"
#include "tests/tools/tool_fixture.h"
#include "tools/open_store.h"

namespace ckptdb::testing {
namespace {

class ToolUsage : public ToolFixture {};

TEST_F(ToolUsage, FlagOrEnvironmentOrFolderNamesTheStore) {
  const TempDir other;
  const std::string& none = other.path();
  const ToolSetting elsewhere = {.store_variable = none, .folder = none};
  EXPECT_EQ(RunTool({"ls", "-s", path()}, elsewhere).code, 0);
  EXPECT_EQ(RunTool({"-s", path(), "ls"}, elsewhere).code, 0);
  EXPECT_EQ(RunTool({"ls"}, elsewhere).code, 2);
  const Words show = {"show", "100"};
  EXPECT_EQ(RunTool(show, {.store_variable = path(), .folder = none}).code, 0);
  EXPECT_EQ(RunTool(show, {.folder = path()}).code, 0);
  // Without any of them, the error says how to name one.
  const ToolResult result = RunTool({"ls"}, {.folder = none});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("--store"), HasSubstr("CKPTDB_STORE")));
}

TEST_F(ToolUsage, JsonFlagMayPrecedeTheCommand) {
  EXPECT_EQ(RunTool({"--json", "ls", "-s", path()}).Json()["store"], path());
}

TEST_F(ToolUsage, NamesAFolderWithoutAStore) {
  const TempDir empty;
  for (const char* command : {"ls", "verify", "du", "gc"}) {
    const ToolResult result = RunTool({command, "-s", empty.path()});
    EXPECT_EQ(result.code, 2) << command;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err,
                AllOf(StartsWith(std::string("ckptdb: ") + command + ": "),
                      HasSubstr(empty.path())));
  }
  EXPECT_TRUE(std::filesystem::is_empty(empty.path()));
}

TEST_F(ToolUsage, FailsWhenTheOutputCannotBeWritten) {
  const ToolResult result =
      RunTool({"ls", "-s", path()}, {.out_path = "/dev/full"});
  EXPECT_EQ(result.code, 5);
  EXPECT_EQ(result.err, "ckptdb: ls: cannot write to standard output\n");
}

// The descriptor of a closed output is given to the first file that is opened,
// such as LOCK.
class ToolClosedOutput : public DeltaFixture {};

TEST_F(ToolClosedOutput, IsNotWrittenIntoTheStore) {
  const ToolResult folded =
      RunTool({"fold", "400", "-s", path()}, {.closed = true});
  EXPECT_EQ(folded.code, 5);
  EXPECT_EQ(folded.err, "ckptdb: fold: cannot write to standard output\n");
  EXPECT_EQ(RunJson("show 400")["kind"], "full");
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(path())) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_THAT(bytes, Not(HasSubstr("before: "))) << entry.path();
  }
}

// A process that exceeds its limit on the size of a file receives SIGXFSZ,
// which would end it.
TEST_F(ToolClosedOutput, LimitOnTheSizeOfFilesIsAnError) {
  const std::string out = dir_.path() + "/out";
  const std::string command =
      absl::StrCat("ulimit -c 0; ulimit -f 0; exec ", ToolPath(),
                   " export 100 -s ", path(), " --npz ", out, " 2>/dev/null");
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 5);
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST(ToolVersion, EqualsTheVersionOfTheBuild) {
  const ToolResult result = RunTool({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, absl::StrCat("ckptdb ", LibraryVersion(), "\n"));
  EXPECT_EQ(result.err, "");
}

// "latest" while a trainer retires each step when it saves the next.
class ToolLatest : public ToolFixture {
 protected:
  // Saves and retires steps until the end, several times while a command opens
  // the store, and ever more rarely until a command has ended: on a busy
  // machine it could not open a store that is always written to.
  void Train() {
    const std::vector<float> weights(1000, 1);
    std::unique_lock<std::mutex> lock(mutex_);
    for (int64_t first = step_; !done_; ++step_) {
      RankState state;
      state.AddTensor("w", TensorView::Of(weights.data(), {1000}));
      SaveSpec spec;
      spec.step = step_;
      if (step_ > first) spec.retire = {step_ - 1};
      ASSERT_OK(store_->Save(spec, state));
      ASSERT_OK(store_->Sweep());
      ++saves_;
      changed_.wait_for(lock, saves_ * std::chrono::milliseconds(1),
                        [this] { return done_; });
    }
  }
  void RunBesideATrainer(const std::string& command, int runs) {
    Own();
    done_ = false;
    std::thread trainer([this] { Train(); });
    // Under a sanitizer, a command is ten times slower, and retries opening a
    // changing store as many times more often.
    if (!IsLongRun()) runs /= kSanitized ? 10 : 4;
    for (int i = 0; i < runs; ++i) {
      const ToolResult result = Run(command);
      EXPECT_EQ(result.code, 0) << result.err;
      const std::lock_guard<std::mutex> lock(mutex_);
      saves_ = 0;
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    trainer.join();
    Disown();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int saves_ = 0;  // since a command has ended last
  bool done_ = false;
  int64_t step_ = 1000;
};

TEST_F(ToolLatest, IsFoundWhileATrainerRuns) {
  RunBesideATrainer("verify latest", 60);
  RunBesideATrainer("diff 100 latest", 20);
  RunBesideATrainer("plan latest --from 100", 20);
  RunBesideATrainer("show latest", 20);
}

TEST(RetryLatest, StopsAndReportsTheNumberOfTries) {
  int calls = 0;
  const auto gone = [&] {
    return absl::AbortedError(absl::StrCat("step ", ++calls, " is gone"));
  };
  EXPECT_THAT(tool::RetryLatest(true, gone),
              StatusIs(absl::StatusCode::kAborted,
                       AllOf(HasSubstr("100 times in a row"),
                             HasSubstr("step 100 is gone"))));
  EXPECT_EQ(calls, 100);
}

TEST(RetryLatest, RetriesOnlyAbortedReads) {
  int calls = 0;
  EXPECT_OK(tool::RetryLatest(true, [&] {
    return ++calls < 3 ? absl::AbortedError("") : absl::OkStatus();
  }));
  EXPECT_EQ(calls, 3);
  for (const bool latest : {true, false}) {
    calls = 0;
    const absl::Status error =
        latest ? absl::NotFoundError("none") : absl::AbortedError("gone");
    EXPECT_EQ(tool::RetryLatest(latest,
                                [&] {
                                  ++calls;
                                  return error;
                                }),
              error);
    EXPECT_EQ(calls, 1);
  }
}

}  // namespace
}  // namespace ckptdb::testing
