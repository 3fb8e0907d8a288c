// The patterns of a load rule, which choose what it loads: names with
// wildcards, and categories; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_LOAD_PATTERNS_H_
#define CKPTDB_MANAGER_LOAD_LOAD_PATTERNS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ckptdb/manager/load/loaded_items.h"
#include "ckptdb/manager/load_rule.h"
#include "ckptdb/manager/model_state.h"

namespace ckptdb::internal {

// Returns whether `name` matches the pattern, in which "*" stands for any
// characters and "?" for any one.
bool GlobMatches(absl::string_view pattern, absl::string_view name);

// Returns whether a pattern is the name of the category, or matches the name.
bool Matches(const std::vector<std::string>& patterns,
             absl::string_view category, absl::string_view name);

// UnmatchedPattern::kind of patterns that LoadRule::strict is about.
inline constexpr char kLoadPattern[] = "load pattern";

// Returns the patterns and keys that match nothing that is registered. A
// category never is one of them: a model may have nothing of it.
std::vector<UnmatchedPattern> FindUnmatched(const LoadRule& rule,
                                            const ModelState& model);

// Returns `load pattern "usr" matches nothing that is registered; did you mean
// "user"?`.
std::string UnmatchedText(const UnmatchedPattern& pattern);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_LOAD_PATTERNS_H_
