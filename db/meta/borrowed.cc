// SPDX-License-Identifier: Apache-2.0
#include "db/meta/borrowed.h"

#include <set>
#include <utility>

#include "db/meta/lineage.h"
#include "schema/bytes/keys.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

BorrowedItem Borrow(const StepRecord::Rank& rank, const Item& item) {
  std::string begin = ChunkKey(rank.rank, item, 0);
  std::string end = ChunkKey(rank.rank, item, item.chunk_hashes.size());
  if (item.kind == Item::Kind::kRows) {
    begin = ItemPrefix(item.data_version, rank.rank, item.kind, item.name);
    // An item's prefix ends with NUL, so PrefixEnd exists.
    end = PrefixEnd(begin);
  }
  return {item.kind,         item.name,        item.first_chunk,
          item.data_version, std::move(begin), std::move(end),
          item.placement,    item.stored_bytes};
}

// Returns the tables that need runs of older versions.
std::set<std::string> DeltaTables(const std::vector<StepRecord::Rank>& ranks) {
  std::set<std::string> tables;
  for (const StepRecord::Rank& rank : ranks) {
    for (const Item& item : rank.items) {
      if (item.kind == Item::Kind::kRows && item.run == Item::Run::kDelta) {
        tables.insert(item.name);
      }
    }
  }
  return tables;
}

// Appends the runs of these tables, and drops from `tables` those with a base
// run.
void BorrowRuns(const std::vector<StepRecord::Rank>& ranks,
                std::set<std::string>* tables,
                std::vector<BorrowedItem>* borrowed) {
  std::set<std::string> done;
  for (const StepRecord::Rank& rank : ranks) {
    for (const Item& item : rank.items) {
      if (item.kind != Item::Kind::kRows || !tables->contains(item.name)) {
        continue;
      }
      borrowed->push_back(Borrow(rank, item));
      if (item.run == Item::Run::kBase) done.insert(item.name);
    }
  }
  for (const std::string& name : done) tables->erase(name);
}

}  // namespace

std::vector<BorrowedItem> BorrowedItems(const StepRecord::Rank& rank) {
  std::vector<BorrowedItem> borrowed;
  for (const Item& item : rank.items) {
    if (item.data_version != rank.version)
      borrowed.push_back(Borrow(rank, item));
  }
  return borrowed;
}

absl::StatusOr<Borrower> FindBorrower(const Catalog& catalog,
                                      const StepRecord& step) {
  Borrower borrower;
  borrower.step = step;
  CKPTDB_ASSIGN_OR_RETURN(borrower.chain, ChainOf(catalog, step));
  // A folded step also needs the delta runs of its increment, which lead to it
  // from its parent. Without the increment's record they cannot be found.
  if (step.folded) {
    const StepRecord* const increment = catalog.FindVersion(step.folded_from);
    if (increment != nullptr) borrower.increment = *increment;
  }
  return borrower;
}

absl::StatusOr<std::vector<BorrowedItem>> LoadBorrowedItems(
    const Borrower& borrower, const LoadRanksFunction& load_ranks) {
  std::vector<BorrowedItem> borrowed;
  CKPTDB_ASSIGN_OR_RETURN(const RankRecords own, load_ranks(borrower.step));
  for (const StepRecord::Rank& rank : *own) {
    for (BorrowedItem& item : BorrowedItems(rank)) {
      borrowed.push_back(std::move(item));
    }
  }
  std::set<std::string> tables = DeltaTables(*own);
  // Newest first, until each table's base run is found; older runs are not
  // needed.
  for (size_t i = borrower.chain.size() - 1; i > 0 && !tables.empty(); --i) {
    CKPTDB_ASSIGN_OR_RETURN(const RankRecords ranks,
                            load_ranks(borrower.chain[i - 1]));
    BorrowRuns(*ranks, &tables, &borrowed);
  }
  if (!borrower.increment.has_value()) return borrowed;
  CKPTDB_ASSIGN_OR_RETURN(const RankRecords ranks,
                          load_ranks(*borrower.increment));
  tables = DeltaTables(*ranks);
  BorrowRuns(*ranks, &tables, &borrowed);
  return borrowed;
}

}  // namespace ckptdb::internal
