// SPDX-License-Identifier: Apache-2.0
// Maps ids to rows during a restore; internal to cuda/.
#ifndef CKPTDB_CUDA_TABLES_ROW_INDEX_H_
#define CKPTDB_CUDA_TABLES_ROW_INDEX_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cuda/tables/table_rows.h"

namespace ckptdb::internal {

// Not thread-safe.
class RowIndex {
 public:
  struct Found {
    uint32_t row = 0;
    bool fresh = false;  // the row was empty
  };

  // The table must outlive it. All rows are empty.
  explicit RowIndex(const TableRows* table) : table_(*table) {}

  // Loads the ids of all rows of the table.
  absl::Status Load(absl::Span<const int64_t> ids);
  void Clear();

  // Returns the row of the id, or an empty row. Returns ResourceExhausted if no
  // row is empty, and OutOfRange for an id that no row of the table can have.
  absl::StatusOr<Found> Insert(int64_t id);
  // Returns the row of the id and frees it; if ids follow from the row numbers,
  // returns the id's row. Returns nullopt if it has no row.
  std::optional<uint32_t> Erase(int64_t id);
  // Makes erased rows available to new ids. Call it after the device has freed
  // the rows; otherwise it would free what was written there meanwhile.
  void Release(absl::Span<const uint32_t> rows);

 private:
  const TableRows& table_;
  absl::flat_hash_map<int64_t, uint32_t> rows_;
  // Empty rows: those in free_, the last one first, then all from next_ on.
  std::vector<uint32_t> free_;
  uint64_t next_ = 0;
};

// Returns the row whose id follows from first_id and id_step, if any.
std::optional<uint32_t> RowOfId(const TableRows& table, int64_t id);

// Returns OutOfRange for an id that no row of the table can have.
absl::Status CheckHasPlace(const TableRows& table, int64_t id);

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TABLES_ROW_INDEX_H_
