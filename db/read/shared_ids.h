// SPDX-License-Identifier: Apache-2.0
// Finds ids that two ranks saved in one version; internal to db/.
#ifndef CKPTDB_DB_READ_SHARED_IDS_H_
#define CKPTDB_DB_READ_SHARED_IDS_H_

#include <functional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "db/options.h"
#include "db/read/step_reader_impl.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Returns DataLoss with the table, the id and both ranks if two ranks upsert an
// id in one version and no newer version upserts or erases it; a scan would
// then emit either row or both. `runs` are all runs of the table that the step
// needs, as RunsOf returns them. Versions for which `is_known` returns true
// have no shared ids and are not read. Adds to *hidden the versions whose
// shared ids are all upserted or erased by newer versions.
//
// Reads and merges the ids of each version that several ranks saved, and takes
// as much memory as a scan without slots.
absl::Status CheckNoSharedIds(
    const StepReader::Impl& step, const std::vector<RankItem>& runs,
    const std::function<bool(const Version&)>& is_known,
    const ReadOptions& options, std::set<Version>* hidden);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_READ_SHARED_IDS_H_
