// The data that a step needs of other versions: tensors and blobs that it
// refers to, the runs of its chain, the increment of a folded step. Internal to
// db/.
#ifndef CKPTDB_DB_META_BORROWED_H_
#define CKPTDB_DB_META_BORROWED_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ckptdb/db/meta/catalog.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

// An item of another version whose bytes a step uses.
struct BorrowedItem {
  Item::Kind kind = Item::Kind::kBlob;
  std::string name;
  Version version;
  std::string prefix;  // of its keys
  Item::Placement placement = Item::Placement::kBulk;
  uint64_t stored_bytes = 0;
};

// Returns the items of other versions that the items of one rank refer to.
std::vector<BorrowedItem> BorrowedItems(const StepRecord::Rank& rank);

// A step and the records that say what it needs.
struct Borrower {
  StepRecord step;
  std::vector<StepRecord> chain;  // see ChainOf
  std::optional<StepRecord> increment;
};
// Finds them. Returns DataLoss when a record of the chain is wrong or missing.
// An increment whose record is missing is left out.
absl::StatusOr<Borrower> FindBorrower(const Catalog& catalog,
                                      const StepRecord& step);

using RankRecords = std::shared_ptr<const std::vector<StepRecord::Rank>>;
using LoadRanksFunction =
    std::function<absl::StatusOr<RankRecords>(const StepRecord&)>;

// Returns all that the step needs of other versions. `load_ranks` gives the
// rank records of a step; its errors are returned.
absl::StatusOr<std::vector<BorrowedItem>> LoadBorrowedItems(
    const Borrower& borrower, const LoadRanksFunction& load_ranks);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_BORROWED_H_
