// SPDX-License-Identifier: Apache-2.0
// Finds the first step in which a property of a step's contents holds, by
// bisection of the steps that it was saved on top of.
#ifndef CKPTDB_TOOLS_ONSET_H_
#define CKPTDB_TOOLS_ONSET_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/reader.h"
#include "schema/types.h"

namespace ckptdb::tool {

// The step since which something holds. In the step before it does not, unless
// this is the oldest: then it may have begun in a step that no longer exists.
struct Onset {
  StepRecord step;
  bool oldest = false;
};

// Returns the steps that `step` was saved on top of, oldest first, and then
// itself. For a step that was saved without a parent, all steps of lower
// numbers.
std::vector<StepRecord> HistoryOf(const std::vector<StepRecord>& steps,
                                  const StepRecord& step);

// Returns which of these subjects, given by their numbers, have the property in
// a step.
using TestStep = absl::FunctionRef<absl::StatusOr<std::vector<size_t>>(
    const StepReader& step, const std::vector<size_t>& subjects)>;

// Finds the onset of each of the subjects 0 to `count` - 1, all of which have
// the property in the last step of `history`. Opens about the logarithm of the
// number of steps for each onset, and each step once for all subjects. What
// ended and began again in between may have an earlier onset. Skips steps that
// are removed meanwhile.
absl::StatusOr<std::vector<Onset>> FindOnsets(
    Reader* reader, const std::vector<StepRecord>& history, size_t count,
    TestStep test);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_ONSET_H_
