// What rm and gc share: a sweep and what it did.
#ifndef CKPTDB_TOOLS_SWEEP_H_
#define CKPTDB_TOOLS_SWEEP_H_

#include "absl/status/statusor.h"
#include "ckptdb/db/store.h"
#include "ckptdb/tools/command.h"
#include "ckptdb/tools/json.h"

namespace ckptdb::tool {

absl::StatusOr<SweepResult> Sweep(const Context& context, Store* store);

// "swept step 7 attempt 3" for each version, "freed 1.0 GiB", and the
// quarantined versions.
void PrintSwept(const SweepResult& swept, std::ostream* out);

// Sets "swept", "freed_bytes" and "quarantined".
void SetSwept(const SweepResult& swept, Json* json);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_SWEEP_H_
