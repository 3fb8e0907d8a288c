// SPDX-License-Identifier: Apache-2.0
// Polls ReadOptions::cancelled; internal to db/ and manager/.
#ifndef CKPTDB_DB_BASE_CANCELLED_H_
#define CKPTDB_DB_BASE_CANCELLED_H_

#include <functional>

#include "absl/status/status.h"

namespace ckptdb::internal {

// Returns Cancelled if `cancelled` is set and returns true, and Internal if it
// throws.
absl::Status CheckCancelled(const std::function<bool()>& cancelled);

// Returns a function for ParallelFor that calls CheckCancelled; empty if
// `cancelled`, which must outlive it, is.
std::function<absl::Status()> PollOf(const std::function<bool()>& cancelled);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_CANCELLED_H_
