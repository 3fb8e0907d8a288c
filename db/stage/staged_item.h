// SPDX-License-Identifier: Apache-2.0
// Prepares the items of a save for staging; internal to db/.
#ifndef CKPTDB_DB_STAGE_STAGED_ITEM_H_
#define CKPTDB_DB_STAGE_STAGED_ITEM_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/options.h"
#include "db/stage/row_order.h"
#include "db/stage/stream.h"
#include "db/state.h"
#include "schema/records/staged.h"
#include "schema/types.h"

namespace ckptdb::internal {

struct StagedItem {
  Item item;
  absl::string_view bytes;           // tensors and blobs
  std::unique_ptr<RowOrder> order;   // tables
  std::unique_ptr<RowOrder> erased;  // delta runs
  std::vector<std::unique_ptr<Stream>> streams;
  bool reused = false;  // the item borrows the parent's bytes

  uint64_t raw_bytes_to_write() const;
  // Sets digest, hashes, codecs and sizes of `item` once all entries are made.
  void Seal(Item::Placement placement);
};

// Checks all of `state`, and returns its items in key order. Returns
// InvalidArgument for an invalid state, and FailedPrecondition for changes that
// cannot be stored as a delta.
absl::StatusOr<std::vector<StagedItem>> PrepareItems(
    const internal::TicketRecord& ticket, const RankState& state,
    const StoreOptions& options);

// Replaces tensors and blobs whose bytes equal `parent`'s by references to it,
// unless borrowing does not pay: see db/meta/borrow_cost.h. Calls `check`
// before each item, and returns its error.
absl::Status ReuseUnchanged(const StepRecord::Rank& parent, int threads,
                            const std::function<absl::Status()>& check,
                            std::vector<StagedItem>* items);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STAGE_STAGED_ITEM_H_
