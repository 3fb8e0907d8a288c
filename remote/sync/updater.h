// SPDX-License-Identifier: Apache-2.0
// Adds steps of a remote to a store; internal to remote/.
#ifndef CKPTDB_REMOTE_SYNC_UPDATER_H_
#define CKPTDB_REMOTE_SYNC_UPDATER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/transfer/store_updater.h"
#include "remote/object_store.h"
#include "remote/remote_store.h"
#include "remote/sync/downloader.h"
#include "schema/records/remote.h"
#include "schema/types.h"

namespace ckptdb::internal {

// One call of FetchStore with FetchOptions::update. Used by one thread.
class Updater {
 public:
  Updater(ObjectStore* remote, absl::string_view to,
          const FetchOptions* options)
      : remote_(remote),
        to_(to),
        options_(options),
        downloader_(remote, options) {}

  // Returns whether a store exists to which steps are added, and reads its
  // records.
  absl::StatusOr<bool> StoreExists();

  // After StoreExists has returned true: adds those of `steps` that the store
  // lacks, and removes those beyond FetchOptions::keep. Returns NotFound if an
  // object is missing; it may be called again with a newer catalog.
  absl::Status Update(const RemoteCatalog& catalog,
                      const std::vector<const RemoteEntry*>& steps);
  // Returns what all calls have done.
  FetchResult TakeResult();

 private:
  // A version that the store lacks, or may have only in part.
  struct Part {
    RemoteEntry entry;
    RemoteVersion records = {};
  };

  // Becomes the store's owner, adds steps and revises records.
  absl::Status Change(const RemoteCatalog& catalog,
                      const std::vector<const RemoteEntry*>& steps,
                      const std::vector<Part>& revisions);
  absl::StatusOr<std::vector<Part>> ReadRevisions(const RemoteCatalog& catalog,
                                                  const LocalStore& store);
  absl::Status ReadRecords(std::vector<Part>* parts, size_t first);
  absl::Status AddStep(const RemoteCatalog& catalog, const RemoteEntry& step,
                       StoreUpdater* updater);
  absl::StatusOr<std::vector<Part>> ReadParts(const RemoteCatalog& catalog,
                                              const RemoteEntry& step,
                                              const LocalStore& store);
  absl::StatusOr<std::vector<AddedVersion>> DownloadParts(
      const std::vector<Part>& parts, const Version& step,
      const StoreUpdater& updater);
  absl::Status RemoveOlder();

  ObjectStore* const remote_;
  const std::string to_;
  const FetchOptions* const options_;
  Downloader downloader_;
  LocalStore store_;  // as of StoreExists
  FetchResult result_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_SYNC_UPDATER_H_
