// SPDX-License-Identifier: Apache-2.0
#include "db/meta/catalog.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/disk/rocks_status.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/page.h"
#include "schema/records/records.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Decodes all records of a kind, in key order. A record that does not decode
// fails the open, because a step must not disappear silently.
template <typename Record>
absl::Status LoadRecords(
    const Database& database, char kind,
    absl::StatusOr<Record> (*decode)(absl::string_view),
    const std::function<absl::Status(const MetaKey&, Record)>& visit) {
  return database.ForEach(
      Family::kMeta, absl::string_view(&kind, 1),
      [&](absl::string_view key, absl::string_view value) -> absl::Status {
        CKPTDB_ASSIGN_OR_RETURN(const MetaKey parsed, ParseMetaKey(key));
        absl::StatusOr<Record> record = decode(value);
        CKPTDB_RETURN_IF_ERROR(
            Annotate(record.status(),
                     absl::StrCat("record \"", absl::string_view(&kind, 1),
                                  "\" of ", ToString(parsed.version))));
        return visit(parsed, *std::move(record));
      });
}

// A record names its own version. A record under another version's key was
// moved by damage or by hand, and would pass for the wrong step.
absl::Status MisplacedError(const Version& version, const MetaKey& key) {
  return absl::DataLossError(absl::StrCat("the key of ", ToString(key.version),
                                          " holds the record of ",
                                          ToString(version)));
}

}  // namespace

void Catalog::PutStep(StepRecord record) {
  const int64_t step = record.version.step;
  journal.Add(step);
  steps.insert_or_assign(step, std::move(record));
}

void Catalog::EraseStep(int64_t step) {
  journal.Add(step);
  steps.erase(step);
}

std::vector<StepRecord> Catalog::Steps() const {
  std::vector<StepRecord> all;
  all.reserve(steps.size());
  for (const auto& [step, record] : steps) all.push_back(record);
  return all;
}

absl::StatusOr<StepRecord> Catalog::FindStep(int64_t step) const {
  const auto found = steps.lower_bound(step);
  if (found != steps.end() && found->first == step) return found->second;
  std::string near;
  if (found != steps.begin()) {
    absl::StrAppend(&near, "; the step before it is ", std::prev(found)->first);
  }
  if (found != steps.end()) {
    absl::StrAppend(&near, "; the step after it is ", found->first);
  }
  if (near.empty()) near = "; the store has no steps";
  return absl::NotFoundError(absl::StrCat("no step ", step, near));
}

absl::StatusOr<StepRecord> Catalog::Latest() const {
  if (const StepRecord* const newest = Newest()) return *newest;
  if (steps.empty()) return absl::NotFoundError("no step is committed");
  // Not NotFound, which a caller may take for an empty store.
  return absl::DataLossError(
      absl::StrCat("all ", steps.size(),
                   " steps are quarantined; \"ckptdb verify STEP\" describes "
                   "the damage, and \"ckptdb quarantine --undo STEP\" makes "
                   "an undamaged step usable again"));
}

const StepRecord* Catalog::Newest() const {
  const StepRecord* newest = nullptr;
  for (const auto& [step, record] : steps) {
    if (record.quarantined) continue;
    // Compares attempts, not steps: after a rollback a trainer saves lower
    // steps later. A fold does not make a step newer.
    if (newest == nullptr ||
        StateOf(*newest).attempt < StateOf(record).attempt) {
      newest = &record;
    }
  }
  return newest;
}

const StepRecord* Catalog::FindVersion(const Version& version) const {
  const auto step = steps.find(version.step);
  if (step != steps.end() && step->second.version == version) {
    return &step->second;
  }
  // Chains pass through versions whose step was removed.
  const auto old = retired.find(version);
  return old == retired.end() ? nullptr : &old->second;
}

absl::StatusOr<Catalog> LoadCatalog(const Database& database) {
  Catalog catalog;
  // The first byte of a key is the kind of record: root, attempts, steps,
  // retired versions.
  CKPTDB_ASSIGN_OR_RETURN(const std::string root,
                          database.Get(Family::kMeta, RootKey()));
  CKPTDB_ASSIGN_OR_RETURN(catalog.root, DecodeRootRecord(root));
  CKPTDB_RETURN_IF_ERROR(LoadRecords<AttemptRecord>(
      database, 'a', DecodeAttemptRecord,
      [&](const MetaKey& key, AttemptRecord record) -> absl::Status {
        if (record.version.attempt != key.version.attempt) {
          return MisplacedError(record.version, key);
        }
        // Records arrive in key order, so inserting at the end is cheap.
        catalog.attempts.emplace_hint(catalog.attempts.end(),
                                      record.version.attempt, record);
        return absl::OkStatus();
      }));
  CKPTDB_RETURN_IF_ERROR(LoadRecords<StepRecord>(
      database, 's', DecodeStepRecord,
      [&](const MetaKey& key, StepRecord record) -> absl::Status {
        if (record.version.step != key.version.step) {
          return MisplacedError(record.version, key);
        }
        const int64_t step = record.version.step;
        // Not PutStep, which would journal a change.
        catalog.steps.emplace_hint(catalog.steps.end(), step,
                                   std::move(record));
        return absl::OkStatus();
      }));
  CKPTDB_RETURN_IF_ERROR(LoadRecords<StepRecord>(
      database, 'v', DecodeStepRecord,
      [&](const MetaKey& key, StepRecord record) -> absl::Status {
        if (record.version != key.version) {
          return MisplacedError(record.version, key);
        }
        catalog.retired.emplace_hint(catalog.retired.end(), key.version,
                                     std::move(record));
        return absl::OkStatus();
      }));
  return catalog;
}

absl::StatusOr<std::optional<StoreParts>> LoadParts(const Database& database) {
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes,
                          database.Get(Family::kMeta, RootKey()));
  CKPTDB_ASSIGN_OR_RETURN(RootRecord root, DecodeRootRecord(bytes));
  return std::move(root.parts);
}

absl::StatusOr<StepRecord::Rank> LoadRank(const Database& database,
                                          const StepRecord& step,
                                          uint32_t rank) {
  const std::string place =
      absl::StrCat(ToString(step.version), " rank ", rank);
  absl::StatusOr<std::string> bytes =
      database.Get(Family::kMeta, RankKey(step.version, rank));
  if (absl::IsNotFound(bytes.status())) {
    // The step record lists it, so this is not NotFound.
    return absl::DataLossError(absl::StrCat(place, ": its record is missing"));
  }
  CKPTDB_RETURN_IF_ERROR(Annotate(bytes.status(), place));
  // The digest in the step record also detects a valid record of another
  // version.
  if (HashBytes(*bytes) != step.rank_digests[rank]) {
    return absl::DataLossError(
        absl::StrCat(place, ": record hash ", absl::Hex(HashBytes(*bytes)),
                     " does not match ", absl::Hex(step.rank_digests[rank]),
                     " of the step record"));
  }
  absl::StatusOr<StepRecord::Rank> record = DecodeRankRecord(*bytes);
  CKPTDB_RETURN_IF_ERROR(Annotate(record.status(), place));
  if (record->version == step.version && record->rank == rank) return record;
  return absl::DataLossError(
      absl::StrCat(place, ": its key holds the record of ",
                   ToString(record->version), " rank ", record->rank));
}

absl::StatusOr<std::vector<StepRecord::Rank>> LoadRanks(
    const Database& database, const StepRecord& step) {
  std::vector<StepRecord::Rank> ranks(step.world_size);
  for (uint32_t rank = 0; rank < step.world_size; ++rank) {
    CKPTDB_ASSIGN_OR_RETURN(ranks[rank], LoadRank(database, step, rank));
  }
  return ranks;
}

std::vector<Version> VersionsOf(const StepRecord& step) {
  std::vector<Version> versions = step.chain;
  versions.insert(versions.end(), step.references.begin(),
                  step.references.end());
  if (step.folded) versions.push_back(step.folded_from);
  // A folded step may also refer to its increment.
  std::sort(versions.begin(), versions.end());
  versions.erase(std::unique(versions.begin(), versions.end()), versions.end());
  return versions;
}

}  // namespace ckptdb::internal
