// SPDX-License-Identifier: Apache-2.0
#include "remote/sync/collector.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "db/base/cancelled.h"
#include "manager/policy/retention.h"
#include "remote/layout/object_keys.h"
#include "remote/sync/catalog_log.h"
#include "remote/sync/catalog_steps.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr int kCollectTries = 20;
constexpr uint64_t kPageKeys = 1000;

absl::Status CheckOptions(const CollectOptions& options) {
  if (options.keep.has_value() && *options.keep == 0) {
    return absl::InvalidArgumentError(
        "CollectOptions::keep is 0; it must be at least 1");
  }
  if (options.retention.has_value()) {
    if (options.keep.has_value()) {
      return absl::InvalidArgumentError(
          "CollectOptions::keep and CollectOptions::retention are both set");
    }
    CKPTDB_RETURN_IF_ERROR(
        Annotate(CheckRetention(*options.retention), "CollectOptions"));
  }
  if (options.grace < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "CollectOptions::grace is ", absl::FormatDuration(options.grace),
        "; it must not be negative"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CollectResult> Collector::Collect() {
  CKPTDB_RETURN_IF_ERROR(CheckOptions(*options_));
  CKPTDB_RETURN_IF_ERROR(
      Commit([&](RemoteCatalog* catalog) { return DropSteps(catalog); }));
  for (const RemoteEntry& entry : catalog_.entries) {
    if (entry.use == RemoteEntry::Use::kDropped) {
      dropped_.emplace(entry.version, entry.epoch);
    }
  }
  CKPTDB_ASSIGN_OR_RETURN(const ObjectInfo put,
                          remote_->Head(CatalogKey(catalog_.number)));
  CKPTDB_RETURN_IF_ERROR(Commit([&](RemoteCatalog* catalog) {
    SetHorizon(put.modified, catalog);
    return absl::OkStatus();
  }));
  const NamedObjects named(catalog_);
  CKPTDB_RETURN_IF_ERROR(DeleteUnnamed(
      kVersionsPrefix, [&](absl::string_view key) -> absl::StatusOr<bool> {
        CKPTDB_ASSIGN_OR_RETURN(const ObjectName name,
                                ParseVersionObjectKey(key));
        return named.HasVersionObject(name);
      }));
  CKPTDB_RETURN_IF_ERROR(DeleteUnnamed(
      kDataPrefix, [&](absl::string_view key) -> absl::StatusOr<bool> {
        CKPTDB_ASSIGN_OR_RETURN(const ObjectName name, ParseDataObjectKey(key));
        return named.HasData(name);
      }));
  CKPTDB_RETURN_IF_ERROR(DeleteUnnamed(
      kProbePrefix, [](absl::string_view key) -> absl::StatusOr<bool> {
        return !IsProbeKey(key);
      }));
  CKPTDB_RETURN_IF_ERROR(DeleteCatalogs());
  CKPTDB_RETURN_IF_ERROR(AbortUploads());
  return result_;
}

// Keeps the owner and the epoch, so that the owner can commit after this.
absl::Status Collector::Commit(const Change& change) {
  absl::Status status;
  for (int i = 0; i < kCollectTries; ++i) {
    CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_->cancelled));
    CKPTDB_ASSIGN_OR_RETURN(const auto newest, NewestCatalog(remote_));
    if (!newest.has_value()) {
      return absl::NotFoundError(
          absl::StrCat("nothing was shipped to ", remote_->Name()));
    }
    RemoteCatalog next = *newest;
    CKPTDB_RETURN_IF_ERROR(change(&next));
    status = AppendCatalog(remote_, &*newest, Base::kRead, &next);
    if (status.ok()) catalog_ = std::move(next);
    if (!absl::IsAborted(status)) return status;
  }
  return status;
}

// Returns the steps to drop.
absl::StatusOr<std::set<Version>> Collector::ChooseSteps(
    const RemoteCatalog& catalog) {
  if (options_->retention.has_value()) {
    CKPTDB_ASSIGN_OR_RETURN(const std::vector<StepRecord> steps,
                            ReadStepRecords(remote_, catalog, cache_));
    return VersionsToDrop(*options_->retention, steps,
                          absl::ToUnixMicros(absl::Now()));
  }
  std::set<Version> dropped;
  if (!options_->keep.has_value()) return dropped;
  for (const RemoteEntry* const step : StepsByAge(catalog)) {
    if (!step->pinned) dropped.insert(step->version);
  }
  for (const RemoteEntry* const step : NewestSteps(catalog, *options_->keep)) {
    dropped.erase(step->version);
  }
  return dropped;
}

absl::Status Collector::DropSteps(RemoteCatalog* catalog) {
  result_.dropped.clear();
  CKPTDB_ASSIGN_OR_RETURN(const std::set<Version> dropped,
                          ChooseSteps(*catalog));
  for (const RemoteEntry* const step : StepsByAge(*catalog)) {
    if (!dropped.contains(step->version)) continue;
    catalog->forgotten.push_back(step->state);
    result_.dropped.push_back(step->version.step);
  }
  for (RemoteEntry& entry : catalog->entries) {
    if (IsStep(entry) && dropped.contains(entry.version)) {
      entry.use = RemoteEntry::Use::kNeeded;
      entry.dropped_at_micros = 0;  // which older libraries leave set
    }
  }
  std::sort(result_.dropped.begin(), result_.dropped.end());
  MarkNeeded(catalog);
  return absl::OkStatus();
}

// `now` is the service's time of the first catalog, in which the entries of
// dropped_ were dropped. Others wait for the next collection.
void Collector::SetHorizon(absl::Time now, RemoteCatalog* catalog) {
  const int64_t now_micros = absl::ToUnixMicros(now);
  const int64_t horizon = absl::ToUnixMicros(now - options_->grace);
  result_.waiting_bytes = 0;
  for (RemoteEntry& entry : catalog->entries) {
    if (entry.use == RemoteEntry::Use::kDropped &&
        entry.dropped_at_micros == 0 &&
        dropped_.contains({entry.version, entry.epoch})) {
      entry.dropped_at_micros = now_micros;
    }
  }
  std::erase_if(catalog->entries, [&](const RemoteEntry& entry) {
    return entry.use == RemoteEntry::Use::kDropped &&
           entry.dropped_at_micros != 0 && entry.dropped_at_micros <= horizon;
  });
  for (const RemoteEntry& entry : catalog->entries) {
    if (entry.use != RemoteEntry::Use::kDropped) continue;
    result_.waiting_bytes += entry.object_bytes + entry.data_bytes;
  }
  catalog->horizon_micros = std::max(catalog->horizon_micros, horizon);
  horizon_ = absl::FromUnixMicros(horizon);
}

absl::Status Collector::Delete(const ObjectInfo& object) {
  CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_->cancelled));
  CKPTDB_RETURN_IF_ERROR(remote_->Delete(object.key));
  ++result_.deleted_objects;
  result_.deleted_bytes += object.size;
  return absl::OkStatus();
}

// An object whose key is not of this format, which a user may have put there,
// stays.
absl::Status Collector::DeleteUnnamed(
    absl::string_view prefix,
    const std::function<absl::StatusOr<bool>(absl::string_view)>& is_named) {
  std::string after;
  while (true) {
    CKPTDB_ASSIGN_OR_RETURN(const std::vector<ObjectInfo> page,
                            remote_->List(prefix, after, kPageKeys));
    for (const ObjectInfo& object : page) {
      if (object.modified >= horizon_) continue;
      if (is_named(object.key).value_or(true)) continue;
      CKPTDB_RETURN_IF_ERROR(Delete(object));
    }
    if (page.size() < kPageKeys) return absl::OkStatus();
    after = page.back().key;
  }
}

// Deletes old catalogs in ascending order, on which CheckNotStale in
// catalog_log.cc relies. Lists return the newest first. Foreign objects stay.
absl::Status Collector::DeleteCatalogs() {
  std::vector<ObjectInfo> old;
  std::string after = CatalogKey(catalog_.number);
  while (true) {
    CKPTDB_ASSIGN_OR_RETURN(const std::vector<ObjectInfo> page,
                            remote_->List(kCatalogPrefix, after, kPageKeys));
    for (const ObjectInfo& object : page) {
      if (ParseCatalogKey(object.key).ok()) old.push_back(object);
    }
    if (page.size() < kPageKeys) break;
    after = page.back().key;
  }
  std::reverse(old.begin(), old.end());
  for (const ObjectInfo& object : old) {
    // Those after it stay, too.
    if (object.modified >= horizon_) break;
    CKPTDB_RETURN_IF_ERROR(Delete(object));
  }
  return absl::OkStatus();
}

// Runs last. An error that a later call would return as well becomes a part of
// the result instead of failing the call, because uploads that stay only take
// space.
absl::Status Collector::AbortUploads() {
  for (const absl::string_view prefix :
       {kDataPrefix, kVersionsPrefix, kCatalogPrefix, kProbePrefix}) {
    absl::Status aborted = remote_->AbortUploads(prefix, horizon_);
    if (absl::IsUnavailable(aborted) || absl::IsCancelled(aborted)) {
      return aborted;
    }
    result_.uploads = std::move(aborted);
    if (!result_.uploads.ok()) break;
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
