// Loads the versions that a step is restored from.
#ifndef CKPTDB_TOOLS_STEP_CHAIN_H_
#define CKPTDB_TOOLS_STEP_CHAIN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ckptdb/db/reader.h"
#include "ckptdb/schema/types.h"
#include "ckptdb/tools/step_totals.h"

namespace ckptdb::tool {

struct ChainLink {
  Version version;
  // False when the version is kept for other steps only.
  bool is_step = false;
  std::optional<StepRecord> record;     // unless it is gone
  std::vector<StepRecord::Rank> ranks;  // if it is a step

  // Returns the totals of its tables, if it is a step.
  std::optional<Totals> tables() const;
};

struct StepChain {
  std::vector<ChainLink> links;  // base first, the step itself last
  // The version that a folded step was folded from; its record is missing when
  // it is gone.
  std::optional<ChainLink> increment;
};

// `reader` is the one that opened the step.
StepChain LoadChain(Reader* reader, const StepReader& step);

// The version where the rows of a table begin.
struct TableStart {
  std::string table;
  Version base;
  // When false, it may be before `base`, which is kept for other steps only.
  bool base_known = false;
  // Reason why it was saved whole although changes were given, if it is known;
  // empty when none were given.
  std::optional<std::string> base_reason;
  // Number of runs after `base`.
  uint64_t deltas = 0;
};

// Returns the start of each table of the step, by name.
std::vector<TableStart> TableStarts(const StepChain& chain);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_STEP_CHAIN_H_
