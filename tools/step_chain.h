// The versions that a step is put together from.
#ifndef CKPTDB_TOOLS_STEP_CHAIN_H_
#define CKPTDB_TOOLS_STEP_CHAIN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ckptdb/db/reader.h"
#include "ckptdb/db/step_reader.h"
#include "ckptdb/schema/records.h"
#include "ckptdb/tools/step_totals.h"

namespace ckptdb::tool {

struct ChainLink {
  Version version;
  // Of its own; otherwise it is kept for others only.
  bool is_step = false;
  std::optional<StepRecord> record;  // where it can be had
  std::vector<RankRecord> ranks;     // of a step only

  // Of its tables.
  std::optional<Totals> tables() const;
};

struct StepChain {
  std::vector<ChainLink> links;  // base first, the step itself last
  // The version that a folded step was folded from; its record is missing when
  // it is gone.
  std::optional<ChainLink> increment;
};

// `reader` is what opened the step.
StepChain LoadChain(Reader* reader, const StepReader& step);

// Where the rows of a table begin.
struct TableStart {
  std::string table;
  Version base;
  // Otherwise it may be before `base`, which is kept for others only.
  bool base_known = false;
  // Why it was saved whole although the changes were given, where that is
  // known; empty: they were not given.
  std::optional<std::string> base_reason;
  // Runs after `base`.
  uint64_t deltas = 0;
};

// Of each table of the step, by name.
std::vector<TableStart> TableStarts(const StepChain& chain);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_STEP_CHAIN_H_
