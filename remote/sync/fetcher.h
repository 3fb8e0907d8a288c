// SPDX-License-Identifier: Apache-2.0
// Downloads steps to a store; internal to remote/.
#ifndef CKPTDB_REMOTE_SYNC_FETCHER_H_
#define CKPTDB_REMOTE_SYNC_FETCHER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/base/mutex.h"
#include "db/transfer/store_builder.h"
#include "remote/object_store.h"
#include "remote/remote_store.h"
#include "remote/sync/downloader.h"
#include "remote/sync/part_plan.h"
#include "schema/records/records.h"
#include "schema/records/remote.h"

namespace ckptdb::internal {

// One fetch. Used by one thread.
class Fetcher {
 public:
  Fetcher(ObjectStore* remote, absl::string_view to,
          const FetchOptions* options);

  absl::StatusOr<FetchResult> Fetch();

 private:
  // A version and its data files.
  struct Part {
    RemoteEntry entry;
    bool is_step = false;  // otherwise, steps need its data
    std::optional<RemoteVersion> records = {};  // if they were read
    PartPlan plan = {};
    std::vector<RemoteFile> files = {};
  };

  absl::StatusOr<std::vector<const RemoteEntry*>> ChooseSteps(
      const RemoteCatalog& catalog) const;
  absl::Status MakeStore(const RemoteCatalog& catalog,
                         const std::vector<const RemoteEntry*>& steps);
  absl::Status CheckParts(std::vector<Part>* parts);
  absl::Status AddVersions(StoreBuilder* builder, std::vector<Part>* parts);
  absl::Status AddVersion(StoreBuilder* builder, Part* part);
  static std::vector<Download> PlanDownloads(const std::string& folder,
                                             const std::vector<Part>& parts,
                                             Downloader* downloader);

  ObjectStore* const remote_;
  const std::string to_;
  const FetchOptions* const options_;
  const std::optional<StoreParts> parts_;  // none: whole steps
  FetchResult result_;
  Mutex mutex_;  // while versions are added
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_SYNC_FETCHER_H_
