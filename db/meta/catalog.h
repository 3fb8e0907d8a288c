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
#include "ckptdb/schema/keys.h"
#include "ckptdb/schema/records.h"

namespace ckptdb::internal {

struct Catalog {
  RootRecord root;
  std::map<int64_t, StepRecord> steps;
  StepJournal journal;  // of what happened to them since they were read
  // Versions that are no steps any more; some step may need what they hold.
  std::map<Version, StepRecord> retired;
  std::map<uint32_t, AttemptRecord> attempts;

  // In place of the step's record, if there is one.
  void PutStep(StepRecord record);
  void EraseStep(int64_t step);

  std::vector<StepRecord> Steps() const;
  // NotFound, naming the steps next to it.
  absl::StatusOr<StepRecord> FindStep(int64_t step) const;
  // The step that was saved last and is not quarantined, or null.
  const StepRecord* Newest() const;
  // The same; NotFound when there is none.
  absl::StatusOr<StepRecord> Latest() const;
  // The record of a version, of a step or of one that was; null when there is
  // none.
  const StepRecord* FindVersion(const Version& version) const;
};

// Reads all of it. NotFound when there is no root record.
absl::StatusOr<Catalog> LoadCatalog(const Database& database);

// The record of one rank of a step, checked against the step's digest of it.
absl::StatusOr<RankRecord> LoadRank(const Database& database,
                                    const StepRecord& step, uint32_t rank);

// Of all its ranks.
absl::StatusOr<std::vector<RankRecord>> LoadRanks(const Database& database,
                                                  const StepRecord& step);

// Chain, references and increment: all versions that a step needs, each once.
std::vector<Version> VersionsOf(const StepRecord& step);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_CATALOG_H_
