// Which steps need what an older version holds: why it stays although it is no
// step any more.
#ifndef CKPTDB_TOOLS_NEEDS_H_
#define CKPTDB_TOOLS_NEEDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "ckptdb/schema/records.h"
#include "ckptdb/tools/json.h"

namespace ckptdb::tool {

// Steps, in order.
struct Needs {
  std::vector<int64_t> runs_of;       // it is in their chains
  std::vector<int64_t> tensors_of;    // they refer to its tensors or blobs
  std::vector<int64_t> increment_of;  // they were folded from it

  bool none() const {
    return runs_of.empty() && tensors_of.empty() && increment_of.empty();
  }
};

// Of `version` by `steps`, itself aside.
Needs NeedsOf(const Version& version, absl::Span<const StepRecord> steps);

// "step 7", "steps 7, 8, 9 and 47 more"
std::string StepsText(const std::vector<int64_t>& steps);

// "runs of steps 300, 400; tensors of step 400"; "-" for none.
std::string NeedsText(const Needs& needs);

// Sets "runs_of", "tensors_of" and "increment_of".
void SetNeeds(const Needs& needs, Json* json);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_NEEDS_H_
