// What the ranks of one save must agree on; internal to db/.
#ifndef CKPTDB_DB_META_CONSISTENCY_H_
#define CKPTDB_DB_META_CONSISTENCY_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ckptdb/schema/records.h"

namespace ckptdb::internal {

// Whether a table's run can be laid over that of `item`: the same slots in the
// same order, and the same slice hash.
bool SameColumns(const Item& item, absl::Span<const Slot> slots,
                 SliceHash slice_hash);

// InvalidArgument naming the item and two ranks: a tensor has one dtype and
// one global shape, and shards that are alike or disjoint; a table has one set
// of slots, one slice hash and one sharding, and is base runs only or delta
// runs only; of one that is replicated only rank 0 has rows, and one that is
// sharded by modulo or by slices is on every rank. `ranks`: all of a step.
absl::Status CheckRanksAgree(absl::Span<const RankRecord> ranks);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_CONSISTENCY_H_
