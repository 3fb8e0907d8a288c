// SPDX-License-Identifier: Apache-2.0
#include "db/base/row_block.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/codec.h"
#include "schema/bytes/lossy.h"
#include "schema/bytes/names.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

absl::Status Bad(uint64_t number, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("block ", number, " has ", why));
}

// Checks a slot from a caller by the rules of the format.
absl::Status CheckSlot(const Slot& slot) {
  CKPTDB_RETURN_IF_ERROR(CheckName("slot name", slot.name));
  CKPTDB_RETURN_IF_ERROR(
      Annotate(CheckEnums(slot.dtype, slot.codec, slot.elements),
               absl::StrCat("slot \"", slot.name, "\"")));
  if (slot.row_bytes() >= 1 && slot.row_bytes() <= kMaxSlotBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("slot \"", slot.name, "\" of ", slot.elements, " x ",
                   DTypeName(slot.dtype), " has ", slot.row_bytes(),
                   " bytes per row; expected 1 to ", kMaxSlotBytes));
}

// Checks a block that has a pointer to each row of a slot.
absl::Status CheckPlaces(uint64_t number, const RowBlock& block,
                         absl::string_view slot, uint64_t places) {
  if (!block.rows.empty()) {
    return Bad(number, absl::StrCat("both places of slot \"", slot,
                                    "\" and RowBlock::rows; set one of them"));
  }
  if (places == block.ids.size()) return absl::OkStatus();
  return Bad(number, absl::StrCat(places, " places of slot \"", slot,
                                  "\", and ", block.ids.size(),
                                  " ids; give one place for each id"));
}

// Checks a block whose rows of a slot are already encoded.
absl::Status CheckEncoded(uint64_t number, const EncodedRows& rows,
                          const Slot& slot, EncodedSlots encoded) {
  if (encoded == EncodedSlots::kTaken && rows.codes != nullptr &&
      rows.codec == slot.codec &&
      EncodesByRow(rows.codec, slot.dtype, slot.elements)) {
    return absl::OkStatus();
  }
  return Bad(number,
             absl::StrCat("rows of slot \"", slot.name, "\" under codec ",
                          CodecName(rows.codec), ", which are accepted ",
                          encoded == EncodedSlots::kTaken
                              ? "only if the slot has this codec"
                              : "only from device captures"));
}

// Checks the array that holds the block's rows of a slot.
absl::Status CheckArray(uint64_t number, const RowBlock& block, size_t s,
                        const Slot& slot) {
  if (block.slots[s].data == nullptr) {
    return Bad(number, absl::StrCat("no data for slot \"", slot.name,
                                    "\"; set SlotValues::data or places"));
  }
  const uint64_t stride = block.slots[s].stride_bytes;
  // A single row needs no stride.
  const bool one = block.ids.size() == 1 && block.rows.empty();
  // With a smaller stride, rows would overlap: a mistake in the units.
  if (one || stride >= slot.row_bytes()) return absl::OkStatus();
  return Bad(number, absl::StrCat("stride ", stride, " of slot \"", slot.name,
                                  "\"; expected at least ", slot.row_bytes(),
                                  " bytes, ", slot.elements, " x ",
                                  DTypeName(slot.dtype)));
}

}  // namespace

// An enum from a caller may have any value, so it is checked before it indexes
// an array.
absl::Status CheckEnums(DType dtype, Codec codec, uint64_t row_elements) {
  const auto number = [](auto value) { return static_cast<int>(value); };
  if (number(dtype) >= kDTypes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "invalid dtype ", number(dtype), "; expected less than ", kDTypes));
  }
  if (codec == Codec::kAuto ||
      CodecFromStored(static_cast<uint8_t>(codec)).ok()) {
    return CheckLossy(codec, dtype, row_elements);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("invalid codec ", number(codec),
                   "; expected 0 (none), 1 (lz4), 2 (shuffle-lz4), 3 "
                   "(bf16), 4 (int8) or 255 (auto)"));
}

absl::Status CheckSlots(absl::Span<const Slot> slots) {
  if (slots.empty() || slots.size() > kMaxSlots) {
    return absl::InvalidArgumentError(absl::StrCat(
        "it has ", slots.size(), " slots; expected 1 to ", kMaxSlots));
  }
  std::set<std::string> names;
  for (const Slot& slot : slots) {
    CKPTDB_RETURN_IF_ERROR(CheckSlot(slot));
    if (names.insert(slot.name).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("duplicate slot \"", slot.name, "\""));
  }
  return absl::OkStatus();
}

absl::Status CheckRowBlock(uint64_t number, const RowBlock& block,
                           absl::Span<const Slot> slots, EncodedSlots encoded) {
  const uint64_t rows = block.ids.size();
  if (rows > kMaxBlockRows) {
    return Bad(number,
               absl::StrCat(rows, " rows; the limit is ", kMaxBlockRows));
  }
  if (!block.rows.empty() && block.rows.size() != rows) {
    return Bad(number,
               absl::StrCat("places of ", block.rows.size(), " rows, and ",
                            rows, " ids; give one row number for each id"));
  }
  // An empty block needs no slots.
  if (rows == 0) return absl::OkStatus();
  if (block.slots.size() != slots.size()) {
    return Bad(number,
               absl::StrCat(block.slots.size(), " slots, not ", slots.size()));
  }
  for (size_t s = 0; s < slots.size(); ++s) {
    const RowBlock::SlotValues& values = block.slots[s];
    if (EncodedOf(values) != nullptr) {
      CKPTDB_RETURN_IF_ERROR(
          CheckEncoded(number, *EncodedOf(values), slots[s], encoded));
    } else if (!values.places.empty()) {
      CKPTDB_RETURN_IF_ERROR(
          CheckPlaces(number, block, slots[s].name, values.places.size()));
    } else {
      CKPTDB_RETURN_IF_ERROR(CheckArray(number, block, s, slots[s]));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckEncodedAlike(const RowBlock& first, uint64_t number,
                               const RowBlock& block) {
  for (size_t s = 0; s < block.slots.size(); ++s) {
    const bool encoded = EncodedOf(block.slots[s]) != nullptr;
    if (encoded == (EncodedOf(first.slots[s]) != nullptr)) continue;
    return Bad(number, absl::StrCat("slot ", s, encoded ? "" : " not",
                                    " encoded, unlike an earlier block"));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
