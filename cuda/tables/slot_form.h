// SPDX-License-Identifier: Apache-2.0
// The layout of a slot's rows in a batch that leaves the device; internal to
// cuda/.
#ifndef CKPTDB_CUDA_TABLES_SLOT_FORM_H_
#define CKPTDB_CUDA_TABLES_SLOT_FORM_H_

#include <cstdint>

#include "cuda/rows/row_lanes.h"
#include "cuda/tables/upload.h"
#include "schema/bytes/lossy.h"
#include "schema/types.h"

namespace ckptdb::internal {

// First the values or codes of all rows, each padded to whole lanes; then, for
// int8, the bounds, 8 bytes per row.
class SlotForm {
 public:
  // Unencoded values.
  static SlotForm Raw(const Slot& slot) {
    return {Codec::kNone, static_cast<uint32_t>(slot.row_bytes())};
  }
  // Codes, if the device supports the slot's codec; otherwise raw values.
  static SlotForm Encoded(const Slot& slot) {
    if (!EncodesByRow(slot.codec, slot.dtype, slot.elements)) return Raw(slot);
    return {slot.codec,
            static_cast<uint32_t>(CodeBytes(slot.codec, slot.elements))};
  }

  Codec codec() const { return codec_; }  // kNone: unencoded
  bool encoded() const { return codec_ != Codec::kNone; }
  uint64_t padded_bytes() const { return PaddedBytes(row_bytes_); }
  uint64_t bounds_bytes() const {
    return codec_ == Codec::kInt8 ? sizeof(Int8Bounds) : 0;
  }
  // Returns the bytes per row, without the padding of all bounds to lanes.
  uint64_t bytes() const { return padded_bytes() + bounds_bytes(); }
  // The offset of the bounds of `rows` rows, and the size of everything.
  uint64_t BoundsAt(uint64_t rows) const { return rows * padded_bytes(); }
  uint64_t BytesOf(uint64_t rows) const {
    return BoundsAt(rows) + AlignLane(rows * bounds_bytes());
  }

 private:
  SlotForm(Codec codec, uint32_t row_bytes)
      : codec_(codec), row_bytes_(row_bytes) {}

  Codec codec_;
  uint32_t row_bytes_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TABLES_SLOT_FORM_H_
