// SPDX-License-Identifier: Apache-2.0
// The base class of the adapters of manager/tables.h. Not for users.
#ifndef CKPTDB_MANAGER_INTERNAL_ADAPTED_TABLE_H_
#define CKPTDB_MANAGER_INTERNAL_ADAPTED_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "manager/model_state.h"

namespace ckptdb {

struct TableOptions;

namespace internal {

class AdaptedTable : public TableState {
 public:
  std::vector<Slot> slots() const final { return slots_; }
  SliceHash slice_hash() const final;
  std::vector<std::string> optimizer_slots() const final;
  absl::Status status() const final { return status_; }

 protected:
  // An error in `made` takes precedence over errors in slots and options.
  AdaptedTable(absl::Status made, std::vector<Slot> slots,
               TableOptions options);

  const TableOptions& options() const { return *options_; }
  // Returns the indexes of the slots with these names, or nothing if one is
  // unknown or the table is invalid.
  std::optional<std::vector<size_t>> FindSlots(
      absl::Span<const std::string> names) const;

 private:
  const std::vector<Slot> slots_;
  const std::shared_ptr<const TableOptions> options_;
  absl::Status status_;
};

// An array of a VectorTable, with all elements of a slot or some of them.
struct AnyArray {
  Slot slot;
  char* data = nullptr;
  uint64_t stride_bytes = 0;
  uint32_t first = 0;
  uint32_t elements = slot.elements;

  uint64_t first_byte() const {
    return uint64_t{DTypeBytes(slot.dtype)} * first;
  }
  uint64_t row_bytes() const {
    return uint64_t{DTypeBytes(slot.dtype)} * elements;
  }
};

}  // namespace internal
}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_INTERNAL_ADAPTED_TABLE_H_
