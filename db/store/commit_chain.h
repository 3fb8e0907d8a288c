// The chain of a save: the versions that its tables are put together from;
// internal to db/.
#ifndef CKPTDB_DB_STORE_COMMIT_CHAIN_H_
#define CKPTDB_DB_STORE_COMMIT_CHAIN_H_

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/db/rocks/database.h"
#include "ckptdb/db/store/commit.h"
#include "ckptdb/db/store/step_catalog.h"
#include "ckptdb/db/store/table_summaries.h"

namespace ckptdb::internal {

// Finds the chain of one commit. Used by one thread, for one publish.
class ChainBuilder {
 public:
  // `names_parent` tells whether the save says which step it goes on from.
  // What is pointed to must outlive this object.
  ChainBuilder(const Database& database, const StepCatalog& catalog,
               TableSummaryCache* summaries, bool names_parent, Commit* commit)
      : database_(database),
        catalog_(catalog),
        summaries_(summaries),
        names_parent_(names_parent),
        commit_(commit) {}

  // Sets kind, chain and bytes of the step, and adds what it refers to. Returns
  // FailedPrecondition naming a table whose changes do not fit the parent's.
  absl::Status Build();

 private:
  absl::Status ExtendChain(const TableSummaries& own);
  absl::StatusOr<size_t> AddOldRuns(const Item& table, std::set<Version>* data);
  void AddReferences(const std::set<Version>& data);

  const Database& database_;
  const StepCatalog& catalog_;
  TableSummaryCache* const summaries_;
  const bool names_parent_;
  Commit* const commit_;
  std::vector<StepRecord> parent_chain_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_COMMIT_CHAIN_H_
