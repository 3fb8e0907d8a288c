// SPDX-License-Identifier: Apache-2.0
// The records of a store in memory; internal to db/.
#ifndef CKPTDB_DB_META_CATALOG_H_
#define CKPTDB_DB_META_CATALOG_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/meta/step_journal.h"
#include "db/rocks/database.h"
#include "schema/records/records.h"
#include "schema/types.h"

namespace ckptdb::internal {

// All records of a database. Not thread-safe: an owner keeps it in StepCatalog,
// a reader under the reader's mutex.
struct Catalog {
  RootRecord root;
  std::map<int64_t, StepRecord> steps;
  StepJournal journal;  // changes since the records were read
  // Versions that are no longer steps. Steps may still need their data.
  std::map<Version, StepRecord> retired;
  std::map<uint32_t, AttemptRecord> attempts;

  // Adds the step, or replaces its record.
  void PutStep(StepRecord record);
  void EraseStep(int64_t step);

  std::vector<StepRecord> Steps() const;
  // Returns NotFound, naming the steps next to it, if the step does not exist.
  absl::StatusOr<StepRecord> FindStep(int64_t step) const;
  // Returns the most recently saved step that is not quarantined, or null.
  const StepRecord* Newest() const;
  // Like Newest, but returns NotFound instead of null.
  absl::StatusOr<StepRecord> Latest() const;
  // Returns the record of a version that is or was a step; null if it is
  // unknown.
  const StepRecord* FindVersion(const Version& version) const;
};

// Reads all records. Returns NotFound if the database has no root record.
absl::StatusOr<Catalog> LoadCatalog(const Database& database);

// Reads which parts of its steps a store has, if not all: see RootRecord.
absl::StatusOr<std::optional<StoreParts>> LoadParts(const Database& database);

// Reads the record of one rank of a step. Returns DataLoss if it is missing or
// does not match the digest in the step record.
absl::StatusOr<StepRecord::Rank> LoadRank(const Database& database,
                                          const StepRecord& step,
                                          uint32_t rank);

// Reads the records of all ranks of a step, by rank.
absl::StatusOr<std::vector<StepRecord::Rank>> LoadRanks(
    const Database& database, const StepRecord& step);

// Returns the versions that a step needs, sorted and without duplicates: its
// chain, its references and its increment.
std::vector<Version> VersionsOf(const StepRecord& step);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_CATALOG_H_
