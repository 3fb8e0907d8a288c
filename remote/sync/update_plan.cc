// SPDX-License-Identifier: Apache-2.0
#include "remote/sync/update_plan.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "absl/strings/str_cat.h"
#include "db/transfer/version_source.h"
#include "remote/sync/catalog_steps.h"
#include "schema/bytes/page.h"
#include "schema/records/records.h"
#include "schema/records/store_parts.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr char kElsewhere[] = "; nothing was changed; fetch to another folder";

std::string Quoted(const LocalStore& store) {
  return absl::StrCat("\"", store.path, "\"");
}

absl::Status CheckOrigin(const LocalStore& store, const RemoteCatalog& catalog,
                         const std::string& remote) {
  if (store.root.uuid != catalog.root.uuid) {
    return absl::FailedPreconditionError(
        absl::StrCat(Quoted(store), " is store ", store.root.uuid, ", and ",
                     remote, " has store ", catalog.root.uuid, kElsewhere));
  }
  if (!store.root.parts.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      Quoted(store), " was fetched with only ", Describe(*store.root.parts),
      ", so no steps can be added to it", kElsewhere));
}

// Looks up a store's versions in a remote's catalog.
class CatalogVersions {
 public:
  explicit CatalogVersions(const RemoteCatalog& catalog) {
    for (const RemoteEntry& entry : catalog.entries) {
      entries_.emplace(entry.version, &entry);
    }
  }

  // Whether it has, or had, the same version.
  bool Has(const StepRecord& record) const {
    return Count(record, /*same=*/true) > 0;
  }
  // Whether it has a different version with the same step and attempt, saved by
  // another copy of the store that continued from an earlier step.
  bool Contradicts(const StepRecord& record) const {
    const auto [begin, end] = entries_.equal_range(record.version);
    for (auto it = begin; it != end; ++it) {
      if (it->second->use == RemoteEntry::Use::kDropped) continue;
      return it->second->lineage != LineageDigest(record);
    }
    return Count(record, /*same=*/false) > 0 && !Has(record);
  }

 private:
  int64_t Count(const StepRecord& record, bool same) const {
    const auto [begin, end] = entries_.equal_range(record.version);
    return std::count_if(begin, end, [&](const auto& each) {
      return (each.second->lineage == LineageDigest(record)) == same;
    });
  }

  std::multimap<Version, const RemoteEntry*> entries_;
};

absl::Status Differs(const LocalStore& store, const std::string& version,
                     const std::string& other, const std::string& remote) {
  return absl::FailedPreconditionError(
      absl::StrCat(Quoted(store), " has ", version, ", and ", remote, " has ",
                   other, ", because copies of the store were trained on ",
                   "separately", kElsewhere));
}

// An attempt that was begun and not committed is swept before steps are added.
absl::Status CheckAttempts(const LocalStore& store,
                           const RemoteCatalog& catalog,
                           const std::string& remote) {
  std::map<uint32_t, Version> attempts;
  for (const AttemptRecord& attempt : store.attempts) {
    if (attempt.state == AttemptState::kBegun && attempt.folds == 0) continue;
    attempts[attempt.version.attempt] = attempt.version;
  }
  for (const RemoteEntry& entry : catalog.entries) {
    if (entry.use == RemoteEntry::Use::kDropped) continue;
    const auto own = attempts.find(entry.version.attempt);
    if (own == attempts.end() || own->second == entry.version) continue;
    return Differs(store, ToString(own->second), ToString(entry.version),
                   remote);
  }
  return absl::OkStatus();
}

absl::Status CheckNotNewer(const LocalStore& store,
                           const RemoteCatalog& catalog,
                           const std::string& remote) {
  const StepRecord* newest = nullptr;
  for (const LocalVersion& local : store.versions) {
    if (!local.is_step) continue;
    if (newest == nullptr ||
        StateOf(*newest).attempt < StateOf(local.record).attempt) {
      newest = &local.record;
    }
  }
  const std::vector<const RemoteEntry*> steps = StepsByAge(catalog);
  if (newest == nullptr || steps.empty()) return absl::OkStatus();
  const RemoteEntry& last = *steps.front();
  if (StateOf(*newest).attempt <= last.state.attempt) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      Quoted(store), " is ahead of ", remote, ": its newest step is ",
      newest->version.step, " (attempt ", StateOf(*newest).attempt,
      "), the newest step there is ", last.version.step, " (attempt ",
      last.state.attempt, ")", kElsewhere, ", or push the store"));
}

}  // namespace

absl::Status CheckSameHistory(const LocalStore& store,
                              const RemoteCatalog& catalog,
                              const std::string& remote) {
  CKPTDB_RETURN_IF_ERROR(CheckOrigin(store, catalog, remote));
  const CatalogVersions versions(catalog);
  uint32_t newest_of_both = 0;
  for (const LocalVersion& local : store.versions) {
    const Version& version = local.record.version;
    if (versions.Contradicts(local.record)) {
      return Differs(store, ToString(version), "another version of it", remote);
    }
    if (!versions.Has(local.record)) continue;
    newest_of_both = std::max(newest_of_both, version.attempt);
  }
  CKPTDB_RETURN_IF_ERROR(CheckAttempts(store, catalog, remote));
  CKPTDB_RETURN_IF_ERROR(CheckNotNewer(store, catalog, remote));
  for (const LocalVersion& local : store.versions) {
    const Version& version = local.record.version;
    if (!local.is_step || !local.saved_here || versions.Has(local.record) ||
        version.attempt < newest_of_both) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        Quoted(store), " has ", ToString(version),
        ", which was saved here and is not in ", remote, kElsewhere));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<const RemoteEntry*>> StepsToAdd(
    const LocalStore& store, const std::vector<const RemoteEntry*>& steps,
    const std::string& remote) {
  std::vector<const RemoteEntry*> missing;
  for (const RemoteEntry* const step : steps) {
    const LocalVersion* const own = store.FindStep(step->version.step);
    if (own != nullptr) {
      const StepRecord& record = own->record;
      if (record.version == step->version) continue;
      const bool same_state = StateOf(record) == step->state;
      if (!same_state && record.pinned) {
        return absl::FailedPreconditionError(absl::StrCat(
            "step ", step->version.step, " of ", Quoted(store),
            " is pinned, and ", remote, " has replaced it; run \"ckptdb unpin ",
            step->version.step, "\" first"));
      }
      if (!same_state && step->version.attempt < record.version.attempt) {
        return Differs(store, ToString(record.version), ToString(step->version),
                       remote);
      }
    }
    missing.push_back(step);
  }
  std::sort(missing.begin(), missing.end(),
            [](const RemoteEntry* a, const RemoteEntry* b) {
              return a->version.attempt < b->version.attempt;
            });
  return missing;
}

absl::StatusOr<std::vector<const RemoteEntry*>> StepsToRevise(
    const LocalStore& store, const RemoteCatalog& catalog) {
  std::vector<const RemoteEntry*> revised;
  for (const LocalVersion& local : store.versions) {
    if (!local.is_step) continue;
    StepRecord record = local.record;
    const RemoteEntry* const entry = FindEntry(catalog, record.version);
    if (entry == nullptr || !IsStep(*entry)) continue;
    // Differences that RevisedRecord would keep.
    record.pinned = entry->pinned;
    record.quarantined = record.quarantined && entry->quarantined;
    CKPTDB_ASSIGN_OR_RETURN(std::string bytes, EncodeStepRecord(record));
    absl::StrAppend(&bytes, local.evaluations);
    if (HashBytes(bytes) != entry->record_hash) revised.push_back(entry);
  }
  return revised;
}

// A step needs data of an older version only if its parent needed it, or if the
// parent was folded since. Each version of its chain but the first is the next
// one's parent. The record's branches do not decide: they also contain steps
// that were saved on top of the same version and removed.
bool KeepsNeeded(const LocalStore& store, const Version& version,
                 const StepRecord& step) {
  const LocalVersion* const own = store.Find(version);
  if (own == nullptr) return false;
  if (own->is_step) return true;
  std::vector<Version> ancestors = step.chain;
  if (step.has_parent) ancestors.push_back(step.parent);
  return std::any_of(
      ancestors.begin(), ancestors.end(), [&](const Version& ancestor) {
        const LocalVersion* const local = store.Find(ancestor);
        if (local == nullptr || !local->is_step || local->record.folded) {
          return false;
        }
        const std::vector<Version> needs = NeedsOf(local->record);
        return std::find(needs.begin(), needs.end(), version) != needs.end();
      });
}

}  // namespace ckptdb::internal
