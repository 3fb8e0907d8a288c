#include "ckptdb/manager/load/load_patterns.h"

#include <algorithm>
#include <iterator>

#include "ckptdb/manager/config/json_reader.h"

namespace ckptdb::internal {
namespace {

constexpr const char* kCategories[] = {kSparse, kSparseOpt, kDense, kExtra,
                                       kIoState};

bool IsCategory(absl::string_view pattern) {
  for (const char* each : kCategories) {
    if (pattern == each) return true;
  }
  return false;
}

std::vector<std::string> RegisteredNames(const ModelState& model) {
  std::vector<std::string> names;
  for (const auto& tensor : model.tensors()) names.push_back(tensor.name);
  for (const auto& table : model.tables()) names.push_back(table.name);
  for (const auto& extra : model.extras()) names.push_back(extra.name);
  for (const auto& io : model.io_states()) names.push_back(io.name);
  return names;
}

}  // namespace

// Goes back to the last star alone, as an earlier one could only take what that
// one takes as well. So it takes no longer than pattern times name.
bool GlobMatches(absl::string_view pattern, absl::string_view name) {
  // The position to resume at when "*" must stand for one more character.
  size_t star = absl::string_view::npos;
  size_t star_name = 0;
  size_t p = 0;
  size_t n = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_name = n;
    } else if (p < pattern.size() &&
               (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      n = ++star_name;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool Matches(const std::vector<std::string>& patterns,
             absl::string_view category, absl::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) {
                       return IsCategory(pattern) ? pattern == category
                                                  : GlobMatches(pattern, name);
                     });
}

std::vector<CheckpointManager::UnmatchedPattern> FindUnmatched(
    const LoadRule& rule, const ModelState& model) {
  const std::vector<std::string> names = RegisteredNames(model);
  std::vector<std::string> meant = names;
  meant.insert(meant.end(), std::begin(kCategories), std::end(kCategories));
  std::vector<CheckpointManager::UnmatchedPattern> unmatched;
  for (const std::string& pattern : rule.load) {
    const bool matches =
        pattern == "*" || IsCategory(pattern) ||
        std::any_of(names.begin(), names.end(), [&](const std::string& name) {
          return GlobMatches(pattern, name);
        });
    if (matches) continue;
    unmatched.push_back({pattern, std::string(Nearest(pattern, meant))});
  }
  return unmatched;
}

}  // namespace ckptdb::internal
