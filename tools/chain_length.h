// How long the chain of a step is, and whether it is too long.
#ifndef CKPTDB_TOOLS_CHAIN_LENGTH_H_
#define CKPTDB_TOOLS_CHAIN_LENGTH_H_

#include <cstdint>
#include <string>

#include "ckptdb/db/options.h"
#include "ckptdb/schema/records.h"
#include "ckptdb/tools/json.h"

namespace ckptdb::tool {

// Versions after the base.
uint64_t DeltasOf(const StepRecord& record);

// Stored bytes of delta runs relative to those of base runs; 0 without deltas.
double DeltaRatio(const StepRecord& record);

// Which of `bounds` the chain is over, by the rule of SaveResult::base_due;
// empty: none.
std::string BaseDue(const StepRecord& record, const ChainBounds& bounds);

// "2 deltas of 3.1 KiB over a base of 80.0 KiB"; "no deltas".
std::string ChainText(const StepRecord& record);

// Sets "deltas", "base_bytes", "delta_bytes", "delta_ratio".
void SetChainLength(const StepRecord& record, Json* json);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_CHAIN_LENGTH_H_
