// SPDX-License-Identifier: Apache-2.0
// Drops steps of a remote and deletes objects; internal to remote/.
#ifndef CKPTDB_REMOTE_SYNC_COLLECTOR_H_
#define CKPTDB_REMOTE_SYNC_COLLECTOR_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "remote/object_store.h"
#include "remote/remote_store.h"
#include "remote/sync/remote_retention.h"
#include "schema/records/remote.h"
#include "schema/types.h"

namespace ckptdb::internal {

// One collection. Used by one thread.
//
// It commits two catalogs of the owner's epoch: the first without the dropped
// steps, whose time is the service's; the second with the horizon, without
// versions that were dropped before it. Then it deletes objects that the second
// does not name and that are older than the horizon. An owner that commits
// meanwhile does so before the second, which then names its objects, or after
// it, and then it knows the horizon: see Shipper::CheckPending.
class Collector {
 public:
  // `cache` may be null.
  Collector(ObjectStore* remote, const CollectOptions* options,
            StepRecordCache* cache = nullptr)
      : remote_(remote),
        options_(options),
        cache_(cache == nullptr ? &own_cache_ : cache) {}

  absl::StatusOr<CollectResult> Collect();

 private:
  using Change = std::function<absl::Status(RemoteCatalog*)>;
  absl::Status Commit(const Change& change);
  absl::StatusOr<std::set<Version>> ChooseSteps(const RemoteCatalog& catalog);
  absl::Status DropSteps(RemoteCatalog* catalog);
  void SetHorizon(absl::Time now, RemoteCatalog* catalog);
  absl::Status DeleteUnnamed(
      absl::string_view prefix,
      const std::function<absl::StatusOr<bool>(absl::string_view)>& is_named);
  absl::Status DeleteCatalogs();
  absl::Status AbortUploads();
  absl::Status Delete(const ObjectInfo& object);

  ObjectStore* const remote_;
  const CollectOptions* const options_;
  StepRecordCache own_cache_;
  StepRecordCache* const cache_;
  RemoteCatalog catalog_;  // the one that this call committed last
  std::set<std::pair<Version, uint64_t>> dropped_;  // in the first catalog
  absl::Time horizon_;
  CollectResult result_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_SYNC_COLLECTOR_H_
