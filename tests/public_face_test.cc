// SPDX-License-Identifier: Apache-2.0
// The public face stays small: the lines of the installed headers, and the
// types that they declare. Headers in folders named `internal` are installed
// too, but are not for users and do not count. docs/design.md, "Public face".
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/source_folder.h"

namespace ckptdb {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;

constexpr size_t kMaxHeaders = 19;
constexpr size_t kMaxLines = 4010;
constexpr size_t kMaxTypes = 66;
constexpr size_t kMaxNestedTypes = 65;

std::string Read(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The headers directly in the folders of the layers: "db/store.h".
std::vector<std::string> PublicHeaders() {
  std::vector<std::string> headers;
  for (const std::string layer : {"db", "manager", "schema"}) {
    for (const auto& entry :
         fs::directory_iterator(fs::path(testing::SourcePath("")) / layer)) {
      if (entry.path().extension() != ".h") continue;
      headers.push_back(
          absl::StrCat(layer, "/", entry.path().filename().string()));
    }
  }
  std::sort(headers.begin(), headers.end());
  return headers;
}

// The types that a header defines, structs, classes, enums and aliases, in
// namespace ckptdb but not in namespaces within it. A declaration ahead does
// not count.
struct Types {
  std::set<std::string> top;
  std::vector<std::string> nested;  // with those of classes defined outside
};

// Relies on the format that clang-format gives: what is in no class begins in
// the first column.
Types TypesOf(const std::string& text) {
  static const std::regex kType(
      "^( *)(?:struct|class|enum class|enum|using) (?:ABSL_[A-Z_]+ )?"
      "([\\w:]+)(?: final)?(?: [:={].*| =.*|<.*)?$");
  Types types;
  std::istringstream lines(text);
  bool in_inner_namespace = false;
  for (std::string line; std::getline(lines, line);) {
    if (absl::StartsWith(line, "namespace ") && line != "namespace ckptdb {") {
      in_inner_namespace = true;
    }
    if (absl::StartsWith(line, "}  // namespace")) in_inner_namespace = false;
    std::smatch match;
    if (in_inner_namespace || !std::regex_match(line, match, kType)) continue;
    if (match[1].length() == 0 && !absl::StrContains(match[2].str(), "::")) {
      types.top.insert(match[2]);
    } else {
      types.nested.push_back(match[2]);
    }
  }
  return types;
}

TEST(PublicFace, TypesAreCounted) {
  const Types types = TypesOf(
      "namespace ckptdb {\n"
      "struct A {\n"
      "  struct Nested {\n"
      "    enum class Inner { kOne };\n"
      "  using Alias = std::vector<int>;\n"
      "  class Impl;\n"
      "};\n"
      "class Ahead;\n"
      "class B : public A {\n"
      "enum class C : uint8_t { kOne };\n"
      "using D = std::vector<int>;\n"
      "class A::Later : public A {\n"
      "namespace internal {\n"
      "struct Inner {\n"
      "}  // namespace internal\n"
      "template <typename T>\n"
      "class E {\n");
  EXPECT_THAT(types.top, ElementsAre("A", "B", "C", "D", "E"));
  EXPECT_THAT(types.nested,
              ElementsAre("Nested", "Inner", "Alias", "A::Later"));
}

TEST(PublicFace, StaysSmall) {
  const std::vector<std::string> headers = PublicHeaders();
  EXPECT_LE(headers.size(), kMaxHeaders) << ::testing::PrintToString(headers);
  std::set<std::string> types;
  std::vector<std::string> nested;
  size_t lines = 0;
  for (const std::string& header : headers) {
    const std::string text = Read(fs::path(testing::SourcePath("")) / header);
    const Types more = TypesOf(text);
    types.insert(more.top.begin(), more.top.end());
    nested.insert(nested.end(), more.nested.begin(), more.nested.end());
    lines += std::count(text.begin(), text.end(), '\n');
  }
  EXPECT_THAT(types, IsSupersetOf({"Store", "Reader", "CheckpointManager"}));
  EXPECT_LE(lines, kMaxLines);
  EXPECT_LE(types.size(), kMaxTypes) << ::testing::PrintToString(types);
  EXPECT_LE(nested.size(), kMaxNestedTypes) << ::testing::PrintToString(nested);
}

// Text without white space and comments, so that it may be wrapped otherwise.
std::string Condensed(const std::string& text) {
  std::string code;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    code += line.substr(0, line.find("//"));
  }
  code.erase(std::remove_if(code.begin(), code.end(), absl::ascii_isspace),
             code.end());
  return code;
}

// The samples in the comments of a header: lines that are indented by three
// spaces, after an empty line of the comment. "..." on a line of its own stands
// for code that is left out, and parts a sample.
std::vector<std::string> SamplesOf(const std::string& text) {
  std::vector<std::string> samples(1);
  std::istringstream lines(text);
  bool was_empty = false;
  for (std::string line; std::getline(lines, line);) {
    absl::string_view rest = absl::StripAsciiWhitespace(line);
    const bool comment = absl::ConsumePrefix(&rest, "//");
    const bool empty = comment && rest.empty();
    const bool indented = absl::ConsumePrefix(&rest, "   ");
    if (comment && indented && (was_empty || !samples.back().empty()) &&
        !absl::StartsWith(rest, "...") && !absl::StartsWith(rest, "#")) {
      absl::StrAppend(&samples.back(), rest, "\n");
    } else if (!empty && !samples.back().empty()) {
      samples.emplace_back();
    }
    was_empty = empty || (comment && indented && absl::StartsWith(rest, "..."));
  }
  // Tables of text are indented as well.
  samples.erase(std::remove_if(samples.begin(), samples.end(),
                               [](const std::string& sample) {
                                 return !absl::StrContains(sample, ";");
                               }),
                samples.end());
  return samples;
}

TEST(PublicFace, SamplesAreFound) {
  EXPECT_THAT(SamplesOf("// A thing.\n"
                        "//\n"
                        "//   Make();  // now\n"
                        "//   ...\n"
                        "//   Take();\n"
                        "//\n"
                        "//   Keep();\n"
                        "//\n"
                        "// 1. A list,\n"
                        "//    of lines;\n"
                        "//\n"
                        "//   a text\n"),
              ElementsAre("Make();  // now\n", "Take();\nKeep();\n"));
}

// Each sample is in a test that runs it, or in tests/header_samples.cc, in a
// function that is only compiled.
TEST(PublicFace, SamplesAreCompiled) {
  const fs::path root(testing::SourcePath(""));
  std::string compiled;
  for (const char* file :
       {"header_samples.cc", "db/store/header_examples_test.cc",
        "manager/core/manager_header_examples_test.cc",
        "manager/ranks/message_coordinator_test.cc",
        "manager/state/column_table_test.cc",
        "manager/state/map_table_test.cc"}) {
    compiled += Condensed(Read(root / "tests" / file));
  }
  size_t found = 0;
  for (const std::string& header : PublicHeaders()) {
    for (const std::string& sample : SamplesOf(Read(root / header))) {
      ++found;
      EXPECT_TRUE(absl::StrContains(compiled, Condensed(sample)))
          << header << ": " << sample << "is in none of the files above";
    }
  }
  EXPECT_GE(found, 30);
}

TEST(PublicFace, OneHeaderIncludesAllOthers) {
  const std::string all =
      Read(fs::path(testing::SourcePath("")) / "manager" / "ckptdb.h");
  for (const std::string& header : PublicHeaders()) {
    if (header == "manager/ckptdb.h") continue;
    EXPECT_TRUE(absl::StrContains(all, absl::StrCat("#include \"", header)))
        << header;
  }
}

TEST(PublicFace, PublicHeadersAreInstalledWithTheInternalOnesTheyInclude) {
  const std::string install = Read(fs::path(testing::SourcePath("")) / "cmake" /
                                   "ckptdb_install.cmake");
  static const std::regex kInternal("#include \"(\\w+/internal/\\w+.h)");
  for (const std::string& header : PublicHeaders()) {
    EXPECT_TRUE(absl::StrContains(install, header)) << header;
    const std::string text = Read(fs::path(testing::SourcePath("")) / header);
    for (std::sregex_iterator i(text.begin(), text.end(), kInternal), end;
         i != end; ++i) {
      EXPECT_TRUE(absl::StrContains(install, (*i)[1].str())) << header;
    }
  }
}

// The headers directly in a folder beside the layers: "mpi_coordinator.h".
std::vector<std::string> HeadersOf(const char* folder) {
  std::vector<std::string> headers;
  for (const auto& entry :
       fs::directory_iterator(fs::path(testing::SourcePath("")) / folder)) {
    if (entry.path().extension() != ".h") continue;
    headers.push_back(entry.path().filename().string());
  }
  std::sort(headers.begin(), headers.end());
  return headers;
}

// A user needs no header of CUDA for them.
TEST(PublicFace, TheHeadersOfTheLibraryForGpuMemoryAreInstalled) {
  const fs::path root(testing::SourcePath(""));
  const std::string install = Read(root / "cmake" / "ckptdb_install.cmake");
  EXPECT_FALSE(HeadersOf("cuda").empty());
  for (const std::string& header : HeadersOf("cuda")) {
    EXPECT_TRUE(absl::StrContains(install, absl::StrCat("cuda/", header)))
        << header;
    EXPECT_FALSE(
        absl::StrContains(Read(root / "cuda" / header), "#include <cuda"))
        << header;
  }
  for (const std::string& header : PublicHeaders()) {
    EXPECT_FALSE(absl::StrContains(Read(root / header), "\"cuda/")) << header;
  }
}

// The library over MPI has one header, which the others do not include.
TEST(PublicFace, TheLibraryOverMpiHasOneHeader) {
  EXPECT_THAT(HeadersOf("mpi"), ElementsAre("mpi_coordinator.h"));
  for (const std::string& header : PublicHeaders()) {
    const std::string text = Read(fs::path(testing::SourcePath("")) / header);
    EXPECT_FALSE(absl::StrContains(text, "#include <mpi.h>")) << header;
  }
}

}  // namespace
}  // namespace ckptdb
