// SPDX-License-Identifier: Apache-2.0
// The index from ids to the rows of a table in GPU memory. It is in host
// memory, as the batches come from there.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_ROW_INDEX_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_ROW_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace train_ctr {

// Gives the rows of a table to ids. Takes memory for rows that were given once,
// not for all that there could be. Not thread-safe.
class RowIndex {
 public:
  struct Inserted {
    int32_t row = 0;
    bool is_new = false;
  };

  // A table of so many rows, at most INT32_MAX, all of which hold nothing.
  explicit RowIndex(uint64_t rows) : capacity_(rows) {}

  // Returns the number of ids that have a row.
  size_t size() const { return rows_.size(); }
  std::optional<int32_t> Find(int64_t id) const;
  // Returns the row of the id, which it gets if it has none; nothing if all
  // rows are taken.
  std::optional<Inserted> Insert(int64_t id);
  // Takes the row from its id, which it returns.
  int64_t Erase(int32_t row);
  // Takes over the ids of all rows; `free_id` is that of rows that hold
  // nothing.
  void Rebuild(const std::vector<int64_t>& ids, int64_t free_id);

 private:
  uint64_t capacity_;
  absl::flat_hash_map<int64_t, int32_t> rows_;
  std::vector<int64_t> ids_;   // by row, of rows that were ever given
  std::vector<int32_t> free_;  // of these; the last one is given first
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_DEVICE_ROW_INDEX_H_
