// SPDX-License-Identifier: Apache-2.0
// The calls of Store that save, from Begin to Publish or Abandon; internal to
// db/.
#ifndef CKPTDB_DB_STORE_SAVES_H_
#define CKPTDB_DB_STORE_SAVES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "db/options.h"
#include "db/state.h"
#include "db/store.h"
#include "db/store/store_components.h"
#include "schema/types.h"

namespace ckptdb::internal {

// They return the errors of Store's calls. StepCatalog holds the saves in
// progress. Each acquires Committer::changes().

// If `sync` is true, the attempt's record is durable on return.
absl::StatusOr<Store::Attempt> BeginSave(const StoreComponents& store,
                                         const SaveSpec& spec, bool sync);
absl::StatusOr<SaveResult> PublishSave(const StoreComponents& store,
                                       const Version& version,
                                       absl::Span<const StagedRank> ranks,
                                       const SaveSpec& spec);
absl::Status AbandonSave(const StoreComponents& store, const Version& version);
// Implements Store::Save, for a world of one rank.
absl::StatusOr<SaveResult> SaveAlone(const StoreComponents& store,
                                     const SaveSpec& spec,
                                     const RankState& state);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_SAVES_H_
