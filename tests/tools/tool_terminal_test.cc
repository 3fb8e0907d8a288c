// SPDX-License-Identifier: Apache-2.0
// The command on a terminal, suggestions, completions, the manual page; and
// that commands which only read change no byte.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tests/tools/tool_fixture.h"
#include "tools/command.h"

namespace ckptdb::testing {
namespace {

class ToolTerminal : public ToolFixture {
 protected:
  // Runs a shell command with a terminal of so many columns as its standard
  // output, and returns what the terminal shows. "ckptdb" is the built command.
  std::string Show(const std::string& command, unsigned short columns) {
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    EXPECT_GE(terminal, 0);
    EXPECT_EQ(grantpt(terminal) | unlockpt(terminal), 0);
    const int child_end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    struct winsize size {};
    size.ws_col = columns;
    size.ws_row = 24;
    EXPECT_EQ(ioctl(child_end, TIOCSWINSZ, &size), 0);
    const std::string line =
        absl::StrReplaceAll(command, {{"ckptdb", ToolPath()}}) + " -s " +
        path();
    const pid_t child = fork();
    if (child == 0) {
      dup2(child_end, STDOUT_FILENO);
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(127);
    }
    close(child_end);
    std::string shown;
    std::array<char, 4096> part = {};
    ssize_t bytes = 0;
    // Fails once the child has closed the terminal.
    while ((bytes = read(terminal, part.data(), part.size())) > 0) {
      shown.append(part.data(), static_cast<size_t>(bytes));
    }
    close(terminal);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    code_ = WEXITSTATUS(status);
    return absl::StrReplaceAll(shown, {{"\r\n", "\n"}});
  }

  int code_ = -1;
};

TEST_F(ToolTerminal, CutsTablesAtTheWidth) {
  const std::string shown =
      Show("TERM=xterm NO_COLOR=1 PAGER= ckptdb items 100", 30);
  EXPECT_EQ(code_, 0);
  EXPECT_THAT(shown, StartsWith("RANK  KIND    NAME        LAY>\n"));
  EXPECT_THAT(shown, HasSubstr("\n   0  tensor  mlp.weight  f32>\n"));
  // Without a terminal, nothing is cut.
  EXPECT_THAT(Run("items 100").out, HasSubstr("BASE REASON\n"));
  // Neither is JSON.
  EXPECT_THAT(Show("PAGER= ckptdb items 100 --json", 30),
              HasSubstr("\"sharding\": \"undeclared\""));
}

TEST_F(ToolTerminal, BoldTitlesUnlessNoColor) {
  EXPECT_THAT(Show("TERM=xterm PAGER= ckptdb ls", 200),
              ContainsRegex("^\x1b\\[1mSTEP  KIND [^\n]*\x1b\\[0m\n 100 "));
  for (const char* off : {"NO_COLOR=1 TERM=xterm", "TERM=dumb"}) {
    EXPECT_THAT(Show(std::string(off) + " PAGER= ckptdb ls", 200),
                StartsWith("STEP  KIND"));
  }
  EXPECT_THAT(Run("ls").out, StartsWith("STEP  KIND"));
}

TEST_F(ToolTerminal, PagesLongOutput) {
  const std::string pager = "NO_COLOR=1 PAGER='sed s/^/paged:/' ";
  EXPECT_THAT(Show(pager + "ckptdb ls", 200), StartsWith("paged:STEP  KIND"));
  EXPECT_EQ(code_, 0);
  // Commands that print results as they find them are not paged.
  EXPECT_THAT(Show(pager + "ckptdb verify 100", 200), StartsWith("step 100"));
  // The exit code is the command's.
  Show(pager + "ckptdb row user 99999", 200);
  EXPECT_EQ(code_, 2);
  // A pager that the user leaves early is no error.
  Show("PAGER=true ckptdb rows user --limit 1000 --json", 200);
  EXPECT_EQ(code_, 0);
  EXPECT_THAT(Show("NO_COLOR=1 PAGER=cat ckptdb ls", 200),
              StartsWith("STEP  KIND"));
}

TEST_F(ToolTerminal, ScalesBarsToTheWidth) {
  std::vector<float> values(64, 0);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = i < 32 ? 0.0F : i < 48 ? 1.0F : i < 56 ? 2.0F : 3.0F;
  }
  RankState state;
  state.AddTensor("t", TensorView::Of(values.data(), {64}));
  Own();
  ASSERT_OK(store_->Save({.step = 900}, state).status());
  Disown();
  const auto bars = [&](unsigned short columns) {
    const std::string shown = Show("PAGER= ckptdb cat t", columns);
    std::vector<size_t> lengths;
    for (const absl::string_view line : absl::StrSplit(shown, '\n')) {
      const auto at = line.find(" #");
      if (at == absl::string_view::npos) continue;
      lengths.push_back(line.size() - at);
      EXPECT_LE(line.size(), columns);
    }
    EXPECT_THAT(shown.substr(shown.find("histogram")), Not(HasSubstr(">")));
    return lengths;
  };
  EXPECT_EQ(bars(30), (std::vector<size_t>{11, 6, 3, 3}));
  EXPECT_EQ(bars(200), (std::vector<size_t>{41, 21, 11, 11}));
}

TEST_F(ToolTerminal, ShowsTheOutputWithoutAPagerThatCannotRun) {
  for (const std::string pager : {"/none/such", "'lesss -R'", "/etc/passwd",
                                  "\"less '\"", "'| sed s/^/x/'"}) {
    const std::string shown =
        Show("NO_COLOR=1 PAGER=" + pager + " ckptdb ls 2>/dev/null", 200);
    EXPECT_EQ(code_, 0) << pager;
    EXPECT_THAT(shown, StartsWith("STEP  KIND")) << pager;
  }
  EXPECT_THAT(Show("PAGER=/none/such ckptdb ls 2>&1", 200),
              HasSubstr("ckptdb: PAGER cannot be run; showing the output "
                        "without it\n"));
}

class ToolSuggestions : public ToolFixture {};

TEST_F(ToolSuggestions, OfCommandsFlagsAndItems) {
  EXPECT_THAT(RunTool({"verfy"}).err, HasSubstr("did you mean \"verify\"?\n"));
  EXPECT_THAT(RunTool({"ls", "--jsn"}).err,
              HasSubstr("did you mean \"--json\"?\n"));
  EXPECT_THAT(RunTool({"--stor=x", "ls"}).err,
              HasSubstr("did you mean \"--store\"?\n"));
  EXPECT_THAT(RunTool({"zzzzzzzzzz"}).err, Not(HasSubstr("did you mean")));
  ExpectFails("row users 1", 2,
              HasSubstr("no table \"users\"; did you mean \"user\"?\n"));
  for (const char* command : {"rows usr", "nan usr", "nan usr*",
                              "items 100 usr", "cat usr", "history usr 1"}) {
    ExpectFails(command, 2, HasSubstr("; did you mean \"user\"?\n"));
  }
  for (const char* command : {"rows mlp.weight", "row mlp.weight 1"}) {
    ExpectFails(command, 1,
                HasSubstr("\"mlp.weight\" is a tensor; run \"ckptdb cat "
                          "mlp.weight\"\n"));
  }
  ExpectFails("cat mlp.wieght", 2,
              HasSubstr("; did you mean \"mlp.weight\"?\n"));
  ExpectFails("rows user --where frq<3", 1,
              HasSubstr("; did you mean \"freq\"?\n"));
}

// --- Made from the definitions of commands.

bool HasProgram(const std::string& name) {
  return std::system(("command -v " + name + " >/dev/null").c_str()) == 0;
}

TEST(ToolCompletion, BashCompletesCommandsAndFlags) {
  const std::string script = RunTool({"completion", "bash"}).out;
  const TempDir dir;
  std::ofstream(dir.path() + "/script") << script;
  const auto complete = [&](const std::string& words, int word) {
    const std::string command =
        "bash -c 'source " + dir.path() + "/script; COMP_WORDS=(" + words +
        "); COMP_CWORD=" + std::to_string(word) +
        "; _ckptdb; echo \"${COMPREPLY[*]}\"' > " + dir.path() + "/out";
    EXPECT_EQ(std::system(command.c_str()), 0);
    std::ifstream file(dir.path() + "/out");
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  EXPECT_EQ(complete("ckptdb hist", 1), "history\n");
  EXPECT_EQ(complete("ckptdb -s /store his", 3), "history\n");
  EXPECT_EQ(complete("ckptdb rows user --sm", 3), "--smallest\n");
  EXPECT_EQ(complete("ckptdb -s " + dir.path() + "/", 2), "\n");
}

TEST(ToolCompletion, ScriptsNameAllCommandsAndParse) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const std::string script = RunTool({"completion", shell}).out;
    for (const auto& command : tool::AllCommands()) {
      EXPECT_THAT(script, HasSubstr(command->name())) << shell;
    }
    EXPECT_THAT(script, HasSubstr("no-first-step")) << shell;
    if (!HasProgram(shell)) continue;
    const TempDir dir;
    std::ofstream(dir.path() + "/script") << script;
    EXPECT_EQ(std::system((shell + " -n " + dir.path() + "/script").c_str()), 0)
        << shell;
  }
  EXPECT_EQ(RunTool({"completion", "tcsh"}).code, 1);
}

// Returns the long options that the help of a command lists, those of option
// groups included.
std::vector<std::string> OptionsInHelp(const std::string& command) {
  const std::string help = RunTool({command, "--help"}).out;
  const std::regex option("\n +(?:-[a-z],)?--([a-z0-9-]+)");
  std::vector<std::string> options;
  for (std::sregex_iterator at(help.begin(), help.end(), option), end;
       at != end; ++at) {
    options.push_back((*at)[1]);
  }
  return options;
}

// Returns the text from `begin` to before `end`.
std::string Between(const std::string& text, const std::string& begin,
                    const std::string& end) {
  const size_t at = text.find(begin);
  EXPECT_NE(at, std::string::npos) << begin;
  if (at == std::string::npos) return "";
  return text.substr(at, text.find(end, at + begin.size()) - at);
}

TEST(ToolParser, EachOptionIsDescribedCompletedAndSuggested) {
  const std::string man = RunTool({"man"}).out + ".SS ";
  const std::string bash = RunTool({"completion", "bash"}).out;
  const std::string zsh = RunTool({"completion", "zsh"}).out;
  const std::string fish = RunTool({"completion", "fish"}).out;
  size_t tried = 0;
  for (const auto& command : tool::AllCommands()) {
    const std::string name = command->name();
    SCOPED_TRACE(name);
    const std::string page = Between(man, ".SS ckptdb " + name, "\n.SS ");
    const std::string words = Between(bash, "    " + name + ") words=", ";;");
    const std::string arguments = Between(zsh, "\n    " + name + ")", ";;");
    for (const std::string& option : OptionsInHelp(name)) {
      SCOPED_TRACE(option);
      ++tried;
      EXPECT_THAT(
          page, HasSubstr(absl::StrReplaceAll("--" + option, {{"-", "\\-"}})));
      EXPECT_THAT(words, ContainsRegex("[' ]--" + option + "[' ]"));
      EXPECT_THAT(arguments, ContainsRegex("--" + option + "[\\[}',]"));
      EXPECT_THAT(fish, ContainsRegex("__fish_seen_subcommand_from " + name +
                                      "'[^\n]* -l " + option + " "));
      EXPECT_THAT(RunTool({name, "--" + option + "x"}).err,
                  HasSubstr("; did you mean \"--" + option + "\"?\n"));
    }
  }
  EXPECT_GT(tried, 100U);
  // Option groups do not repeat --help.
  const std::string page = Between(man, ".SS ckptdb export", "\n.SS ");
  EXPECT_EQ(page.find("help"), page.rfind("\\-\\-help") + 4);
}

TEST(ToolMan, DescribesAllCommands) {
  const std::string page = RunTool({"man"}).out;
  EXPECT_THAT(page, StartsWith(".TH CKPTDB 1\n.SH NAME\nckptdb \\- "));
  for (const auto& command : tool::AllCommands()) {
    EXPECT_THAT(page, HasSubstr("\n.SS ckptdb " + command->name()));
  }
  EXPECT_THAT(page, HasSubstr("\n.B \\-s, \\-\\-store DIR\n"));
  EXPECT_THAT(page, HasSubstr(".SS ckptdb items STEP [GLOB]\n"));
}

// --- Commands that only read.

constexpr std::array<const char*, 15> kReadingCommands = {
    "ls",
    "show latest",
    "items 400 --sort bytes",
    "chain 400 --tables",
    "diff 100 400 --ids 9 --movers 9",
    "diff 100 300 --full",
    "plan 400",
    "row user 1",
    "rows user --where nan(embedding)|freq>1 --sort norm(embedding)",
    "cat w",
    "nan",
    "history user 1",
    "digest 400",
    "verify",
    "du --tables --steps"};

class ToolReadsOnly : public DeltaFixture {
 protected:
  // Returns the contents of all files below the store, by path.
  std::map<std::string, std::string> Contents() const {
    std::map<std::string, std::string> contents;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(path())) {
      std::string& bytes = contents[entry.path().string()];
      if (!entry.is_regular_file()) continue;
      bytes.resize(entry.file_size());
      std::ifstream file(entry.path(), std::ios::binary);
      file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
    return contents;
  }
  void ExpectNothingChanges() const {
    const auto before = Contents();
    for (const char* command : kReadingCommands) {
      const ToolResult result = Run(command);
      EXPECT_EQ(result.code, 0) << command << result.err;
      EXPECT_TRUE(Contents() == before) << command;
    }
  }

  // Saves steps, each with all that the commands read, until `done`.
  void Train(const std::atomic<bool>& done) const {
    const std::vector<int64_t> ids = {1, 2};
    const std::vector<float> values(8, 0.5F);
    const std::vector<uint32_t> counts = {1, 2};
    const RowSource::Arrays rows(ids,
                                 {{values.data(), 16}, {counts.data(), 4}});
    std::mutex mutex;
    std::condition_variable never;
    for (int64_t step = 1000; !done; ++step) {
      RankState state;
      state.AddTable("user",
                     {{"embedding", DType::kF32, 4}, {"freq", DType::kU32, 1}},
                     &rows);
      state.AddTensor("w", TensorView::Of(values.data(), {3}));
      SaveSpec spec;
      spec.step = step;
      if (step > 1000) spec.retire = {step - 1};
      ASSERT_OK(store_->Save(spec, state));
      ASSERT_OK(store_->Sweep());
      std::unique_lock<std::mutex> lock(mutex);
      // Under a sanitizer, opening the store takes a part of this.
      never.wait_for(lock, std::chrono::milliseconds(400));
    }
  }
};

TEST_F(ToolReadsOnly, ChangeNoByte) { ExpectNothingChanges(); }

TEST_F(ToolReadsOnly, ChangeNoByteOfALiveStore) {
  Own();
  ExpectNothingChanges();
}

TEST_F(ToolReadsOnly, SucceedWhileATrainerSaves) {
  Own();
  std::atomic<bool> done = false;
  std::thread trainer([&] { Train(done); });
  for (const char* command : kReadingCommands) {
    const ToolResult result = Run(command);
    // history says that it could not read steps that retention removed.
    const bool removed = absl::StrContains(
        result.err, "were removed while they were being read");
    EXPECT_EQ(result.code, removed ? 5 : 0) << command << result.err;
  }
  done = true;
  trainer.join();
  Disown();
}

TEST_F(ToolReadsOnly, FailWhenTheOutputCannotBeWritten) {
  for (const char* command : kReadingCommands) {
    Words words = absl::StrSplit(command, ' ');
    words.insert(words.end(), {"--store", path()});
    const ToolResult result = RunTool(words, {.out_path = "/dev/full"});
    EXPECT_EQ(result.code, 5) << command;
    EXPECT_THAT(result.err, HasSubstr("cannot write to standard output"));
  }
}

TEST_F(ToolReadsOnly, NameAMissingOrEmptyStore) {
  const std::string empty = dir_.path() + "/empty";
  ASSERT_OK(Store::Open(empty).status());
  for (const std::string command :
       {"rows user", "cat w", "nan", "digest latest", "diff 1 latest"}) {
    for (const std::string& store : {empty, dir_.path()}) {
      const ToolResult result = RunLine(command, {"--store", store});
      EXPECT_EQ(result.code, 2) << command;
      EXPECT_THAT(result.err, HasSubstr(store)) << command;
    }
  }
}

}  // namespace
}  // namespace ckptdb::testing
