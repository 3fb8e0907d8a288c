// SPDX-License-Identifier: Apache-2.0
// Checks of options and shardings, and staging as a manager does it.
#ifndef CKPTDB_DB_BASE_STAGING_H_
#define CKPTDB_DB_BASE_STAGING_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/options.h"
#include "db/state.h"

namespace ckptdb::internal {

// The choices that errors about a table without a declared sharding list.
inline constexpr char kShardingChoices[] =
    "TableSharding::BySlices(), ByModulo(), ByRange(rows), ByFunction(name, "
    "rank_of) or Replicated()";

// Returns InvalidArgument for a ratio that is negative or NaN.
absl::Status CheckChainBounds(const StoreOptions::ChainBounds& bounds);

// Returns InvalidArgument for a function that is null, has no name or one that
// cannot be stored, and for bounds that do not rise in `world_size` ranges, of
// slices from 0 to kSlices.
absl::Status CheckSharding(const TableSharding& sharding, uint32_t world_size);

// Memory for copies of the last part of a state, with which the caller's memory
// may change before all of it is written.
struct StageCopies {
  char* memory = nullptr;
  uint64_t bytes = 0;
  // Called once, by some thread, after the last read of tensors, rows and blobs
  // that were not copied. Not called if staging fails before.
  std::function<void(uint64_t copied_bytes)> on_read = {};
  // Called often, on all threads that stage. If it returns true, staging ends
  // with Cancelled.
  std::function<bool()> cancelled = {};
};

// Stages as Stage does, after copying the last entries in the order of writing,
// as many as fit.
absl::StatusOr<StagedRank> StageWithCopies(absl::string_view store_path,
                                           const Ticket& ticket,
                                           const RankState& state,
                                           const StoreOptions& options,
                                           const StageCopies& copies);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_STAGING_H_
