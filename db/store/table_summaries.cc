// SPDX-License-Identifier: Apache-2.0
#include "db/store/table_summaries.h"

#include <utility>

#include "db/meta/catalog.h"
#include "schema/status.h"

namespace ckptdb::internal {

TableSummaries SummarizeTables(const std::vector<StepRecord::Rank>& ranks) {
  TableSummaries summaries;
  for (const StepRecord::Rank& rank : ranks) {
    for (const Item& item : rank.items) {
      if (item.kind != Item::Kind::kRows) continue;
      // The first rank's item represents the others: the ranks agree on its
      // slots, its slice hash and the kind of its run.
      TableSummary& table =
          summaries.emplace(item.name, TableSummary{item, 0, {}}).first->second;
      table.stored_bytes += item.stored_bytes;
      table.data.insert(item.data_version);
    }
  }
  return summaries;
}

absl::StatusOr<std::shared_ptr<const TableSummaries>> TableSummaryCache::Load(
    const Database& database, const StepRecord& record) {
  if (auto found = Find(record.version)) return found;
  // The records are read without the lock. Two concurrent misses both read them
  // and store the same summaries.
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<StepRecord::Rank> ranks,
                          LoadRanks(database, record));
  auto summaries =
      std::make_shared<const TableSummaries>(SummarizeTables(ranks));
  const MutexLock lock(&mutex_);
  summaries_[record.version] = summaries;
  return summaries;
}

void TableSummaryCache::Add(const Version& version,
                            const std::vector<StepRecord::Rank>& ranks) {
  auto summaries =
      std::make_shared<const TableSummaries>(SummarizeTables(ranks));
  const MutexLock lock(&mutex_);
  summaries_[version] = std::move(summaries);
}

void TableSummaryCache::Remove(const std::vector<Version>& versions) {
  const MutexLock lock(&mutex_);
  for (const Version& version : versions) summaries_.erase(version);
}

std::shared_ptr<const TableSummaries> TableSummaryCache::Find(
    const Version& version) const {
  const MutexLock lock(&mutex_);
  const auto found = summaries_.find(version);
  return found == summaries_.end() ? nullptr : found->second;
}

}  // namespace ckptdb::internal
