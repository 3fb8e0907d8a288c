// Ids that are on two ranks at once; internal to db/.
#ifndef CKPTDB_DB_READ_SHARED_IDS_H_
#define CKPTDB_DB_READ_SHARED_IDS_H_

#include <functional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "ckptdb/db/options.h"
#include "ckptdb/db/read/step_reader_impl.h"
#include "ckptdb/schema/keys.h"

namespace ckptdb::internal {

// DataLoss naming table, id and both ranks when two ranks have an id in what
// `runs`, all of a table that the step needs as RunsOf gave them, come to: when
// both upsert it in one version, and no newer version upserts or erases it. In
// that case a scan hands out both rows or either. `is_known` says of versions
// that no two of their runs share an id, and are not read again. Adds to
// *hidden those whose runs do, of ids that newer versions upsert or erase.
//
// Reads the ids of each version that several ranks saved, and merges them: as
// much memory as a scan of no slot.
absl::Status CheckNoSharedIds(
    const StepReader::Impl& step, const std::vector<RankItem>& runs,
    const std::function<bool(const Version&)>& is_known,
    const ReadOptions& options, std::set<Version>* hidden);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_READ_SHARED_IDS_H_
