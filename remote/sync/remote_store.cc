// SPDX-License-Identifier: Apache-2.0
#include "remote/remote_store.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "db/base/home_process.h"
#include "db/transfer/version_source.h"
#include "remote/sync/catalog_log.h"
#include "remote/sync/catalog_steps.h"
#include "remote/sync/collector.h"
#include "remote/sync/fetcher.h"
#include "remote/sync/remote_retention.h"
#include "remote/sync/shipper.h"
#include "remote/sync/verifier.h"
#include "schema/status.h"

namespace ckptdb {
namespace internal {
namespace {

absl::StatusOr<RemoteCatalog> ExistingCatalog(ObjectStore* remote) {
  CKPTDB_ASSIGN_OR_RETURN(auto catalog, NewestCatalog(remote));
  if (catalog.has_value()) return *std::move(catalog);
  return absl::NotFoundError(
      absl::StrCat("nothing was shipped to ", remote->Name()));
}

uint64_t BytesOf(const RemoteEntry& entry) {
  return entry.object_bytes + entry.data_bytes;
}

RemoteStep StepOf(const RemoteCatalog& catalog, const RemoteEntry& entry) {
  RemoteStep step;
  step.version = entry.version;
  step.committed_at_micros = entry.committed_at_micros;
  step.kind = entry.kind;
  step.pinned = entry.pinned;
  step.ephemeral = entry.ephemeral;
  step.quarantined = entry.quarantined;
  step.versions = entry.needs.size() + 1;
  step.own_bytes = step.fetch_bytes = BytesOf(entry);
  for (const Version& version : entry.needs) {
    const RemoteEntry* const needed = FindEntry(catalog, version);
    if (needed != nullptr) step.fetch_bytes += BytesOf(*needed);
  }
  return step;
}

// Marks the steps that `newest` does not descend from. Steps before its first
// ancestor are no part of its training, such as imported ones.
absl::Status MarkAbandoned(ObjectStore* remote, const RemoteCatalog& catalog,
                           const RemoteEntry& newest, RemoteContent* content) {
  const auto record = ReadStepRecord(remote, newest);
  if (absl::IsDataLoss(record.status())) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(record.status());
  bool begun = false;
  for (RemoteStep& step : content->steps) {
    const Version state = FindEntry(catalog, step.version)->state;
    const bool ancestor = DescendsFrom(*record, state);
    begun = begun || ancestor;
    // Steps that were saved later are quarantined.
    step.abandoned = begun && !ancestor && state.attempt < newest.state.attempt;
  }
  return absl::OkStatus();
}

absl::StatusOr<RemoteContent> ListSteps(ObjectStore* remote,
                                        const ListOptions& options) {
  CKPTDB_ASSIGN_OR_RETURN(const RemoteCatalog catalog, ExistingCatalog(remote));
  RemoteContent content;
  content.store_uuid = catalog.root.uuid;
  content.catalog = catalog.number;
  content.epoch = catalog.epoch;
  content.written_at_micros = catalog.written_at_micros;
  for (const RemoteEntry& entry : catalog.entries) {
    const bool dropped = entry.use == RemoteEntry::Use::kDropped;
    (dropped ? content.dropped_bytes : content.bytes) += BytesOf(entry);
    if (IsStep(entry)) content.steps.push_back(StepOf(catalog, entry));
  }
  const RemoteEntry* const newest = NewestStep(catalog);
  if (newest != nullptr) content.latest_step = newest->version.step;
  if (newest != nullptr && options.abandoned) {
    CKPTDB_RETURN_IF_ERROR(MarkAbandoned(remote, catalog, *newest, &content));
  }
  return content;
}

absl::Status CheckConnections(absl::string_view option, int connections) {
  if (connections >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, " is ", connections, "; it must be at least 1"));
}

absl::Status CheckUpdate(const FetchOptions& options) {
  if (options.keep.has_value() && !options.update) {
    return absl::InvalidArgumentError(
        "FetchOptions::keep needs FetchOptions::update");
  }
  if (options.keep == uint64_t{0}) {
    return absl::InvalidArgumentError(
        "FetchOptions::keep is 0; it must be at least 1");
  }
  if (options.keep.has_value() && options.step.has_value()) {
    return absl::InvalidArgumentError(
        "FetchOptions::keep and FetchOptions::step are both set");
  }
  if (options.update && !(options.tables.empty() && options.items.empty())) {
    return absl::InvalidArgumentError(
        "FetchOptions::update adds whole steps; unset FetchOptions::tables and "
        "FetchOptions::items");
  }
  return absl::OkStatus();
}

absl::Status CheckParts(const FetchOptions& options) {
  const SliceRange& slices = options.slices;
  if (slices.begin >= slices.end || slices.end > kSlices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "FetchOptions::slices are from ", slices.begin, " to before ",
        slices.end, "; expected a range within 0 to ", kSlices));
  }
  const bool of_tables = !options.slots.empty() || slices != SliceRange();
  if (!of_tables || !options.tables.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "FetchOptions::slots and FetchOptions::slices need tables; name them in "
      "FetchOptions::tables");
}

// Damage of a catalog that was replaced meanwhile may be the work of a
// collector.
absl::StatusOr<VerifyRemoteResult> Verify(ObjectStore* remote,
                                          const VerifyRemoteOptions& options) {
  constexpr int kTries = 3;
  CKPTDB_RETURN_IF_ERROR(CheckConnections("VerifyRemoteOptions::connections",
                                          options.connections));
  for (int i = 1;; ++i) {
    CKPTDB_ASSIGN_OR_RETURN(const RemoteCatalog catalog,
                            ExistingCatalog(remote));
    CKPTDB_ASSIGN_OR_RETURN(VerifyRemoteResult result,
                            Verifier(remote, &options).Verify(catalog));
    if (result.damage.empty() || i == kTries) return result;
    CKPTDB_ASSIGN_OR_RETURN(const RemoteCatalog now, ExistingCatalog(remote));
    if (now.number == catalog.number) return result;
  }
}

}  // namespace
}  // namespace internal

absl::StatusOr<PushResult> PushStore(absl::string_view store,
                                     ObjectStore* remote,
                                     const PushOptions& options) {
  return internal::CallGuarded(
      "PushStore", [&]() -> absl::StatusOr<PushResult> {
        CKPTDB_ASSIGN_OR_RETURN(const auto source,
                                internal::OpenVersionSource(store));
        return internal::Shipper(remote, &options).Push(*source);
      });
}

absl::StatusOr<RemoteContent> ListRemote(ObjectStore* remote,
                                         const ListOptions& options) {
  return internal::CallGuarded(
      "ListRemote", [&] { return internal::ListSteps(remote, options); });
}

absl::StatusOr<FetchResult> FetchStore(ObjectStore* remote,
                                       absl::string_view to,
                                       const FetchOptions& options) {
  return internal::CallGuarded(
      "FetchStore", [&]() -> absl::StatusOr<FetchResult> {
        CKPTDB_RETURN_IF_ERROR(internal::EnterLibrary("FetchStore"));
        CKPTDB_RETURN_IF_ERROR(internal::CheckConnections(
            "FetchOptions::connections", options.connections));
        if (options.all && options.step.has_value()) {
          return absl::InvalidArgumentError(
              "FetchOptions::step and FetchOptions::all are both set");
        }
        CKPTDB_RETURN_IF_ERROR(internal::CheckParts(options));
        CKPTDB_RETURN_IF_ERROR(internal::CheckUpdate(options));
        return internal::Fetcher(remote, to, &options).Fetch();
      });
}

absl::StatusOr<VerifyRemoteResult> VerifyRemote(
    ObjectStore* remote, const VerifyRemoteOptions& options) {
  return internal::CallGuarded(
      "VerifyRemote", [&] { return internal::Verify(remote, options); });
}

absl::StatusOr<CollectResult> CollectRemote(ObjectStore* remote,
                                            const CollectOptions& options) {
  return internal::CallGuarded("CollectRemote", [&] {
    return internal::Collector(remote, &options).Collect();
  });
}

}  // namespace ckptdb
