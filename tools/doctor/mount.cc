// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/mount.h"

#include <cstdlib>
#include <fstream>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ckptdb::tool {
namespace {

bool IsBelow(const std::string& path, const std::string& folder) {
  return folder == "/" || path == folder ||
         absl::StartsWith(path, absl::StrCat(folder, "/"));
}

// Spaces are written as "\\040" there.
std::string Unescape(const std::string& text) {
  std::string plain;
  return absl::CUnescape(text, &plain) ? plain : text;
}

}  // namespace

// A line has the form "36 35 98:0 /root /mount options shared:1 - type source
// options".
Mount FindMount(const std::string& path, std::istream* table) {
  Mount found;
  size_t longest = 0;
  std::string line;
  while (std::getline(*table, line)) {
    const std::vector<std::string> halves = absl::StrSplit(line, " - ");
    if (halves.size() < 2) continue;
    const std::vector<std::string> left = absl::StrSplit(halves[0], ' ');
    const std::vector<std::string> right = absl::StrSplit(halves[1], ' ');
    constexpr size_t kFolder = 4;
    if (left.size() <= kFolder || right.size() < 2) continue;
    // A later mount hides an earlier one at the same place.
    const std::string folder = Unescape(left[kFolder]);
    if (folder.size() < longest || !IsBelow(path, folder)) continue;
    longest = folder.size();
    found = {right[0], Unescape(right[1])};
  }
  return found;
}

Mount MountOf(const std::string& folder) {
  char* const path = ::realpath(folder.c_str(), nullptr);
  // If the folder does not exist, leaves the fields empty; creating the private
  // folder in it then reports why.
  if (path == nullptr) return {};
  std::ifstream table("/proc/self/mountinfo");
  Mount mount = FindMount(path, &table);
  std::free(path);
  return mount;
}

}  // namespace ckptdb::tool
