// SPDX-License-Identifier: Apache-2.0
// The patterns of a load rule, which select items to load: names with
// wildcards, and categories; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_LOAD_PATTERNS_H_
#define CKPTDB_MANAGER_LOAD_LOAD_PATTERNS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "manager/load/loaded_items.h"
#include "manager/load_rule.h"
#include "manager/model_state.h"

namespace ckptdb::internal {

// Returns whether `name` matches the pattern, in which "*" matches any
// characters and "?" any single one.
bool GlobMatches(absl::string_view pattern, absl::string_view name);

// Returns whether any pattern is the name of the category, or matches the name.
bool Matches(const std::vector<std::string>& patterns,
             absl::string_view category, absl::string_view name);

// UnmatchedPattern::kind of the patterns that LoadRule::strict applies to.
inline constexpr char kLoadPattern[] = "load pattern";

// A pattern or key of a rule that matches nothing registered.
struct UnmatchedPattern {
  std::string pattern;
  std::string nearest;  // a similar name or category
  // "load pattern", "exclude pattern", "oname key", "tables key", or "slot of
  // table \"user\"".
  std::string kind = "load pattern";
};

// Returns the patterns and keys that match nothing registered. A category
// always matches: a model may have no such items.
std::vector<UnmatchedPattern> FindUnmatched(const LoadRule& rule,
                                            const ModelState& model);

// Returns `load pattern "usr" matches nothing registered; did you mean
// "user"?`.
std::string UnmatchedText(const UnmatchedPattern& pattern);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_LOAD_PATTERNS_H_
