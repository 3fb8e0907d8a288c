// Summaries of the tables of versions; internal to db/.
#ifndef CKPTDB_DB_STORE_TABLE_SUMMARIES_H_
#define CKPTDB_DB_STORE_TABLE_SUMMARIES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "ckptdb/db/base/mutex.h"
#include "ckptdb/db/rocks/database.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

// The part of a table that a version holds, over all its ranks.
struct TableSummary {
  Item item;  // as one of the ranks has it
  uint64_t stored_bytes = 0;
  std::set<Version> data;  // the versions that have the bytes
};
using TableSummaries = std::map<std::string, TableSummary>;

TableSummaries SummarizeTables(const std::vector<StepRecord::Rank>& ranks);

// Keeps the summaries of the versions of chains, so that a save of changes
// reads no rank records. Thread-safe: saves and folds load and add, sweeps
// remove. The mutex is held for moments, with no other after it.
class TableSummaryCache {
 public:
  // Returns the summaries of a version, read from the database the first time.
  absl::StatusOr<std::shared_ptr<const TableSummaries>> Load(
      const Database& database, const StepRecord& record);
  void Add(const Version& version, const std::vector<StepRecord::Rank>& ranks);
  void Remove(const std::vector<Version>& versions);

 private:
  std::shared_ptr<const TableSummaries> Find(const Version& version) const;

  mutable Mutex mutex_;
  std::map<Version, std::shared_ptr<const TableSummaries>> summaries_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_TABLE_SUMMARIES_H_
