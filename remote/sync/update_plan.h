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

// Returns FailedPrecondition unless the store has the remote's history, and
// nothing newer: it has whole steps and the same uuid; a version of both has
// the same lineage digest, which covers every byte; no attempt made another
// version here; the remote has a step at least as new as the newest one here;
// and no step was saved here that the remote never had. `remote` names it.
//
// Steps that the remote has dropped are part of its history. It no longer lists
// old ones, so a step that it does not know may have been one of them if it is
// older than a version of both, or if it was fetched.
absl::Status CheckSameHistory(const LocalStore& store,
                              const RemoteCatalog& catalog,
                              const std::string& remote);

// Returns those of `steps` that the store lacks, oldest first. Returns
// FailedPrecondition if one would replace a step that is newer or pinned.
absl::StatusOr<std::vector<const RemoteEntry*>> StepsToAdd(
    const LocalStore& store, const std::vector<const RemoteEntry*>& steps,
    const std::string& remote);

// Returns the steps of both whose record the remote has in another revision. It
// may be an older one, or differ in what the store keeps: see RevisedRecord.
absl::StatusOr<std::vector<const RemoteEntry*>> StepsToRevise(
    const LocalStore& store, const RemoteCatalog& catalog);

// Whether the store certainly keeps all that `step`, which it lacks, needs of a
// version. A version that is no longer a step keeps only what steps need.
bool KeepsNeeded(const LocalStore& store, const Version& version,
                 const StepRecord& step);

}  // namespace ckptdb::internal

#endif  // CKPTDB_REMOTE_SYNC_UPDATE_PLAN_H_
