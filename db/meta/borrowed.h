// SPDX-License-Identifier: Apache-2.0
// Finds the data of other versions that a step needs: tensors and blobs that it
// refers to, the runs of its chain, a folded step's increment. Internal to db/.
#ifndef CKPTDB_DB_META_BORROWED_H_
#define CKPTDB_DB_META_BORROWED_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/meta/catalog.h"
#include "schema/types.h"

namespace ckptdb::internal {

// An item of another version whose bytes a step uses.
struct BorrowedItem {
  Item::Kind kind = Item::Kind::kBlob;
  std::string name;
  uint32_t first_chunk = 0;
  Version version;
  std::string begin;  // its keys: [begin, end)
  std::string end;
  Item::Placement placement = Item::Placement::kBulk;
  uint64_t stored_bytes = 0;
};

// Returns the items of other versions that the items of one rank refer to.
std::vector<BorrowedItem> BorrowedItems(const StepRecord::Rank& rank);

// A step and the records that determine its needs.
struct Borrower {
  StepRecord step;
  std::vector<StepRecord> chain;  // see ChainOf
  std::optional<StepRecord> increment;
};
// Finds these records. Returns DataLoss if a record of the chain is wrong or
// missing. An increment without a record is left out.
absl::StatusOr<Borrower> FindBorrower(const Catalog& catalog,
                                      const StepRecord& step);

using RankRecords = std::shared_ptr<const std::vector<StepRecord::Rank>>;
using LoadRanksFunction =
    std::function<absl::StatusOr<RankRecords>(const StepRecord&)>;

// Returns all items of other versions that the step needs. `load_ranks` returns
// a step's rank records; its errors are returned.
absl::StatusOr<std::vector<BorrowedItem>> LoadBorrowedItems(
    const Borrower& borrower, const LoadRanksFunction& load_ranks);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_BORROWED_H_
