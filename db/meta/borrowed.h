// What a step needs of other versions: tensors and blobs that it refers to,
// the runs of its chain, the increment of a folded step. Internal to db/.
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
#include "ckptdb/schema/records.h"

namespace ckptdb::internal {

// An item of another version whose bytes a step uses.
struct BorrowedItem {
  ItemKind kind = ItemKind::kBlob;
  std::string name;
  Version version;
  std::string prefix;  // of its keys
  Placement placement = Placement::kBulk;
  uint64_t stored_bytes = 0;
};

// Those that the items of one rank refer to.
std::vector<BorrowedItem> BorrowedItems(const RankRecord& rank);

// A step and the records that say what it needs.
struct Borrower {
  StepRecord step;
  std::vector<StepRecord> chain;  // see ChainOf
  std::optional<StepRecord> increment;
};
// DataLoss when a record of the chain is wrong or missing; an increment that
// is gone is none.
absl::StatusOr<Borrower> FindBorrower(const Catalog& catalog,
                                      const StepRecord& step);

using RankRecords = std::shared_ptr<const std::vector<RankRecord>>;
using LoadRanksFunction =
    std::function<absl::StatusOr<RankRecords>(const StepRecord&)>;

absl::StatusOr<std::vector<BorrowedItem>> LoadBorrowedItems(
    const Borrower& borrower, const LoadRanksFunction& load_ranks);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_BORROWED_H_
