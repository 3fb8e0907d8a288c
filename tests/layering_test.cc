// SPDX-License-Identifier: Apache-2.0
// Rules of the tree that no compiler checks. An arrow between layers, and
// between the folders of a layer, never points back. What lies directly in a
// layer's folder is public; what lies in a folder below is the layer's own.
// Only db/ and the programs around it know RocksDB. The library writes to a
// Logger, and its locks are those that clang checks. Nothing sleeps, or is left
// for later.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/source_folder.h"
#include "tests/support/temp_dir.h"

namespace ckptdb {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

using Folders = std::vector<std::string>;
using Allowed = std::map<std::string, Folders>;

// The layers that each folder may include.
const Allowed& Layers() {
  static const Allowed kLayers = {
      {"schema", {"schema"}},
      {"db", {"schema", "db"}},
      {"manager", {"schema", "db", "manager"}},
      {"cuda", {"schema", "db", "manager", "cuda"}},
      {"mpi", {"schema", "db", "manager", "mpi"}},
      {"remote", {"schema", "db", "manager", "remote"}},
      {"tools", {"schema", "db", "manager", "remote", "tools"}},
      {"examples",
       {"schema", "db", "manager", "cuda", "mpi", "remote", "examples"}}};
  return kLayers;
}

using Rules = std::vector<std::pair<std::string, Folders>>;

// The private folders of each layer in their order, and the earlier ones that
// each may include. Each may also include the public headers of its layer.
const Rules& Rooms() {
  static const Rules kRooms = {
      {"schema/bytes", {}},
      {"schema/records", {"schema/bytes"}},
      {"db/internal", {}},
      {"db/base", {}},
      // Code that depends on RocksDB's internals: docs/rocksdb.md.
      {"db/quirks", {"db/base"}},
      {"db/disk", {"db/base", "db/quirks"}},
      {"db/rocks", {"db/base", "db/quirks", "db/disk"}},
      {"db/meta", {"db/base", "db/disk", "db/rocks"}},
      {"db/stage", {"db/base", "db/disk", "db/rocks", "db/meta"}},
      {"db/read", {"db/base", "db/disk", "db/rocks", "db/meta"}},
      {"db/track", {"db/base"}},
      {"db/fold",
       {"db/base", "db/disk", "db/rocks", "db/meta", "db/stage", "db/read"}},
      {"db/store",
       {"db/base", "db/disk", "db/rocks", "db/meta", "db/stage", "db/read",
        "db/fold"}},
      // Versions of a store, taken out and put into another.
      {"db/transfer",
       {"db/base", "db/disk", "db/rocks", "db/meta", "db/store"}},
      {"manager/internal", {}},
      {"manager/config", {"db/base"}},
      {"manager/policy", {"db/base"}},
      {"manager/state", {"db/base"}},
      {"manager/ranks", {"db/base", "manager/state"}},
      {"manager/save",
       {"db/base", "manager/policy", "manager/state", "manager/ranks"}},
      {"manager/load", {"db/base", "manager/state", "manager/ranks"}},
      {"manager/core",
       {"db/base", "manager/config", "manager/policy", "manager/state",
        "manager/ranks", "manager/save", "manager/load"}},
      {"cuda/runtime", {"db/base"}},
      // The mathematics of the lossy codecs.
      {"cuda/rows", {"schema/bytes"}},
      {"cuda/kernels", {"cuda/rows"}},
      {"cuda/tables",
       {"schema/bytes", "db/base", "cuda/runtime", "cuda/rows",
        "cuda/kernels"}},
      {"cuda/tensors",
       {"db/base", "cuda/runtime", "cuda/rows", "cuda/kernels"}},
      {"cuda/device",
       {"db/base", "cuda/runtime", "cuda/rows", "cuda/kernels",
        "cuda/tensors"}},
      {"remote/folder", {"db/base"}},
      {"remote/layout", {}},
      {"remote/probe", {"db/base"}},
      {"remote/s3", {"db/base"}},
      {"remote/open", {"db/base", "remote/folder", "remote/s3"}},
      {"remote/check", {"db/base", "remote/s3"}},
      {"remote/ranges", {"db/base"}},
      {"remote/sync",
       {"db/base", "db/transfer", "manager/policy", "remote/layout",
        "remote/probe", "remote/ranges"}},
      {"remote/read",
       {"db/base", "db/transfer", "remote/layout", "remote/ranges",
        "remote/sync"}}};
  return kRooms;
}

// Returns the rule of a folder, or null if the folder is not private.
const Folders* RuleOf(const std::string& folder) {
  for (const auto& [room, others] : Rooms()) {
    if (room == folder) return &others;
  }
  return nullptr;
}

// Programs that may look into db/base and schema/ for what they measure.
const Folders& KnowBase() {
  static const Folders kFolders = {"bench"};
  return kFolders;
}

// Benchmarks of a part of the library by itself, and the private folders that
// have the part.
const Allowed& MeasuredParts() {
  static const Allowed kParts = {
      {"bench/scale_publish.cc", {"db/disk", "db/rocks", "db/stage"}},
      // Suggests names as the library's errors do.
      {"tools/suggestion.cc", {"db/base"}}};
  return kParts;
}

// The layers that read and write bytes and records, in their private folders.
const Folders& KnowRecords() {
  static const Folders kFolders = {"bench", "db", "manager", "remote"};
  return kFolders;
}

const Folders& KnowRocksDb() {
  static const Folders kFolders = {"bench", "db", "tests"};
  return kFolders;
}

bool Has(const Folders& folders, const std::string& folder) {
  return std::find(folders.begin(), folders.end(), folder) != folders.end();
}

// Returns the layer of a folder: "db" for "db/rocks" and for "db".
std::string LayerOf(const std::string& folder) {
  return folder.substr(0, folder.find('/'));
}

// Whether the public headers of a layer include headers of `room`, which are
// installed beside them but are not for users.
bool IsInternal(const std::string& room) {
  return fs::path(room).filename() == "internal";
}

// The layers that have rooms, whose headers may include internal ones.
bool IsLibrary(const std::string& layer) {
  return Has({"schema", "db", "manager", "cuda", "mpi", "remote"}, layer);
}

// Whether a file in `folder` may include a header of `room`, a private folder.
bool AllowedRoom(const std::string& folder, const std::string& room) {
  const std::string layer = LayerOf(folder);
  if (folder == room || layer == "tests") return true;
  if (IsInternal(room)) return IsLibrary(layer) || layer == "bench";
  if (LayerOf(room) == "schema" && Has(KnowRecords(), layer)) {
    return RuleOf(folder) != nullptr || layer == "bench";
  }
  const Folders* const rooms = RuleOf(folder);
  if (rooms != nullptr) return Has(*rooms, room);
  return Has(KnowBase(), folder) && room == "db/base";
}

// Returns the folder of a header: "db/rocks" for "db/rocks/database.h" and for
// "ckptdb/db/rocks/database.h", as users include it. <ckptdb/ckptdb.h>, which
// includes all others, is in the highest layer.
std::string FolderOf(absl::string_view header) {
  if (header == "ckptdb/ckptdb.h") return "manager";
  absl::ConsumePrefix(&header, "ckptdb/");
  return fs::path(std::string(header)).parent_path().string();
}

// `folder` is that of the including file, relative to the root: "db/rocks".
bool AllowedInclude(const std::string& folder, const std::string& header) {
  if (absl::StartsWith(header, "rocksdb/")) {
    return Has(KnowRocksDb(), LayerOf(folder));
  }
  const std::string included = FolderOf(header);
  if (!Layers().contains(LayerOf(included))) return true;
  const std::string layer = LayerOf(folder);
  const auto layers = Layers().find(layer);
  if (layers != Layers().end() && !Has(layers->second, LayerOf(included))) {
    return false;
  }
  return RuleOf(included) == nullptr || AllowedRoom(folder, included);
}

// A public header that only one room of its layer includes: the others are
// below what it declares.
bool OnlyForAnotherRoom(const std::string& folder, const std::string& header) {
  return header == "manager/checkpoint_manager.h" &&
         LayerOf(folder) == "manager" && folder != "manager" &&
         folder != "manager/core";
}

// Whether the benchmark `path` measures the part that has `header`.
bool Measures(const fs::path& path, const std::string& header) {
  const auto parts = MeasuredParts().find(path.string());
  return parts != MeasuredParts().end() && Has(parts->second, FolderOf(header));
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

// A word that the library may use in one file alone.
struct WordOfOneFile {
  std::string word;
  std::string file;
};

const std::vector<WordOfOneFile>& WordsOfOneFile() {
  static const std::vector<WordOfOneFile> kWords = {
      // Messages go to a Logger; only a manager without one writes to stderr.
      {"std::cerr", "manager/core/warnings.cc"},
      {"(stderr", "manager/core/warnings.cc"},
      {"std::cout", ""},
      // Other locks are of a class whose annotations clang checks.
      {"std::mutex", "db/base/mutex.h"}};
  return kWords;
}

// The layers that are in the library.
const Folders& LibraryLayers() {
  static const Folders kFolders = {"schema", "db", "manager"};
  return kFolders;
}

// What is wrong with a line of the file `path`; empty when nothing is.
std::string Wrong(const fs::path& path, const std::string& line) {
  const std::string folder = path.parent_path().string();
  const std::string header = IncludedBy(line);
  if (!header.empty() && !Measures(path, header) &&
      (!AllowedInclude(folder, header) || OnlyForAnotherRoom(folder, header))) {
    return "includes " + header;
  }
  if (Has(LibraryLayers(), LayerOf(folder))) {
    for (const WordOfOneFile& of : WordsOfOneFile()) {
      if (absl::StrContains(line, of.word) && path != of.file) {
        return "says " + of.word;
      }
    }
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

// `path` is relative to `root`.
void CheckFile(const fs::path& root, const fs::path& path,
               std::vector<std::string>* wrong) {
  std::ifstream file(root / path);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string what = Wrong(path, line);
    if (what.empty()) continue;
    wrong->push_back(absl::StrCat(path.string(), ":", number, " ", what));
  }
}

// One line for each violation, in order; counts the files looked at.
std::vector<std::string> Violations(const fs::path& root, int* files) {
  std::vector<std::string> wrong;
  for (const std::string folder :
       {"bench", "cuda", "db", "examples", "manager", "mpi", "remote", "schema",
        "tests", "tools"}) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file() || !IsSource(entry.path())) continue;
      ++*files;
      CheckFile(root, entry.path().lexically_relative(root), &wrong);
    }
  }
  std::sort(wrong.begin(), wrong.end());
  return wrong;
}

TEST(Layering, TheTreeKeepsTheRules) {
  int files = 0;
  EXPECT_THAT(Violations(testing::SourcePath(""), &files), IsEmpty());
  EXPECT_GT(files, 40);
}

// Finds rules about folders that are gone, and folders without a rule.
TEST(Layering, TheRulesAreOfTheTree) {
  const fs::path root(testing::SourcePath(""));
  Folders rooms;
  for (const std::string layer :
       {"cuda", "db", "manager", "remote", "schema"}) {
    for (const auto& entry : fs::directory_iterator(root / layer)) {
      if (!entry.is_directory()) continue;
      rooms.push_back(entry.path().lexically_relative(root).string());
    }
  }
  std::sort(rooms.begin(), rooms.end());
  Folders ruled;
  for (const auto& [room, others] : Rooms()) ruled.push_back(room);
  std::sort(ruled.begin(), ruled.end());
  EXPECT_EQ(rooms, ruled);
  for (const auto& [layer, others] : Layers()) {
    EXPECT_TRUE(fs::is_directory(root / layer)) << layer;
  }
  for (const WordOfOneFile& of : WordsOfOneFile()) {
    EXPECT_TRUE(fs::exists(root / of.file)) << of.file;
  }
  for (const auto& [file, parts] : MeasuredParts()) {
    EXPECT_TRUE(fs::exists(root / file)) << file;
    for (const std::string& part : parts) {
      EXPECT_NE(RuleOf(part), nullptr) << part;
    }
  }
}

TEST(Layering, FoldersIncludeOnlyEarlierOnes) {
  Folders earlier;
  for (const auto& [room, others] : Rooms()) {
    for (const std::string& other : others) {
      EXPECT_TRUE(Has(earlier, other)) << room << " includes " << other;
    }
    earlier.push_back(room);
  }
}

// A file with a line, and what is wrong with it; empty if nothing is.
struct Planted {
  std::string file;
  std::string line;
  std::string wrong;
};

std::vector<Planted> PlantedLines() {
  const std::vector<std::pair<std::string, std::string>> allowed = {
      {"schema/ok.h", "schema/status.h"},
      {"schema/records/ok.h", "schema/bytes/keys.h"},
      {"db/base/ok.h", "schema/bytes/keys.h"},
      {"db/ok.cc", "rocksdb/db.h"},
      {"db/read/ok.cc", "db/meta/catalog.h"},
      {"manager/save/ok.cc", "db/base/parallel.h"},
      {"manager/core/ok.cc", "manager/checkpoint_manager.h"},
      {"manager/ok.h", "manager/internal/map_rows.h"},
      {"bench/ok.cc", "db/base/parallel.h"},
      {"tests/ok.cc", "rocksdb/db.h"}};
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"schema/b.h", "db/store.h"},
      {"schema/bytes/a.h", "schema/records/staged.h"},
      {"db/c.h", "schema/bytes/keys.h"},
      {"tools/c.cc", "schema/records/records.h"},
      {"db/a.cc", "manager/policy.h"},
      {"db/b.h", "db/base/parallel.h"},
      {"db/meta/a.cc", "db/read/run_cursor.h"},
      {"db/read/a.cc", "db/quirks/read_window.h"},
      {"manager/save/a.cc", "db/rocks/database.h"},
      {"manager/load/b.cc", "manager/config/json_text.h"},
      {"manager/save/b.cc", "manager/checkpoint_manager.h"},
      {"examples/one/c.cc", "manager/internal/map_rows.h"},
      {"tools/b.cc", "db/base/parallel.h"},
      {"examples/one/b.cc", "manager/core/history.h"},
      {"mpi/a.cc", "manager/ranks/messages.h"},
      {"bench/b.cc", "db/rocks/database.h"},
      {"manager/a.cc", "tools/command.h"}};
  std::vector<Planted> planted = {
      {"schema/a.cc", "#include <rocksdb/db.h>", "includes rocksdb/db.h"},
      {"tools/a.cc", "\n#include \"rocksdb/db.h\"", "includes rocksdb/db.h"},
      {"examples/one/a.cc", "#  include \"rocksdb/db.h\"",
       "includes rocksdb/db.h"},
      {"bench/scale_publish.cc",
       "#include \"db/stage/segments.h\"\n#include \"manager/save/snapshot.h\"",
       "includes manager/save/snapshot.h"},
      {"manager/core/warnings.cc", "std::fprintf(stderr, message);", ""},
      {"manager/load/a.cc", "std::fprintf(stderr, message);", "says (stderr"},
      {"db/read/b.cc", "std::cerr << message;", "says std::cerr"},
      {"schema/c.cc", "std::cout << message;", "says std::cout"},
      {"db/base/mutex.h", "std::mutex mutex_;", ""},
      {"db/store/a.h", "std::mutex mutex_;", "says std::mutex"},
      {"tools/ok.h", "std::mutex mutex_;", ""},
      {"tests/a.cc", std::string("x;  // TO") + "DO later",
       std::string("says TO") + "DO"},
      {"bench/a.cc", std::string("std::this_thread::sleep") + "_for(x);",
       std::string("says sleep") + "_for"}};
  for (const auto& [file, header] : allowed) {
    planted.push_back({file, absl::StrCat("#include \"", header, "\""), ""});
  }
  for (const auto& [file, header] : refused) {
    planted.push_back({file, absl::StrCat("#include \"", header, "\""),
                       absl::StrCat("includes ", header)});
  }
  return planted;
}

TEST(Layering, EachRuleFindsWhatBreaksIt) {
  const testing::TempDir dir;
  std::vector<std::string> expected;
  const std::vector<Planted> planted = PlantedLines();
  for (const Planted& each : planted) {
    const fs::path path = fs::path(dir.path()) / each.file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << each.line << "\n";
    if (each.wrong.empty()) continue;
    const auto before = std::count(each.line.begin(), each.line.end(), '\n');
    expected.push_back(
        absl::StrCat(each.file, ":", before + 1, " ", each.wrong));
  }
  std::sort(expected.begin(), expected.end());
  int files = 0;
  EXPECT_EQ(Violations(dir.path(), &files), expected);
  EXPECT_EQ(files, 40);
}

}  // namespace
}  // namespace ckptdb
