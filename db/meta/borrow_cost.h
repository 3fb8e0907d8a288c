// SPDX-License-Identifier: Apache-2.0
// Whether borrowing an item is worth the space it keeps; internal to db/.
//
// A file is deleted as a whole, so a step that borrows one small tensor keeps
// everything else in the same file. Items that would keep far more than they
// save are stored again.
#ifndef CKPTDB_DB_META_BORROW_COST_H_
#define CKPTDB_DB_META_BORROW_COST_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "schema/types.h"

namespace ckptdb::internal {

// Returns whether `item` begins a new file, after `before` in a file of
// `file_bytes`. A table of 16 MiB or more shares no file with its neighbors. A
// smaller one, which costs more in a separate file than that frees, shares its
// file with other tables, but with the blobs before it only if their sum is
// below 4 MiB, and so with the tensors after it, whose sum is `tensor_bytes`:
// later steps need its run for longer than them.
bool BeginsFile(const Item& before, uint64_t file_bytes, const Item& item,
                uint64_t item_bytes, uint64_t tensor_bytes);

// Identifies an item that a version stored among those of its rank, by kind,
// name and first chunk.
using ItemKey = std::tuple<Item::Kind, std::string, uint32_t>;
using ItemKeys = std::set<ItemKey>;

template <typename AnyItem>
ItemKey KeyOf(const AnyItem& item) {
  return {item.kind, item.name, item.first_chunk};
}

// A file of a version, and the items that a step borrows from it.
struct BorrowedFile {
  Version version;
  uint64_t bytes = 0;
  uint64_t borrowed_bytes = 0;
  bool borrows_large = false;  // an item of more than 1 MiB
  ItemKeys borrowed;

  uint64_t unused_bytes() const { return bytes - borrowed_bytes; }
  // Returns whether no borrowed item is larger than 1 MiB, and all of them
  // together are less than an eighth of the rest of the file.
  bool IsCostly() const;
};

// `stored` is the record of a version, from which a step would borrow the items
// for which `borrowed` returns true. Returns the files that contain one. Which
// items share a file is estimated from their order and sizes.
std::vector<BorrowedFile> BorrowedFiles(
    const StepRecord::Rank& stored,
    const std::function<bool(const Item&)>& borrowed);

// Returns the items of the costly files.
ItemKeys CostlyToBorrow(const StepRecord::Rank& stored,
                        const std::function<bool(const Item&)>& borrowed);

// Returns the files of which the smallest part is borrowed, as many as it takes
// for the others to have at most `limit` unused bytes.
std::vector<BorrowedFile> LeastUsed(std::vector<BorrowedFile> files,
                                    uint64_t limit);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_BORROW_COST_H_
