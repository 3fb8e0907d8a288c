// Rules of the tree that no compiler checks: an arrow between layers never
// points back, only db/ and the programs around it know RocksDB, and nothing
// sleeps or is left for later.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ckptdb/tests/support/temp_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckptdb {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Folders = std::vector<std::string>;

// The layers that each folder may include.
const std::map<std::string, Folders>& Layers() {
  static const std::map<std::string, Folders> kLayers = {
      {"schema", {"schema"}},
      {"cuda", {"schema", "cuda"}},
      {"db", {"schema", "db"}},
      {"manager", {"schema", "db", "cuda", "manager"}},
      {"tools", {"schema", "db", "cuda", "manager", "tools"}},
      {"examples", {"schema", "db", "cuda", "manager", "examples"}}};
  return kLayers;
}

const Folders& KnowRocksDb() {
  static const Folders kFolders = {"bench", "db", "tests"};
  return kFolders;
}

bool Has(const Folders& folders, const std::string& folder) {
  return std::find(folders.begin(), folders.end(), folder) != folders.end();
}

bool AllowedInclude(const std::string& folder, const std::string& header) {
  const fs::path path(header);
  const std::string first = path.begin()->string();
  if (first == "rocksdb") return Has(KnowRocksDb(), folder);
  const auto layer = Layers().find(folder);
  if (layer == Layers().end() || first != "ckptdb") return true;
  return Has(layer->second, std::next(path.begin())->string());
}

// The header that a line includes; empty when it includes none.
std::string IncludedBy(absl::string_view line) {
  line = absl::StripLeadingAsciiWhitespace(line);
  if (!absl::ConsumePrefix(&line, "#")) return "";
  line = absl::StripLeadingAsciiWhitespace(line);
  if (!absl::ConsumePrefix(&line, "include")) return "";
  const std::vector<std::string> parts =
      absl::StrSplit(line, absl::ByAnyChar("<>\""));
  return parts.size() < 2 ? "" : parts[1];
}

// What is wrong with a line of a file of `folder`; empty when nothing is.
std::string Wrong(const std::string& folder, const std::string& line) {
  const std::string header = IncludedBy(line);
  if (!header.empty() && !AllowedInclude(folder, header)) {
    return "includes " + header;
  }
  // In two parts, so that this file does not break the rule.
  for (const char* word : {"TO"
                           "DO",
                           "FIX"
                           "ME",
                           "sleep"
                           "_for",
                           "sleep"
                           "_until",
                           "u"
                           "sleep("}) {
    if (absl::StrContains(line, word)) return std::string("says ") + word;
  }
  return "";
}

bool IsSource(const fs::path& path) {
  return Has({".cc", ".h", ".cu", ".cuh", ".fbs"}, path.extension().string());
}

void CheckFile(const std::string& folder, const fs::path& path,
               std::vector<std::string>* wrong) {
  std::ifstream file(path);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string what = Wrong(folder, line);
    if (what.empty()) continue;
    wrong->push_back(absl::StrCat(folder, "/", path.filename().string(), ":",
                                  number, " ", what));
  }
}

// One line for each violation, in order; counts the files looked at.
std::vector<std::string> Violations(const fs::path& root, int* files) {
  std::vector<std::string> wrong;
  for (const std::string folder : {"bench", "cuda", "db", "examples", "manager",
                                   "schema", "tests", "tools"}) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file() || !IsSource(entry.path())) continue;
      ++*files;
      CheckFile(folder, entry.path(), &wrong);
    }
  }
  std::sort(wrong.begin(), wrong.end());
  return wrong;
}

TEST(Layering, TheTreeKeepsTheRules) {
  int files = 0;
  EXPECT_THAT(Violations(CKPTDB_SOURCE, &files), IsEmpty());
  EXPECT_GT(files, 40);
}

TEST(Layering, EachRuleFindsWhatBreaksIt) {
  const testing::TempDir dir;
  const auto plant = [&](const std::string& name, const std::string& text) {
    fs::create_directories((fs::path(dir.path()) / name).parent_path());
    std::ofstream(fs::path(dir.path()) / name) << text << "\n";
  };
  plant("schema/a.cc", "#include <rocksdb/db.h>");
  plant("schema/b.h", "#include \"ckptdb/db/store.h\"");
  plant("schema/ok.h", "#include \"ckptdb/schema/keys.h\"");
  plant("db/a.cc", "#include \"ckptdb/manager/policy.h\"");
  plant("db/ok.cc", "#include \"rocksdb/db.h\"");
  plant("tools/a.cc", "\n#include \"rocksdb/db.h\"");
  plant("examples/one/a.cc", "#  include \"rocksdb/db.h\"");
  plant("tests/ok.cc", "#include \"rocksdb/db.h\"");
  plant("tests/a.cc", std::string("x;  // TO") + "DO later");
  plant("bench/a.cc", std::string("std::this_thread::sleep") + "_for(x);");
  int files = 0;
  EXPECT_THAT(Violations(dir.path(), &files),
              ElementsAre(std::string("bench/a.cc:1 says sleep") + "_for",
                          "db/a.cc:1 includes ckptdb/manager/policy.h",
                          "examples/a.cc:1 includes rocksdb/db.h",
                          "schema/a.cc:1 includes rocksdb/db.h",
                          "schema/b.h:1 includes ckptdb/db/store.h",
                          std::string("tests/a.cc:1 says TO") + "DO",
                          "tools/a.cc:2 includes rocksdb/db.h"));
  EXPECT_EQ(files, 10);
}

}  // namespace
}  // namespace ckptdb
