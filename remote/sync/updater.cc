// SPDX-License-Identifier: Apache-2.0
#include "remote/sync/updater.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "db/base/cancelled.h"
#include "db/base/hit_crash_point.h"
#include "db/base/parallel.h"
#include "db/internal/crash_points.h"
#include "remote/layout/object_keys.h"
#include "remote/sync/catalog_steps.h"
#include "remote/sync/update_plan.h"
#include "remote/sync/version_object.h"
#include "schema/records/records.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Whether the remote's record and evaluations would change nothing in a step.
// Compares bytes, as metrics may be NaN.
absl::StatusOr<bool> IsRevised(const LocalVersion& own,
                               const RemoteVersion& remote) {
  for (const auto& [key, value] : remote.evaluations) {
    if (!absl::StrContains(own.evaluations, key + value)) return false;
  }
  CKPTDB_ASSIGN_OR_RETURN(StepRecord record,
                          DecodeStepRecord(remote.step_record));
  CKPTDB_ASSIGN_OR_RETURN(
      const std::string after,
      EncodeStepRecord(RevisedRecord(own.record, std::move(record))));
  CKPTDB_ASSIGN_OR_RETURN(const std::string before,
                          EncodeStepRecord(own.record));
  return before == after;
}

}  // namespace

absl::StatusOr<bool> Updater::StoreExists() {
  if (!options_->update) return false;
  absl::StatusOr<LocalStore> store = ReadLocalStore(to_);
  if (absl::IsNotFound(store.status())) return false;
  CKPTDB_RETURN_IF_ERROR(store.status());
  store_ = *std::move(store);
  return true;
}

absl::Status Updater::Update(const RemoteCatalog& catalog,
                             const std::vector<const RemoteEntry*>& steps) {
  result_.store_uuid = catalog.root.uuid;
  // Does not become the owner yet, because that would change the store.
  CKPTDB_RETURN_IF_ERROR(CheckSameHistory(store_, catalog, remote_->Name()));
  CKPTDB_ASSIGN_OR_RETURN(const auto missing,
                          StepsToAdd(store_, steps, remote_->Name()));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<Part> revisions,
                          ReadRevisions(catalog, store_));
  if (missing.empty() && revisions.empty()) {
    RemoveUnfinished(to_).IgnoreError();  // another call may use it
  } else {
    CKPTDB_RETURN_IF_ERROR(Change(catalog, steps, revisions));
  }
  return RemoveOlder();
}

// The store may have changed since its records were read.
absl::Status Updater::Change(const RemoteCatalog& catalog,
                             const std::vector<const RemoteEntry*>& steps,
                             const std::vector<Part>& revisions) {
  CKPTDB_ASSIGN_OR_RETURN(const auto updater,
                          StoreUpdater::Open(to_, options_->on_point));
  CKPTDB_RETURN_IF_ERROR(
      CheckSameHistory(updater->store(), catalog, remote_->Name()));
  CKPTDB_ASSIGN_OR_RETURN(const auto missing,
                          StepsToAdd(updater->store(), steps, remote_->Name()));
  for (const RemoteEntry* const step : missing) {
    CKPTDB_RETURN_IF_ERROR(AddStep(catalog, *step, updater.get()));
    result_.steps.push_back(step->version.step);
  }
  std::vector<AddedVersion> revised;
  for (const Part& part : revisions) {
    revised.push_back({part.entry.version, &part.records, /*is_step=*/true});
  }
  if (!revised.empty()) CKPTDB_RETURN_IF_ERROR(updater->Revise(revised));
  for (const AddedVersion& each : revised) {
    result_.revised.push_back(each.version.step);
  }
  return updater->Close();
}

// Returns the steps whose records would change.
absl::StatusOr<std::vector<Updater::Part>> Updater::ReadRevisions(
    const RemoteCatalog& catalog, const LocalStore& store) {
  CKPTDB_ASSIGN_OR_RETURN(const auto steps, StepsToRevise(store, catalog));
  std::vector<Part> parts;
  for (const RemoteEntry* const step : steps) parts.push_back({*step});
  CKPTDB_RETURN_IF_ERROR(ReadRecords(&parts, 0));
  std::vector<Part> changed;
  for (Part& part : parts) {
    const LocalVersion& own = *store.Find(part.entry.version);
    CKPTDB_ASSIGN_OR_RETURN(const bool same, IsRevised(own, part.records));
    if (same) continue;
    part.records.inline_entries.clear();  // the store has them
    changed.push_back(std::move(part));
  }
  return changed;
}

absl::Status Updater::ReadRecords(std::vector<Part>* parts, size_t first) {
  return ParallelFor(
      options_->connections, parts->size() - first,
      [&](int, uint64_t i) -> absl::Status {
        CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_->cancelled));
        Part& part = (*parts)[first + i];
        CKPTDB_ASSIGN_OR_RETURN(part.records,
                                ReadVersionObject(remote_, part.entry));
        return absl::OkStatus();
      },
      PollOf(options_->cancelled));
}

absl::Status Updater::AddStep(const RemoteCatalog& catalog,
                              const RemoteEntry& step, StoreUpdater* updater) {
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<Part> parts,
                          ReadParts(catalog, step, updater->store()));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<AddedVersion> added,
                          DownloadParts(parts, step.version, *updater));
  CKPTDB_RETURN_IF_ERROR(HitCrashPoint(
      options_->on_point, "FetchOptions::on_point", point::kFetchDownloaded));
  return updater->Add(added, catalog.root);
}

// Returns the step's own version first.
absl::StatusOr<std::vector<Updater::Part>> Updater::ReadParts(
    const RemoteCatalog& catalog, const RemoteEntry& step,
    const LocalStore& store) {
  CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_->cancelled));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RemoteEntry> needed,
                          NeededEntries(catalog, {&step}));
  std::vector<Part> parts = {{step}};
  CKPTDB_ASSIGN_OR_RETURN(parts[0].records, ReadVersionObject(remote_, step));
  CKPTDB_ASSIGN_OR_RETURN(const StepRecord record,
                          DecodeStepRecord(parts[0].records.step_record));
  for (const RemoteEntry& entry : needed) {
    if (entry.version == step.version) continue;
    if (KeepsNeeded(store, entry.version, record)) continue;
    parts.push_back({entry});
  }
  CKPTDB_RETURN_IF_ERROR(ReadRecords(&parts, 1));
  return parts;
}

absl::StatusOr<std::vector<AddedVersion>> Updater::DownloadParts(
    const std::vector<Part>& parts, const Version& step,
    const StoreUpdater& updater) {
  std::vector<AddedVersion> all;
  std::vector<Download> downloads;
  for (const Part& part : parts) {
    const RemoteEntry& entry = part.entry;
    const bool known = updater.store().Find(entry.version) != nullptr;
    AddedVersion added{entry.version, &part.records, entry.version == step};
    for (const RemoteFile& file : part.records.files) {
      if (known && updater.HasFile(file)) continue;
      const std::string key =
          DataObjectKey({entry.epoch, entry.version, file.number});
      added.tables.push_back(Downloader::PathOf(updater.downloads(), key));
      downloads.push_back({key, added.tables.back(), file});
      downloader_.Expect(file.bytes);
    }
    // The store has all of it already.
    if (known && !added.is_step && added.tables.empty()) continue;
    all.push_back(std::move(added));
  }
  std::vector<std::string> tables;
  CKPTDB_RETURN_IF_ERROR(downloader_.Run(std::move(downloads), &tables));
  return all;
}

absl::Status Updater::RemoveOlder() {
  if (!options_->keep.has_value()) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(const LocalStore store, ReadLocalStore(to_));
  std::vector<StepRecord> steps;
  for (const LocalVersion& local : store.versions) {
    if (local.is_step) steps.push_back(local.record);
  }
  // If all steps stay, the call need not own the store.
  if (StepsBeyond(std::move(steps), *options_->keep).empty()) {
    return absl::OkStatus();
  }
  CKPTDB_ASSIGN_OR_RETURN(
      const std::vector<int64_t> removed,
      KeepNewestSteps(to_, *options_->keep, options_->on_point));
  result_.removed.insert(result_.removed.end(), removed.begin(), removed.end());
  return absl::OkStatus();
}

FetchResult Updater::TakeResult() {
  result_.data_files = downloader_.files();
  result_.data_bytes = downloader_.bytes();
  std::sort(result_.steps.begin(), result_.steps.end());
  std::sort(result_.revised.begin(), result_.revised.end());
  return std::move(result_);
}

}  // namespace ckptdb::internal
