// SPDX-License-Identifier: Apache-2.0
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
#include "db/base/mutex.h"
#include "db/rocks/database.h"
#include "schema/types.h"

namespace ckptdb::internal {

// The part of a table that one version holds, over all its ranks.
struct TableSummary {
  Item item;  // one rank's
  uint64_t stored_bytes = 0;
  std::set<Version> data;  // the versions that hold the bytes
};
using TableSummaries = std::map<std::string, TableSummary>;

TableSummaries SummarizeTables(const std::vector<StepRecord::Rank>& ranks);

// Caches the summaries of versions in chains, so that a delta save reads no
// rank records. Thread-safe: saves and folds load and add, sweeps remove. The
// mutex is held briefly, and no other is acquired under it.
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
