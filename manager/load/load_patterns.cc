// SPDX-License-Identifier: Apache-2.0
#include "manager/load/load_patterns.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/base/nearest_name.h"
#include "manager/state/categories.h"
#include "manager/state/registered_state.h"

namespace ckptdb::internal {
namespace {

std::vector<std::string> RegisteredNames(const ModelState& model) {
  std::vector<std::string> names;
  for (const auto& tensor : model.tensors()) names.push_back(tensor.name);
  for (const auto& table : model.tables()) names.push_back(table.name);
  for (const auto& extra : model.extras()) names.push_back(extra.name);
  for (const auto& io : model.io_states()) names.push_back(io.name);
  return names;
}

std::vector<std::string> SlotNames(const TableState& table) {
  std::vector<std::string> names;
  for (const Slot& slot : table.slots()) names.push_back(slot.name);
  return names;
}

// Returns the keys of `oname` to check against registered names. Keys below an
// object are left to the object, whose parts are not registered.
std::map<std::string, std::string> KeysOfItems(
    const std::map<std::string, std::string>& oname, const ModelState& model) {
  std::map<std::string, std::string> keys = oname;
  for (const auto& extra : model.extras()) {
    const std::string below = extra.name + ".";
    const auto begin = keys.lower_bound(below);
    auto end = begin;
    while (end != keys.end() && absl::StartsWith(end->first, below)) ++end;
    keys.erase(begin, end);
  }
  return keys;
}

// Returns the names, and their parts before each ".".
std::vector<std::string> NamesAndParts(const std::vector<std::string>& names) {
  std::set<std::string> all;
  for (const std::string& name : names) {
    for (size_t end = name.size(); end != std::string::npos && end > 0;
         end = name.rfind('.', end - 1)) {
      all.insert(name.substr(0, end));
    }
  }
  return {all.begin(), all.end()};
}

// Collects patterns and keys that match nothing.
class Unmatched {
 public:
  explicit Unmatched(const ModelState& model)
      : names_(RegisteredNames(model)), meant_(names_) {
    meant_.insert(meant_.end(), std::begin(kCategories), std::end(kCategories));
  }

  void AddPatterns(const char* kind, const std::vector<std::string>& patterns) {
    for (const std::string& pattern : patterns) {
      const bool matches = pattern == "*" || IsCategory(pattern) ||
                           std::any_of(names_.begin(), names_.end(),
                                       [&](const std::string& name) {
                                         return GlobMatches(pattern, name);
                                       });
      if (!matches) Add(kind, pattern, meant_);
    }
  }
  template <typename Value>
  void AddKeys(const std::string& kind,
               const std::map<std::string, Value>& keys,
               const std::vector<std::string>& names) {
    for (const auto& [key, value] : keys) {
      const bool known =
          std::find(names.begin(), names.end(), key) != names.end();
      if (!known) Add(kind, key, names);
    }
  }
  const std::vector<std::string>& names() const { return names_; }
  std::vector<UnmatchedPattern> Take() { return std::move(unmatched_); }

 private:
  void Add(const std::string& kind, const std::string& pattern,
           const std::vector<std::string>& names) {
    const std::string nearest =
        names.empty() ? "" : std::string(Nearest(pattern, names));
    unmatched_.push_back({pattern, nearest, kind});
  }

  const std::vector<std::string> names_;
  std::vector<std::string> meant_;  // names and categories
  std::vector<UnmatchedPattern> unmatched_;
};

}  // namespace

// Backtracks only to the last star, because an earlier star could match nothing
// that the last one cannot. So the time is at most pattern length x name
// length.
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

std::vector<UnmatchedPattern> FindUnmatched(const LoadRule& rule,
                                            const ModelState& model) {
  Unmatched unmatched(model);
  unmatched.AddPatterns(kLoadPattern, rule.load);
  unmatched.AddPatterns("exclude pattern", rule.exclude);
  unmatched.AddKeys("oname key", KeysOfItems(rule.oname, model),
                    NamesAndParts(unmatched.names()));
  std::vector<std::string> tables;
  for (const RegisteredTable& table : model.tables()) {
    tables.push_back(table.name);
    const auto evolution = rule.tables.find(table.name);
    if (evolution == rule.tables.end()) continue;
    const std::string kind = absl::StrCat("slot of table \"", table.name, "\"");
    const std::vector<std::string> slots = SlotNames(*table.state);
    unmatched.AddKeys(kind, evolution->second.oname, slots);
    unmatched.AddKeys(kind, evolution->second.fill, slots);
    unmatched.AddKeys(kind, evolution->second.fill_with, slots);
    unmatched.AddKeys(kind, evolution->second.convert, slots);
  }
  unmatched.AddKeys("tables key", rule.tables, tables);
  return unmatched.Take();
}

std::string UnmatchedText(const UnmatchedPattern& pattern) {
  const std::string meant =
      pattern.nearest.empty()
          ? ""
          : absl::StrCat("; did you mean \"", pattern.nearest, "\"?");
  return absl::StrCat(pattern.kind, " \"", pattern.pattern,
                      "\" matches nothing registered", meant);
}

}  // namespace ckptdb::internal
