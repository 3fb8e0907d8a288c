// How the rows of a slot lie in a batch that leaves the device; internal to
// cuda/.
#ifndef CKPTDB_CUDA_TABLES_SLOT_FORM_H_
#define CKPTDB_CUDA_TABLES_SLOT_FORM_H_

#include <cstdint>

#include "ckptdb/cuda/rows/row_lanes.h"
#include "ckptdb/cuda/tables/upload.h"
#include "ckptdb/schema/bytes/lossy.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

// First come the values of all rows, or their codes, each padded to whole
// lanes; behind them the bounds of int8, 8 bytes a row.
class SlotForm {
 public:
  // The values as they are.
  static SlotForm Raw(const Slot& slot) {
    return {Codec::kNone, static_cast<uint32_t>(slot.row_bytes())};
  }
  // Their codes, if the codec of the slot is one that the device knows.
  static SlotForm Encoded(const Slot& slot) {
    if (!EncodesByRow(slot.codec, slot.dtype, slot.elements)) return Raw(slot);
    return {slot.codec,
            static_cast<uint32_t>(CodeBytes(slot.codec, slot.elements))};
  }

  Codec codec() const { return codec_; }  // kNone: as they are
  bool encoded() const { return codec_ != Codec::kNone; }
  uint64_t padded_bytes() const { return PaddedBytes(row_bytes_); }
  uint64_t bounds_bytes() const {
    return codec_ == Codec::kInt8 ? sizeof(Int8Bounds) : 0;
  }
  // Returns what a row takes, without what rounds rows up to whole lanes.
  uint64_t bytes() const { return padded_bytes() + bounds_bytes(); }
  // Where the bounds of so many rows begin, and how many bytes all have.
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
