// Whether a staged rank has all that its record tells of; internal to db/.
#ifndef CKPTDB_DB_META_COMPLETENESS_H_
#define CKPTDB_DB_META_COMPLETENESS_H_

#include "absl/status/status.h"
#include "ckptdb/schema/records.h"
#include "ckptdb/schema/staged.h"

namespace ckptdb::internal {

// `record` is that of `staged`. Entries for the write batch are compared with
// the digest of their item, those in files are counted. DataLoss naming an item
// of which some are missing, or what there is too much of.
absl::Status CheckComplete(const StagedRank& staged, const RankRecord& record);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_COMPLETENESS_H_
