// SPDX-License-Identifier: Apache-2.0
// Compares a store with the remote that it follows; internal to remote/.
#ifndef CKPTDB_REMOTE_SYNC_UPDATE_PLAN_H_
#define CKPTDB_REMOTE_SYNC_UPDATE_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/transfer/store_updater.h"
#include "schema/records/remote.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Returns FailedPrecondition unless the store contains only the remote's
// history: it has whole steps and the same uuid; versions in both agree in
// their lineage digests, which cover every byte; no attempt made different
// versions in the two; the remote's newest step is at least as new as the
// store's; and no step was saved here that the remote never had. `remote` is
// its name for errors.
//
// Steps that the remote has dropped are part of its history, but after a while
// it stops listing them. So an unlisted step counts as dropped if it is older
// than a version in both, or if it was fetched.
absl::Status CheckSameHistory(const LocalStore& store,
                              const RemoteCatalog& catalog,
                              const std::string& remote);

// Returns those of `steps` that the store lacks, oldest first. Returns
// FailedPrecondition if one would replace a step that is newer or pinned.
absl::StatusOr<std::vector<const RemoteEntry*>> StepsToAdd(
    const LocalStore& store, const std::vector<const RemoteEntry*>& steps,
    const std::string& remote);

// Returns the steps in both whose records differ. The remote's record may be
// the older one, or differ only in fields that the store keeps: see
// RevisedRecord.
absl::StatusOr<std::vector<const RemoteEntry*>> StepsToRevise(
    const LocalStore& store, const RemoteCatalog& catalog);

// Returns whether the store certainly has all data of `version` that `step`,
// which the store lacks, needs. A version that is no longer a step keeps only
// the data that existing steps need.
bool KeepsNeeded(const LocalStore& store, const Version& version,
                 const StepRecord& step);

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_SYNC_UPDATE_PLAN_H_
