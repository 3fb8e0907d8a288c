// SPDX-License-Identifier: Apache-2.0
// Finds the steps that need the data of a removed step's version.
#ifndef CKPTDB_TOOLS_NEEDS_H_
#define CKPTDB_TOOLS_NEEDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "schema/types.h"
#include "tools/json.h"

namespace ckptdb::tool {

// The steps that need a version, in order.
struct Needs {
  std::vector<int64_t> in_chain_of;    // their chains contain it
  std::vector<int64_t> referenced_by;  // they use its tensors or blobs
  std::vector<int64_t> folded_into;    // they were folded from it

  bool none() const {
    return in_chain_of.empty() && referenced_by.empty() && folded_into.empty();
  }
};

// Returns which of `steps` need `version`, other than the version's own step.
Needs NeedsOf(const Version& version, absl::Span<const StepRecord> steps);

// Returns "step 7", "steps 7, 8, 9 and 47 more".
std::string StepsText(const std::vector<int64_t>& steps);

// Returns "runs of steps 300, 400; tensors of step 400", or "-" if none do.
std::string NeedsText(const Needs& needs);

// Sets "in_chain_of", "referenced_by" and "folded_into".
void SetNeeds(const Needs& needs, Json* json);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_NEEDS_H_
