// SPDX-License-Identifier: Apache-2.0
#include "remote/sync/continuation.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "remote/sync/catalog_steps.h"
#include "schema/records/branches.h"
#include "schema/records/records.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr char kRemedy[] =
    "; nothing is shipped until you fetch them to another folder and continue "
    "there, or push with take_over (--take-over) to replace them";

const StepRecord* NewestOf(const std::vector<StepRecord>& steps) {
  const StepRecord* newest = nullptr;
  for (const StepRecord& step : steps) {
    if (newest == nullptr || StateOf(*newest).attempt < StateOf(step).attempt) {
      newest = &step;
    }
  }
  return newest;
}

}  // namespace

absl::StatusOr<std::vector<StepRecord>> StoreAndRemote::StepsToShip(
    const RemoteCatalog& base) const {
  std::vector<StepRecord> steps;
  for (StepRecord& record : source_.Steps()) {
    CKPTDB_ASSIGN_OR_RETURN(const bool shipped, IsShipped(base, record));
    if (!shipped) steps.push_back(std::move(record));
  }
  std::sort(steps.begin(), steps.end(),
            [](const StepRecord& a, const StepRecord& b) {
              return a.version.attempt < b.version.attempt;
            });
  return steps;
}

absl::Status StoreAndRemote::CheckSameStore(
    const std::optional<RemoteCatalog>& base) const {
  if (!base.has_value()) return absl::OkStatus();  // PutFormat decides
  if (base->root.uuid == source_.root().uuid) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(name_, " has store ", base->root.uuid, ", not store ",
                   source_.root().uuid, "; ship each store to its own URL"));
}

bool StoreAndRemote::IsKnown(const RemoteEntry& entry) const {
  const StepRecord* const record = source_.FindVersion(entry.version);
  return record != nullptr && LineageDigest(*record) == entry.lineage &&
         (entry.owner == 0 ||
          entry.owner == OwnerOf(*record, entry.state.attempt));
}

// Returns FailedPrecondition if copies of the store were trained on separately:
// the remote has another version than the store for the same attempt.
absl::Status StoreAndRemote::CheckSameAttempts(
    const RemoteCatalog& base) const {
  std::map<uint32_t, std::pair<Version, uint64_t>> own;
  for (const StepRecord& record : source_.Steps()) {
    if (record.has_parent) {
      own[record.parent.attempt] = {record.parent, record.parent_digest};
    }
  }
  for (const StepRecord& record : source_.Steps()) {
    own[record.version.attempt] = {record.version, LineageDigest(record)};
  }
  for (const RemoteEntry& entry : base.entries) {
    if (entry.use == RemoteEntry::Use::kDropped || IsKnown(entry)) continue;
    const auto found = own.find(entry.version.attempt);
    const bool same_attempt =
        found != own.end() &&
        found->second != std::pair(entry.version, entry.lineage);
    if (!same_attempt && source_.FindVersion(entry.version) == nullptr) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        name_, " has a different ", ToString(entry.version), " than the store",
        same_attempt
            ? absl::StrCat(", which has ", ToString(found->second.first))
            : "",
        ": another copy of the store shipped it", kRemedy));
  }
  return absl::OkStatus();
}

// Whether the store saved, or was fetched or updated with, this step before its
// newest one, even if the step was abandoned since. Copies of a store that
// continue separately use the same attempt numbers, but with other owners. If
// the owner of the attempt is unknown, as after an older library opened the
// store, the newest step must have been saved on top of this one.
bool StoreAndRemote::Continues(const RemoteEntry& last) const {
  const std::vector<StepRecord> own = source_.Steps();
  const StepRecord* const newest = NewestOf(own);
  const uint32_t attempt = last.state.attempt;
  if (newest == nullptr || StateOf(*newest).attempt < attempt) return false;
  const uint64_t owner = OwnerOf(source_.root().owners, attempt);
  if (owner != 0) return owner == last.owner;
  return DescendsFrom(*newest, last.state) &&
         OwnerOf(*newest, attempt) == last.owner;
}

// A disk that was restored from an older copy must not overwrite the steps that
// were shipped since, and a copy that continued on its own must not overwrite
// the steps of the other copy.
absl::Status StoreAndRemote::CheckContinues(const RemoteCatalog& base) const {
  CKPTDB_RETURN_IF_ERROR(CheckSameAttempts(base));
  // Quarantined steps have no descendants.
  const RemoteEntry* const found = NewestStep(base);
  if (found == nullptr || IsKnown(*found)) return absl::OkStatus();
  const RemoteEntry& last = *found;
  if (Continues(last)) return absl::OkStatus();
  const std::vector<StepRecord> own = source_.Steps();
  const StepRecord* const newest = NewestOf(own);
  return absl::FailedPreconditionError(absl::StrCat(
      name_, " is ahead of the store: its newest step is ", last.version.step,
      " (attempt ", last.state.attempt,
      "), which the store does not have and does not continue",
      newest == nullptr
          ? "; the store has no step"
          : absl::StrCat("; the store's newest step is ", newest->version.step,
                         " (attempt ", StateOf(*newest).attempt, ")"),
      kRemedy));
}

// Whether the remote's records of a step equal the store's, including those of
// its increment, which holds its evaluations.
absl::StatusOr<bool> StoreAndRemote::IsSame(const RemoteCatalog& base,
                                            const StepRecord& record) const {
  std::vector<const StepRecord*> records = {&record};
  if (record.folded) {
    records.push_back(source_.FindVersion(record.folded_from));
  }
  for (const StepRecord* const each : records) {
    if (each == nullptr) continue;
    const RemoteEntry* const entry = FindEntry(base, each->version);
    if (entry == nullptr || !IsKnown(*entry)) return false;
    CKPTDB_ASSIGN_OR_RETURN(const uint64_t hash, source_.RecordHash(*each));
    if (entry->record_hash != hash) return false;
  }
  return true;
}

// Steps that a collector dropped are not shipped again.
absl::StatusOr<bool> StoreAndRemote::IsShipped(const RemoteCatalog& base,
                                               const StepRecord& record) const {
  if (IsForgotten(base, record)) return true;
  const RemoteEntry* const entry = FindStepEntry(base, record.version.step);
  if (entry == nullptr || entry->version != record.version) return false;
  return IsSame(base, record);
}

}  // namespace ckptdb::internal
