// SPDX-License-Identifier: Apache-2.0
// What each command prints, for people and as JSON, compared with the files of
// tests/tools/golden, and the tour of docs/tool.md with what its lines print.
//
//   CKPTDB_WRITE_GOLDEN=1 build/release/bin/tools_tests
//       --gtest_filter='*ToolGolden*'
//
// writes both anew.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/support/source_folder.h"
#include "tests/tools/ctr_store.h"
#include "tests/tools/tool_fixture.h"
#include "tests/tools/transcript.h"
#include "tools/command.h"

namespace ckptdb::testing {
namespace {

std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct GoldenCase {
  std::string command;
  // Lines without "ckptdb"; the last is also run with --json. CKPTDB_STORE is
  // "ctr", in the current folder.
  std::vector<std::string> lines;
  // The same line with --json, if it differs.
  std::string json = {};
  // Keep only so many lines of each output.
  size_t kept_lines = 0;
};

// Add a row here for each new command.
const GoldenCase kGoldenCases[] = {
    {"ls", {"ls"}},
    {"show", {"show 1000", "show latest"}},
    {"items", {"items latest", "items 1000 --sort bytes"}},
    {"chain", {"chain latest --tables"}},
    {"diff",
     {"diff 1000 1100", "diff 1100 1200 --ids 3 --movers 3",
      "diff 1250 latest --exit-code; echo exit code $?"},
     "diff 1100 1200 --ids 3 --movers 3"},
    {"plan", {"plan latest", "plan 1200 --from 1100"}},
    {"row", {"row user 7"}},
    {"rows",
     {"rows user --where 'nan(embedding)'",
      "rows user --sort 'norm(embedding)' --limit 3",
      "rows user --ids 7,17,42"}},
    {"cat",
     {"cat mlp.0.weight", "cat mlp.0.bias --step 1000 --slice 0:2",
      "cat reader"},
     "cat mlp.0.weight"},
    {"nan", {"nan"}},
    {"digest", {"digest 1000 --items"}},
    {"history", {"history user 7", "history user 17"}},
    {"verify", {"verify"}},
    {"du", {"du --tables --steps"}},
    {"explain", {"explain 1000", "explain 1200", "explain latest"}},
    {"stats", {"stats"}},
    {"watch", {"watch --count 1"}},
    {"report", {"report page.html"}, "report"},
    {"fold", {"fold latest"}, "fold 1200"},
    {"rm", {"rm 1000", "rm 1100"}, "rm 1200"},
    {"gc", {"gc"}},
    {"pin", {"pin 1100"}},
    {"unpin", {"unpin 1000"}},
    {"promote", {"promote 1250"}},
    {"demote", {"demote 1100"}},
    {"quarantine", {"quarantine 1250"}},
    {"metrics", {"metrics 1100 auc=0.72 top1=0.31"}},
    {"repair", {"repair"}},
    {"copy", {"copy ctr:1100 new"}, "copy ctr:1200 other --flatten"},
    {"backup", {"backup kept --name one"}, "backup kept --name two"},
    {"restore-backup",
     {"backup kept --name one > /dev/null; ckptdb restore-backup kept new"},
     "restore-backup kept other --name one"},
    {"export",
     {"export 1000 --npz npz", "export latest user --csv csv --where 'freq>6'"},
     "export 1000 'mlp*' --safetensors out"},
    {"import",
     {"export 1000 --npz npz > /dev/null; ckptdb import npz/step-1000.npz "
      "--step 2000"},
     "import npz/step-1000.npz --step 2001"},
    {"remote",
     {"remote push file://$PWD/shipped", "remote ls file://$PWD/shipped",
      "remote verify file://$PWD/shipped --data",
      "remote gc file://$PWD/shipped --keep 2",
      "remote fetch file://$PWD/shipped new --step 1000",
      "remote fetch file://$PWD/shipped new --update --keep 1",
      "remote fetch file://$PWD/shipped some --tables user --slots freq",
      "row user 7 -s file://$PWD/shipped"},
     "remote ls file://$PWD/shipped"},
    // Without the name of the file system, and checks that depend on it.
    {"doctor",
     {"doctor file://$PWD --speed-mib 0 | sed 1d",
      "doctor --speed-mib 0 ctr | sed 1d"},
     "doctor --speed-mib 0 ctr",
     10},
    {"completion", {"completion bash"}, {}, 3},
    {"man", {"man"}, {}, 8},
};

class ToolGolden : public ToolFixture {
 protected:
  absl::StatusOr<std::unique_ptr<Store>> MakeStore() const override {
    return MakeCtrStore(dir_.path() + "/ctr");
  }
  // What a user sees who runs the line.
  std::string Shown(const std::string& line) const {
    return absl::StrReplaceAll(
        RunInShell("export CKPTDB_STORE=ctr; " + line, dir_.path()),
        {{dir_.path(), "/data"}});
  }
  static std::string FirstLines(const std::string& text, size_t count) {
    std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
    if (count == 0 || lines.size() <= count) return text;
    lines.resize(count);
    return absl::StrCat(absl::StrJoin(lines, "\n"), "\n...\n");
  }
  static void ExpectFile(const std::string& path, const std::string& text) {
    if (WritesGolden()) std::ofstream(path, std::ios::binary) << text;
    EXPECT_EQ(FileText(path), text)
        << path << " differs; see the top of tool_golden_test.cc";
  }
};

class ToolGoldenCommands : public ToolGolden,
                           public ::testing::WithParamInterface<GoldenCase> {};

TEST_P(ToolGoldenCommands, PrintAsRecorded) {
  const GoldenCase& row = GetParam();
  std::vector<std::string> lines = row.lines;
  lines.push_back((row.json.empty() ? row.lines.back() : row.json) + " --json");
  std::string transcript;
  for (const std::string& line : lines) {
    absl::StrAppend(
        &transcript, "$ ckptdb ", line, "\n",
        FirstLines(Normalized(Shown("ckptdb " + line)), row.kept_lines));
  }
  ExpectFile(SourcePath("tests/tools/golden/" + row.command + ".txt"),
             transcript);
}

INSTANTIATE_TEST_SUITE_P(
    All, ToolGoldenCommands, ::testing::ValuesIn(kGoldenCases),
    [](const auto& row) {
      return absl::StrReplaceAll(row.param.command, {{"-", "_"}});
    });

TEST(ToolGoldenFiles, ExistForEachCommand) {
  std::set<std::string> recorded;
  for (const GoldenCase& row : kGoldenCases) recorded.insert(row.command);
  std::set<std::string> commands;
  for (const auto& command : tool::AllCommands()) {
    commands.insert(command->name());
  }
  EXPECT_EQ(recorded, commands);
}

// --- The tour.

class ToolGoldenTour : public ToolGolden {};

// Runs the lines of each block "```console" and returns the document with what
// they print. Keeps what is printed already where it differs only by what
// differs from run to run.
TEST_F(ToolGoldenTour, ShowsWhatIsPrinted) {
  const std::string path = SourcePath("docs/tool.md");
  const std::string text = FileText(path);
  const std::string begin = "```console\n";
  const std::string end = "```\n";
  std::string made;
  size_t at = 0;
  int blocks = 0;
  for (size_t next = 0; (next = text.find(begin, at)) != std::string::npos;) {
    const size_t first = next + begin.size();
    const size_t last = text.find(end, first);
    ASSERT_NE(last, std::string::npos);
    const std::string block = text.substr(first, last - first);
    std::string printed;
    for (const absl::string_view line : absl::StrSplit(block, '\n')) {
      if (!absl::StartsWith(line, "$ ")) continue;
      absl::StrAppend(&printed, line, "\n",
                      Shown(std::string(absl::StripPrefix(line, "$ "))));
    }
    EXPECT_EQ(Normalized(block), Normalized(printed));
    const bool same = Normalized(block) == Normalized(printed);
    absl::StrAppend(&made, text.substr(at, first - at), same ? block : printed);
    at = last;
    ++blocks;
  }
  EXPECT_GE(blocks, 6);
  made += text.substr(at);
  if (WritesGolden()) std::ofstream(path, std::ios::binary) << made;
}

}  // namespace
}  // namespace ckptdb::testing
