// SPDX-License-Identifier: Apache-2.0
// Checks that the ranks of one save are consistent; internal to db/.
#ifndef CKPTDB_DB_META_CONSISTENCY_H_
#define CKPTDB_DB_META_CONSISTENCY_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "schema/types.h"

namespace ckptdb::internal {

// `ranks` are all ranks of a step. Returns InvalidArgument naming the item and
// two ranks unless
// - a tensor has one dtype and one global shape, its shards are equal or
//   disjoint, and each element is in one;
// - a table has one set of slots, one slice hash and one sharding, and base
//   runs only or delta runs only;
// - of a replicated table only rank 0 has rows;
// - a table that is sharded by modulo or by slices is on every rank.
absl::Status CheckRanksAgree(absl::Span<const StepRecord::Rank> ranks);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_CONSISTENCY_H_
