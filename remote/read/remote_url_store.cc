// SPDX-License-Identifier: Apache-2.0
#include "remote/read/remote_url_store.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "db/base/cancelled.h"
#include "db/base/mutex.h"
#include "db/base/parallel.h"
#include "db/transfer/record_store.h"
#include "remote/layout/object_keys.h"
#include "remote/ranges/ranged_objects.h"
#include "remote/sync/catalog_log.h"
#include "remote/sync/catalog_steps.h"
#include "remote/sync/version_object.h"
#include "schema/records/remote.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

class RemoteUrlStore : public UrlStore {
 public:
  RemoteUrlStore(std::shared_ptr<ObjectStore> remote, UrlOptions options,
                 std::unique_ptr<RecordStore> store)
      : remote_(std::move(remote)),
        options_(std::move(options)),
        store_(std::move(store)) {}

  const std::string& path() const override { return store_->path(); }
  const std::shared_ptr<Environment>& environment() const override {
    return store_->environment();
  }
  absl::Status Refresh() override;

 private:
  using Entries = std::map<Version, RemoteEntry>;

  absl::Status ReadCatalog(const RemoteCatalog& catalog)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AddEntries(const std::vector<const RemoteEntry*>& entries,
                          RecordStore::Change* change) const;

  const std::shared_ptr<ObjectStore> remote_;
  const UrlOptions options_;
  Mutex mutex_;
  const std::unique_ptr<RecordStore> store_;
  uint64_t number_ ABSL_GUARDED_BY(mutex_) = 0;  // of the catalog that it has
  Entries entries_ ABSL_GUARDED_BY(mutex_);
};

// Another process may collect what a catalog names, after putting a newer one.
absl::Status RemoteUrlStore::Refresh() {
  const MutexLock lock(&mutex_);
  absl::Status status;
  uint64_t tried = 0;
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    CKPTDB_ASSIGN_OR_RETURN(const auto catalog, NewestCatalog(remote_.get()));
    if (!catalog.has_value()) {
      return absl::NotFoundError(
          absl::StrCat("nothing was shipped to ", remote_->Name()));
    }
    if (catalog->number == number_) return absl::OkStatus();
    if (catalog->number == tried) return absl::DataLossError(status.message());
    tried = catalog->number;
    status = ReadCatalog(*catalog);
    if (!absl::IsNotFound(status)) return status;
  }
  return absl::AbortedError(status.message());
}

absl::Status RemoteUrlStore::ReadCatalog(const RemoteCatalog& catalog) {
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RemoteEntry> needed,
                          NeededEntries(catalog, StepsByAge(catalog)));
  Entries now;
  for (const RemoteEntry& entry : needed) now[entry.version] = entry;
  const Entries* const before = &entries_;
  std::vector<const RemoteEntry*> added;
  for (const auto& [version, entry] : now) {
    const auto known = before->find(version);
    if (known == before->end() || known->second != entry) {
      added.push_back(&entry);
    }
  }
  const auto make = [&](RecordStore::Change* change) -> absl::Status {
    for (const auto& [version, entry] : *before) {
      const auto kept = now.find(version);
      if (kept != now.end() && kept->second == entry) continue;
      CKPTDB_RETURN_IF_ERROR(change->Remove(version, IsStep(entry)));
    }
    return AddEntries(added, change);
  };
  CKPTDB_RETURN_IF_ERROR(store_->Apply(catalog.root, make));
  entries_ = std::move(now);
  number_ = catalog.number;
  return absl::OkStatus();
}

absl::Status RemoteUrlStore::AddEntries(
    const std::vector<const RemoteEntry*>& entries,
    RecordStore::Change* change) const {
  return ParallelFor(
      options_.remote.connections, entries.size(),
      [&](int, uint64_t i) -> absl::Status {
        const RemoteEntry& entry = *entries[i];
        CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_.remote.cancelled));
        CKPTDB_ASSIGN_OR_RETURN(const RemoteVersion version,
                                ReadVersionObject(remote_.get(), entry));
        std::vector<OutsideTable> tables;
        for (const RemoteFile& file : version.files) {
          tables.push_back(
              {DataObjectKey({entry.epoch, entry.version, file.number}),
               file.bytes, file.first_key, file.last_key});
        }
        return change->Add(entry.version, version, IsStep(entry),
                           std::move(tables));
      },
      PollOf(options_.remote.cancelled));
}

}  // namespace

absl::StatusOr<std::unique_ptr<UrlStore>> OpenRemoteUrlStore(
    std::shared_ptr<ObjectStore> remote, const UrlOptions& options) {
  if (options.remote.connections < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("RemoteOptions::connections is ",
                     options.remote.connections, "; it must be at least 1"));
  }
  CKPTDB_ASSIGN_OR_RETURN(
      auto store,
      RecordStore::Create(remote->Name(), std::make_shared<RangedObjects>(
                                              remote, options.memory_bytes,
                                              options.remote.cancelled)));
  auto opened = std::make_unique<RemoteUrlStore>(std::move(remote), options,
                                                 std::move(store));
  CKPTDB_RETURN_IF_ERROR(opened->Refresh());
  return opened;
}

}  // namespace ckptdb::internal
