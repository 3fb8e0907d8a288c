// SPDX-License-Identifier: Apache-2.0
// Measures a step's chain and checks whether it is too long.
#ifndef CKPTDB_TOOLS_CHAIN_LENGTH_H_
#define CKPTDB_TOOLS_CHAIN_LENGTH_H_

#include <cstdint>
#include <string>

#include "db/options.h"
#include "schema/types.h"
#include "tools/json.h"

namespace ckptdb::tool {

// Returns the number of versions after the base.
uint64_t DeltasOf(const StepRecord& record);

// Returns the stored bytes of delta runs divided by those of base runs, or 0 if
// there are no deltas.
double DeltaRatio(const StepRecord& record);

// Describes which of `bounds` the chain exceeds, by the same rule as
// SaveResult::base_due_reason. Empty if it exceeds none.
std::string BaseDue(const StepRecord& record,
                    const StoreOptions::ChainBounds& bounds);

// Returns "2 deltas of 3.1 KiB over a base of 80.0 KiB", or "no deltas".
std::string ChainText(const StepRecord& record);

// Sets the "chain length" fields of docs/json.md.
void SetChainLength(const StepRecord& record, Json* json);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_CHAIN_LENGTH_H_
