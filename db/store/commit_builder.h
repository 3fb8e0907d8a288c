// SPDX-License-Identifier: Apache-2.0
// Step 3a of a save: checks the staged parts, and makes the records to commit;
// internal to db/.
#ifndef CKPTDB_DB_STORE_COMMIT_BUILDER_H_
#define CKPTDB_DB_STORE_COMMIT_BUILDER_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "db/options.h"
#include "db/state.h"
#include "db/store/commit.h"
#include "db/store/step_catalog.h"
#include "db/store/store_components.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Returns the commit of a publish, with pointers to `ranks`, or the errors of
// Store::Publish: among them FailedPrecondition naming a table whose changed
// rows do not fit the parent's table. Writes nothing. The caller holds
// Committer::changes(), so the catalog does not change until the commit.
absl::StatusOr<Commit> BuildCommit(const StoreComponents& store,
                                   const Version& version,
                                   const SaveInProgress& save,
                                   absl::Span<const StagedRank> ranks,
                                   const SaveSpec& spec);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_COMMIT_BUILDER_H_
