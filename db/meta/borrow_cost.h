// Whether it pays to borrow an item; internal to db/.
//
// A file is removed as a whole, so a step that borrows one small tensor keeps
// all that lies in the same file. Small items that would keep far more than
// they save are stored again.
#ifndef CKPTDB_DB_META_BORROW_COST_H_
#define CKPTDB_DB_META_BORROW_COST_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

// A table of at least so many bytes shares no file with tensors and blobs. A
// smaller one costs more in a file of its own than that frees.
inline constexpr uint64_t kWorthAFileBytes = uint64_t{16} << 20;

using ItemNames = std::set<std::pair<Item::Kind, std::string>>;

// `stored` is the record of a version, of which a step would borrow those items
// for which `borrowed` returns true. Returns those of them that should be
// stored again: they are at most 1 MiB each, and all that is borrowed of their
// file is less than an eighth of the rest of it. Which items share a file is
// estimated by their order and sizes.
ItemNames CostlyToBorrow(const StepRecord::Rank& stored,
                         const std::function<bool(const Item&)>& borrowed);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_BORROW_COST_H_
