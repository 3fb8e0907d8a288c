// The records of a store in memory; internal to db/.
#ifndef CKPTDB_DB_CATALOG_H_
#define CKPTDB_DB_CATALOG_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/database.h"
#include "ckptdb/schema/keys.h"
#include "ckptdb/schema/records.h"

namespace ckptdb::internal {

struct Catalog {
  RootRecord root;
  std::map<int64_t, StepRecord> steps;
  std::map<uint32_t, AttemptRecord> attempts;

  std::vector<StepRecord> Steps() const;
  // NotFound, naming the steps next to it.
  absl::StatusOr<StepRecord> FindStep(int64_t step) const;
  // The highest that is not quarantined; NotFound when there is none.
  absl::StatusOr<StepRecord> Latest() const;
  // The step that was committed last and is not quarantined, or null.
  const StepRecord* Newest() const;
};

// Reads all of it. NotFound when there is no root record.
absl::StatusOr<Catalog> LoadCatalog(const Database& database);

// The record of one rank of a step, checked against the step's digest of it.
absl::StatusOr<RankRecord> LoadRank(const Database& database,
                                    const StepRecord& step, uint32_t rank);

// Chain and references: all versions that a step needs.
std::vector<Version> VersionsOf(const StepRecord& step);

// An item of another version whose bytes a step uses.
struct BorrowedItem {
  Version version;
  std::string prefix;  // of its keys
  Placement placement = Placement::kBulk;
  uint64_t stored_bytes = 0;
};
std::vector<BorrowedItem> BorrowedItems(const RankRecord& rank);
absl::StatusOr<std::vector<BorrowedItem>> LoadBorrowedItems(
    const Database& database, const StepRecord& step);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_CATALOG_H_
