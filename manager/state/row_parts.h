// SPDX-License-Identifier: Apache-2.0
// Rows of a table that are read in place; internal to manager/.
#ifndef CKPTDB_MANAGER_STATE_ROW_PARTS_H_
#define CKPTDB_MANAGER_STATE_ROW_PARTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "db/state.h"

namespace ckptdb::internal {

// A source of rows whose blocks are parts of the table's own arrays.
class RowParts : public RowSource {
 public:
  uint64_t block_count() const override { return parts_.size(); }
  absl::StatusOr<RowBlock> Block(uint64_t block) const override {
    const Part& part = parts_[block];
    return RowBlock{part.ids, part.slots, part.rows};
  }

 protected:
  struct Part {
    absl::Span<const int64_t> ids;
    std::vector<RowBlock::SlotValues> slots;
    std::vector<uint32_t> rows;    // in the part; empty: the first ones
    std::vector<int64_t> own_ids;  // if no array stores the ids contiguously
  };

  std::vector<Part> parts_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_ROW_PARTS_H_
