// The public face stays small: how many headers are installed, and how many
// types they declare. docs/design.md, "Public face".
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckptdb {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;

constexpr size_t kMaxHeaders = 17;
constexpr size_t kMaxTypes = 63;

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
         fs::directory_iterator(fs::path(CKPTDB_SOURCE) / layer)) {
      if (entry.path().extension() != ".h") continue;
      headers.push_back(
          absl::StrCat(layer, "/", entry.path().filename().string()));
    }
  }
  std::sort(headers.begin(), headers.end());
  return headers;
}

// The types that a header declares in namespace ckptdb, nested ones and those
// of namespaces within it left out. Relies on the format that clang-format
// gives: what is in no class begins in the first column.
std::set<std::string> TypesOf(const std::string& text) {
  static const std::regex kType(
      "^(?:struct|class|enum class|using) (?:ABSL_[A-Z_]+ )?(\\w+)(?: final)?"
      "(?: [:={].*| =.*|<.*)?$");
  std::set<std::string> types;
  std::istringstream lines(text);
  bool in_inner_namespace = false;
  for (std::string line; std::getline(lines, line);) {
    if (absl::StartsWith(line, "namespace ") && line != "namespace ckptdb {") {
      in_inner_namespace = true;
    }
    if (absl::StartsWith(line, "}  // namespace")) in_inner_namespace = false;
    std::smatch match;
    if (!in_inner_namespace && std::regex_match(line, match, kType)) {
      types.insert(match[1]);
    }
  }
  return types;
}

TEST(PublicFace, TypesAreCounted) {
  EXPECT_THAT(TypesOf("namespace ckptdb {\n"
                      "struct A {\n"
                      "  struct Nested {\n"
                      "};\n"
                      "class Ahead;\n"
                      "class B : public A {\n"
                      "enum class C : uint8_t { kOne };\n"
                      "using D = std::vector<int>;\n"
                      "namespace internal {\n"
                      "struct Inner {\n"
                      "}  // namespace internal\n"
                      "template <typename T>\n"
                      "class E {\n"),
              ElementsAre("A", "B", "C", "D", "E"));
}

TEST(PublicFace, HasFewHeadersAndTypes) {
  const std::vector<std::string> headers = PublicHeaders();
  EXPECT_LE(headers.size(), kMaxHeaders) << ::testing::PrintToString(headers);
  std::set<std::string> types;
  for (const std::string& header : headers) {
    const std::set<std::string> more =
        TypesOf(Read(fs::path(CKPTDB_SOURCE) / header));
    types.insert(more.begin(), more.end());
  }
  EXPECT_THAT(types, IsSupersetOf({"Store", "Reader", "CheckpointManager"}));
  EXPECT_LE(types.size(), kMaxTypes) << ::testing::PrintToString(types);
}

TEST(PublicFace, OneHeaderIncludesAllOthers) {
  const std::string all =
      Read(fs::path(CKPTDB_SOURCE) / "manager" / "ckptdb.h");
  for (const std::string& header : PublicHeaders()) {
    if (header == "manager/ckptdb.h") continue;
    EXPECT_TRUE(
        absl::StrContains(all, absl::StrCat("#include \"ckptdb/", header)))
        << header;
  }
}

TEST(PublicFace, WhatIsInstalledIsPublic) {
  const std::string install =
      Read(fs::path(CKPTDB_SOURCE) / "cmake" / "ckptdb_install.cmake");
  for (const std::string& header : PublicHeaders()) {
    EXPECT_TRUE(absl::StrContains(install, header)) << header;
  }
}

// The headers directly in a folder beside the layers: "mpi_coordinator.h".
std::vector<std::string> HeadersOf(const char* folder) {
  std::vector<std::string> headers;
  for (const auto& entry :
       fs::directory_iterator(fs::path(CKPTDB_SOURCE) / folder)) {
    if (entry.path().extension() != ".h") continue;
    headers.push_back(entry.path().filename().string());
  }
  std::sort(headers.begin(), headers.end());
  return headers;
}

// A user needs no header of CUDA for them.
TEST(PublicFace, TheHeadersOfTheLibraryForGpuMemoryAreInstalled) {
  const fs::path root(CKPTDB_SOURCE);
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
    EXPECT_FALSE(absl::StrContains(Read(root / header), "ckptdb/cuda/\""))
        << header;
  }
}

// The library over MPI has one header, which the others do not include.
TEST(PublicFace, TheLibraryOverMpiHasOneHeader) {
  EXPECT_THAT(HeadersOf("mpi"), ElementsAre("mpi_coordinator.h"));
  for (const std::string& header : PublicHeaders()) {
    const std::string text = Read(fs::path(CKPTDB_SOURCE) / header);
    EXPECT_FALSE(absl::StrContains(text, "#include <mpi.h>")) << header;
  }
}

}  // namespace
}  // namespace ckptdb
