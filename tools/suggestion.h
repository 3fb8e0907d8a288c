// SPDX-License-Identifier: Apache-2.0
// Suggests the name that a misspelt one was probably meant to be.
#ifndef CKPTDB_TOOLS_SUGGESTION_H_
#define CKPTDB_TOOLS_SUGGESTION_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/reader.h"

namespace ckptdb::tool {

// Returns `; did you mean "user"?`, or "" if no name is similar.
std::string DidYouMean(absl::string_view name,
                       const std::vector<std::string>& names);

// Returns the names of the step's items of this kind, each once, in order.
std::vector<std::string> ItemNames(const StepReader& step, Item::Kind kind);

// Returns the names of all items, each once, by kind.
std::vector<std::string> ItemNames(const StepReader& step);

// Returns the error for a pattern that no item's name matches, with a similar
// name.
absl::Status NoMatchError(const StepReader& step, const std::string& glob);

// Returns NoMatchError if no item's name matches the pattern, so that a
// misspelt name is not mistaken for an item without findings. An empty pattern
// matches all items.
absl::Status CheckMatchesAny(const StepReader& step, const std::string& glob);

// StepReader::FindTable, whose NotFound suggests a similar table. Returns
// InvalidArgument for the name of a tensor or blob.
absl::StatusOr<StepReader::TableSpec> FindTable(const StepReader& step,
                                                const std::string& name);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_SUGGESTION_H_
