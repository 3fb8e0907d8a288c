// SPDX-License-Identifier: Apache-2.0
// Downloads steps and makes a store of them; internal to remote/.
#ifndef CKPTDB_REMOTE_SYNC_FETCHER_H_
#define CKPTDB_REMOTE_SYNC_FETCHER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/base/mutex.h"
#include "db/transfer/copy_entries.h"
#include "db/transfer/store_builder.h"
#include "remote/object_store.h"
#include "remote/remote_store.h"
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
    PartPlan plan;
    std::vector<RemoteFile> files;
  };
  // A data object, and the file that has what is wanted of it.
  struct Download {
    std::string key;
    std::string path;
    RemoteFile file;
    std::vector<KeyRange> ranges;  // if not all is wanted
  };

  absl::StatusOr<std::vector<const RemoteEntry*>> ChooseSteps(
      const RemoteCatalog& catalog) const;
  absl::Status TryFetch(const RemoteCatalog& catalog,
                        const std::vector<const RemoteEntry*>& steps);
  absl::Status AddVersions(const std::vector<const RemoteEntry*>& steps,
                           StoreBuilder* builder, std::vector<Part>* parts);
  absl::Status AddVersion(bool is_step, StoreBuilder* builder, Part* part);
  std::vector<Download> PlanDownloads(const std::string& folder,
                                      const std::vector<Part>& parts,
                                      std::vector<std::string>* tables);
  absl::Status Run(const std::vector<Download>& downloads);
  absl::Status ReadRange(const Download& download, uint64_t offset);
  absl::Status FinishFile(const Download& download);
  absl::Status Copy(const std::vector<Download>& downloads,
                    std::vector<std::string>* tables);
  void Report(uint64_t bytes);

  ObjectStore* const remote_;
  const std::string to_;
  const FetchOptions* const options_;
  const std::optional<StoreParts> parts_;  // none: whole steps
  FetchResult result_;
  uint64_t all_bytes_ = 0;
  Mutex mutex_;
  uint64_t done_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_SYNC_FETCHER_H_
