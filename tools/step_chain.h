// SPDX-License-Identifier: Apache-2.0
// Loads the versions from which a step is restored.
#ifndef CKPTDB_TOOLS_STEP_CHAIN_H_
#define CKPTDB_TOOLS_STEP_CHAIN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "db/reader.h"
#include "schema/types.h"
#include "tools/step_totals.h"

namespace ckptdb::tool {

struct ChainLink {
  Version version;
  // False if the version is only kept for other steps.
  bool is_step = false;
  std::optional<StepRecord> record;     // unless it was removed
  std::vector<StepRecord::Rank> ranks;  // if it is a step

  // Returns the totals of its tables, if it is a step.
  std::optional<Totals> tables() const;
};

struct StepChain {
  std::vector<ChainLink> links;  // from the base to the step itself
  // The version from which a folded step was folded. Without a record if it was
  // removed.
  std::optional<ChainLink> increment;
};

// `reader` must be the one that opened the step.
StepChain LoadChain(Reader* reader, const StepReader& step);

// The version where the rows of a table begin.
struct TableStart {
  std::string table;
  Version base;
  // If false, the base may be before `base`, which is only kept for other
  // steps.
  bool base_known = false;
  // Why the table was saved in full although changed rows were given, if known;
  // empty if none were given.
  std::optional<std::string> base_reason;
  // Number of runs after `base`.
  uint64_t deltas = 0;
};

// Returns the start of each table of the step, by name.
std::vector<TableStart> TableStarts(const StepChain& chain);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_STEP_CHAIN_H_
