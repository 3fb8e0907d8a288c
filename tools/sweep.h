// SPDX-License-Identifier: Apache-2.0
// The sweep at the end of rm, gc and fold, and its output.
#ifndef CKPTDB_TOOLS_SWEEP_H_
#define CKPTDB_TOOLS_SWEEP_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/store.h"
#include "tools/command.h"
#include "tools/json.h"

namespace ckptdb::tool {

absl::StatusOr<Store::SweepResult> Sweep(const Context& context, Store* store);

// Prints "swept step 7 attempt 3" for each version, "freed 1.0 GiB of data
// files", the quarantined versions, and skipped entries. `inline_bytes` are the
// swept bytes that were stored inline, as far as known.
void PrintSwept(const Store::SweepResult& swept, uint64_t inline_bytes,
                std::ostream* out);

// Sets the sweep fields of docs/json.md: "swept_versions" to "unswept".
void SetSwept(const Store::SweepResult& swept, Json* json);

// Prints a line for each entry.
void PrintUnswept(const std::vector<Usage::SkippedEntry>& unswept,
                  std::ostream* out);
// Sets "unswept".
void SetUnswept(const std::vector<Usage::SkippedEntry>& unswept, Json* json);
// Returns FailedPrecondition with the number of entries that are the store's.
absl::Status UnsweptStatus(const std::string& store,
                           const std::vector<Usage::SkippedEntry>& unswept);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_SWEEP_H_
