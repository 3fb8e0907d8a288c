// SPDX-License-Identifier: Apache-2.0
// Compares a store with a remote: whether the store continues the remote's
// steps, and which steps to ship; internal to remote/.
#ifndef CKPTDB_REMOTE_SYNC_CONTINUATION_H_
#define CKPTDB_REMOTE_SYNC_CONTINUATION_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/transfer/version_source.h"
#include "schema/records/remote.h"
#include "schema/types.h"

namespace ckptdb::internal {

// A store, and the name of a remote for errors. The catalogs passed to its
// methods are the remote's.
class StoreAndRemote {
 public:
  // `source` must outlive this object.
  StoreAndRemote(const VersionSource& source, std::string name)
      : source_(source), name_(std::move(name)) {}

  // Returns FailedPrecondition if the remote belongs to another store. A remote
  // without a catalog may belong to any.
  absl::Status CheckSameStore(const std::optional<RemoteCatalog>& base) const;
  // Returns FailedPrecondition if a push would overwrite steps that another
  // copy of the store has shipped.
  absl::Status CheckContinues(const RemoteCatalog& base) const;
  // Returns the steps to ship, ordered by attempt.
  absl::StatusOr<std::vector<StepRecord>> StepsToShip(
      const RemoteCatalog& base) const;
  // Returns whether the store has, or had, the entry's version. A copy of the
  // store that repeats a deterministic training makes versions with the same
  // bytes under another owner. Older libraries shipped no owners.
  bool IsKnown(const RemoteEntry& entry) const;

 private:
  absl::Status CheckSameAttempts(const RemoteCatalog& base) const;
  bool Continues(const RemoteEntry& last) const;
  absl::StatusOr<bool> IsSame(const RemoteCatalog& base,
                              const StepRecord& record) const;
  absl::StatusOr<bool> IsShipped(const RemoteCatalog& base,
                                 const StepRecord& record) const;

  const VersionSource& source_;
  const std::string name_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_SYNC_CONTINUATION_H_
