// The records of a store in memory; internal to db/.
#ifndef CKPTDB_DB_META_CATALOG_H_
#define CKPTDB_DB_META_CATALOG_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/meta/step_journal.h"
#include "ckptdb/db/rocks/database.h"
#include "ckptdb/schema/records/records.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

// All records of a database. Not thread-safe: an owner keeps it in StepCatalog,
// a reader under a mutex of its own.
struct Catalog {
  RootRecord root;
  std::map<int64_t, StepRecord> steps;
  StepJournal journal;  // the steps that changed since they were read
  // Versions that are not steps any more. Some step may need what they hold.
  std::map<Version, StepRecord> retired;
  std::map<uint32_t, AttemptRecord> attempts;

  // Adds the step, in place of its record if it has one.
  void PutStep(StepRecord record);
  void EraseStep(int64_t step);

  std::vector<StepRecord> Steps() const;
  // Returns NotFound, naming the steps next to it, when there is no such step.
  absl::StatusOr<StepRecord> FindStep(int64_t step) const;
  // Returns the step that was saved last and is not quarantined; null when
  // there is none.
  const StepRecord* Newest() const;
  // Returns the same; Returns NotFound if there is none.
  absl::StatusOr<StepRecord> Latest() const;
  // Returns the record of a version that is a step or was one; null when there
  // is none.
  const StepRecord* FindVersion(const Version& version) const;
};

// Reads all records. Returns NotFound when there is no root record.
absl::StatusOr<Catalog> LoadCatalog(const Database& database);

// Reads the record of one rank of a step. Returns DataLoss when it is missing
// or does not match the digest in the step record.
absl::StatusOr<StepRecord::Rank> LoadRank(const Database& database,
                                          const StepRecord& step,
                                          uint32_t rank);

// Reads the records of all its ranks, by rank.
absl::StatusOr<std::vector<StepRecord::Rank>> LoadRanks(
    const Database& database, const StepRecord& step);

// Returns all versions that a step needs, each once and in order: its chain,
// its references and its increment.
std::vector<Version> VersionsOf(const StepRecord& step);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_CATALOG_H_
