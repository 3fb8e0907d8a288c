// SPDX-License-Identifier: Apache-2.0
// Checks and copies blocks of rows from a trainer; internal to the library.
#ifndef CKPTDB_DB_BASE_ROW_BLOCK_H_
#define CKPTDB_DB_BASE_ROW_BLOCK_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "db/base/call_guard.h"
#include "db/state.h"
#include "schema/bytes/lossy.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Returns the source's result. An exception becomes Internal.
inline absl::StatusOr<uint64_t> CountBlocks(const RowSource& rows) {
  return CallGuarded("RowSource::block_count",
                     [&] { return rows.block_count(); });
}
inline absl::StatusOr<RowBlock> GetBlock(const RowSource& rows,
                                         uint64_t block) {
  return CallGuarded("RowSource::Block", [&] { return rows.Block(block); });
}

// Returns InvalidArgument for enum values out of range, and for a lossy codec
// that does not support rows of this length and dtype.
absl::Status CheckEnums(DType dtype, Codec codec, uint64_t row_elements);

// Checks the slots of a table. Returns InvalidArgument naming the slot and the
// limit.
absl::Status CheckSlots(absl::Span<const Slot> slots);

// The values of rows that a device of this library has encoded with the slot's
// lossy codec, in all blocks of a source or in none. `rows` outlives the block.
// They are marked by an offset without places, which no trainer uses.
inline RowBlock::SlotValues EncodedValues(const EncodedRows* rows) {
  RowBlock::SlotValues values;
  values.data = rows;
  values.offset_bytes = ~uint64_t{0};
  return values;
}
// Returns the rows of EncodedValues, or null for other values.
inline const EncodedRows* EncodedOf(const RowBlock::SlotValues& values) {
  const bool encoded =
      values.places.empty() && values.offset_bytes == ~uint64_t{0};
  return encoded ? static_cast<const EncodedRows*>(values.data) : nullptr;
}

// Whether the values may be encoded already.
enum class EncodedSlots { kRefused, kTaken };

// Returns InvalidArgument naming the block's number unless the block has rows
// of `slots`.
absl::Status CheckRowBlock(uint64_t number, const RowBlock& block,
                           absl::Span<const Slot> slots,
                           EncodedSlots encoded = EncodedSlots::kRefused);
// Returns InvalidArgument unless both blocks encode the same slots.
absl::Status CheckEncodedAlike(const RowBlock& first, uint64_t number,
                               const RowBlock& block);

// Calls `function` with the row's bytes, as a constant where they are usual:
// then a row is copied without a call.
template <typename Function>
void WithRowBytes(uint64_t row_bytes, const Function& function) {
  switch (row_bytes) {
    case 4:
      return function(std::integral_constant<uint64_t, 4>());
    case 64:
      return function(std::integral_constant<uint64_t, 64>());
    case 128:
      return function(std::integral_constant<uint64_t, 128>());
    case 256:
      return function(std::integral_constant<uint64_t, 256>());
    default:
      return function(row_bytes);
  }
}

// Implements GatherRows.
template <typename Bytes, typename AddressOf>
void GatherRowsOf(uint64_t rows, Bytes row_bytes, const AddressOf& address_of,
                  char* to) {
  constexpr uint64_t kAhead = 16;
  constexpr uint64_t kLineBytes = 64;
  constexpr uint64_t kPrefetchedBytes = 8 * kLineBytes;
  const uint64_t prefetched = std::min<uint64_t>(row_bytes, kPrefetchedBytes);
  for (uint64_t i = 0; i < rows; ++i) {
    if (i + kAhead < rows) {
      const char* const ahead = address_of(i + kAhead);
      for (uint64_t at = 0; at < prefetched; at += kLineBytes) {
        __builtin_prefetch(ahead + at);
      }
    }
    std::memcpy(to + i * row_bytes, address_of(i), row_bytes);
  }
}

// Copies rows of one slot, row i from address_of(i), consecutively to `to`.
// Prefetches them, because they are scattered in the trainer's memory.
template <typename AddressOf>
void GatherRows(uint64_t rows, uint64_t row_bytes, const AddressOf& address_of,
                char* to) {
  WithRowBytes(row_bytes,
               [&](auto bytes) { GatherRowsOf(rows, bytes, address_of, to); });
}

// Implements ScatterRows.
template <typename Bytes, typename AddressOf>
void ScatterRowsOf(uint64_t rows, Bytes row_bytes, const char* from,
                   uint64_t stride_bytes, const AddressOf& address_of) {
  constexpr uint64_t kAhead = 16;
  for (uint64_t i = 0; i < rows; ++i) {
    if (i + kAhead < rows && row_bytes > sizeof(uint64_t)) {
      const char* const ahead = address_of(i + kAhead);
      __builtin_prefetch(ahead, 1);
      __builtin_prefetch(ahead + row_bytes - 1, 1);
    }
    std::memcpy(address_of(i), from + i * stride_bytes, row_bytes);
  }
}

// Copies rows of one slot to address_of(i), row i from `from` + i *
// `stride_bytes`. Prefetches the ends of each place, where a store writes a
// part of a line: arrays of NumPy begin 16 bytes after a line. Stores of whole
// lines need not read them.
template <typename AddressOf>
void ScatterRows(uint64_t rows, uint64_t row_bytes, const char* from,
                 uint64_t stride_bytes, const AddressOf& address_of) {
  WithRowBytes(row_bytes, [&](auto bytes) {
    ScatterRowsOf(rows, bytes, from, stride_bytes, address_of);
  });
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_ROW_BLOCK_H_
