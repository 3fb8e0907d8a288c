// The patterns of a load rule, which choose what it loads: names with
// wildcards, and categories; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_LOAD_PATTERNS_H_
#define CKPTDB_MANAGER_LOAD_LOAD_PATTERNS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/manager/model_state.h"

namespace ckptdb::internal {

// The categories of what a model has registered.
inline constexpr char kSparse[] = "sparse";
inline constexpr char kSparseOpt[] = "sparse_opt";
inline constexpr char kDense[] = "dense";
inline constexpr char kExtra[] = "extra";
inline constexpr char kIoState[] = "io_state";

// Returns whether `name` matches the pattern, in which "*" stands for any
// characters and "?" for any one.
bool GlobMatches(absl::string_view pattern, absl::string_view name);

// Returns whether a pattern is the name of the category, or matches the name.
bool Matches(const std::vector<std::string>& patterns,
             absl::string_view category, absl::string_view name);

// Returns the patterns that match nothing that is registered. A category never
// is one of them: a model may have nothing of it.
std::vector<CheckpointManager::UnmatchedPattern> FindUnmatched(
    const LoadRule& rule, const ModelState& model);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_LOAD_PATTERNS_H_
