// Which row has which id, for the time of a restore; internal to cuda/.
#ifndef CKPTDB_CUDA_TABLES_ROW_INDEX_H_
#define CKPTDB_CUDA_TABLES_ROW_INDEX_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ckptdb/cuda/tables/table_rows.h"

namespace ckptdb::internal {

// Not thread-safe.
class RowIndex {
 public:
  struct Found {
    uint32_t row = 0;
    bool fresh = false;  // it held nothing
  };

  // The table outlives it. All rows hold nothing.
  explicit RowIndex(const TableRows* table) : table_(*table) {}

  // Takes the ids of all rows, as the table has them.
  absl::Status Load(absl::Span<const int64_t> ids);
  void Clear();

  // Returns the row of the id, or one that holds nothing. Returns
  // ResourceExhausted if all rows hold something; OutOfRange for an id that no
  // row of the table can have.
  absl::StatusOr<Found> Insert(int64_t id);
  // Returns the row of the id, which has no row then; of a table whose ids
  // follow from the row numbers, its row. None: there is no such row.
  std::optional<uint32_t> Erase(int64_t id);
  // Gives rows that were erased to new ids. Called when the device has freed
  // them: it would free what was written there meanwhile.
  void Release(absl::Span<const uint32_t> rows);

 private:
  const TableRows& table_;
  absl::flat_hash_map<int64_t, uint32_t> rows_;
  // Rows that hold nothing: these, the last one first, and those from next_ on.
  std::vector<uint32_t> free_;
  uint64_t next_ = 0;
};

// Returns the row whose id it is by first_id and id_step, if there is one.
std::optional<uint32_t> RowOfId(const TableRows& table, int64_t id);

// Returns OutOfRange for an id that no row of the table can have.
absl::Status CheckHasPlace(const TableRows& table, int64_t id);

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TABLES_ROW_INDEX_H_
