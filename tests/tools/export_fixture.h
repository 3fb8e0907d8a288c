// SPDX-License-Identifier: Apache-2.0
// A store whose steps are exported, and imported into another store.
#ifndef CKPTDB_TESTS_TOOLS_EXPORT_FIXTURE_H_
#define CKPTDB_TESTS_TOOLS_EXPORT_FIXTURE_H_

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {

inline std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  if (!std::filesystem::exists(folder)) return names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string TextOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Lines, sorted, because rows are in no order.
inline std::vector<std::string> SortedLines(const std::string& path) {
  std::vector<std::string> lines =
      absl::StrSplit(TextOf(path), '\n', absl::SkipEmpty());
  std::sort(lines.begin(), lines.end());
  return lines;
}

// Exports a step of the store and imports the files as step 9 of another.
class ToolExport : public DeltaFixture {
 protected:
  std::string out() const { return dir_.path() + "/out"; }
  std::string other() const { return dir_.path() + "/other"; }

  void ExpectRoundTrip(const std::string& step, const std::string& format,
                       const std::string& files) const {
    SCOPED_TRACE(format);
    ExpectRun(absl::StrCat("export ", step, " --", format, " ", out(), format),
              0, HasSubstr("3 tables"), "");
    Words words = {"import", "--step", "9", "-s", other() + format};
    for (const std::string& name : NamesIn(out() + format)) {
      if (std::filesystem::path(name).extension() == files) {
        words.push_back(absl::StrCat(out(), format, "/", name));
      }
    }
    const ToolResult imported = RunTool(words);
    EXPECT_EQ(imported.code, 0) << imported.err;
    for (const std::string table : {"user", "item", "types"}) {
      EXPECT_EQ(RowsOf(path(), step, table),
                RowsOf(other() + format, "9", table));
    }
    EXPECT_EQ(TensorOf(path(), step), TensorOf(other() + format, "9"));
  }
  // All rows as JSON lines, which have every digit, with sorted names.
  std::vector<std::string> RowsOf(const std::string& store,
                                  const std::string& step,
                                  const std::string& table) const {
    const ToolResult result =
        RunTool({"export", step, table, "--jsonl", dir_.path() + "/rows", "-s",
                 store, "--force"});
    EXPECT_EQ(result.code, 0) << result.err;
    std::vector<std::string> rows =
        SortedLines(absl::StrCat(dir_.path(), "/rows/", table, ".jsonl"));
    for (std::string& row : rows) row = Json::parse(row).dump();
    return rows;
  }
  std::string TensorOf(const std::string& store,
                       const std::string& step) const {
    const ToolResult result =
        RunTool({"export", step, "w", "--npy", dir_.path() + "/tensor", "-s",
                 store, "--force"});
    EXPECT_EQ(result.code, 0) << result.err;
    return TextOf(dir_.path() + "/tensor/w.npy");
  }
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_TOOLS_EXPORT_FIXTURE_H_
