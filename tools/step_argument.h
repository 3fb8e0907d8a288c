// SPDX-License-Identifier: Apache-2.0
// A step on the command line: a number, or "latest".
#ifndef CKPTDB_TOOLS_STEP_ARGUMENT_H_
#define CKPTDB_TOOLS_STEP_ARGUMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schema/status.h"
#include "schema/types.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}  // namespace CLI

namespace ckptdb::tool {

// These arguments are validated when the command line is parsed, so that an
// invalid step is a usage error.
void AddStep(CLI::App* app, std::string* step);
void AddNamedStep(CLI::App* app, const std::string& name, std::string* step);
void AddOptionalStep(CLI::App* app, std::string* step);
void AddStepOption(CLI::App* app, std::string* step);           // --step
void AddFromOption(CLI::App* app, std::string* step);           // --from
void AddSteps(CLI::App* app, std::vector<std::string>* steps);  // at least one

// Returns InvalidArgument unless `text` is "latest" or a step: 0 to 2^63 - 1.
absl::Status CheckStepText(const std::string& text);

// Returns the number in a validated text other than "latest".
int64_t StepNumber(const std::string& text);

inline constexpr absl::string_view kLatest = "latest";

// Returns the record of a step of a Store or a Reader, or NotFound.
template <typename StoreOrReader>
absl::StatusOr<StepRecord> ResolveStep(const StoreOrReader& store,
                                       const std::string& text) {
  if (text == kLatest) return store.Latest();
  return store.FindStep(StepNumber(text));
}

// Returns each step once, in the order of first mention, or an error if any of
// them does not exist.
template <typename StoreOrReader>
absl::StatusOr<std::vector<StepRecord>> ResolveSteps(
    const StoreOrReader& store, const std::vector<std::string>& texts) {
  std::vector<StepRecord> records;
  for (const std::string& text : texts) {
    CKPTDB_ASSIGN_OR_RETURN(StepRecord record, ResolveStep(store, text));
    bool is_new = true;
    for (const StepRecord& other : records) {
      is_new = is_new && other.version != record.version;
    }
    if (is_new) records.push_back(std::move(record));
  }
  return records;
}

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_STEP_ARGUMENT_H_
