// SPDX-License-Identifier: Apache-2.0
#include "schema/records/item_checks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "schema/bytes/codec.h"
#include "schema/bytes/dtype.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/lossy.h"
#include "schema/bytes/names.h"
#include "schema/bytes/shape.h"
#include "schema/records/checks.h"
#include "schema/records/envelope.h"
#include "schema/records/shards.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Turns an error in a part of an item into an error of the item.
absl::Status InItem(const Item& item, const absl::Status& status) {
  if (status.ok()) return status;
  return BadItem(item, absl::StrCat("is invalid: ", status.message()));
}

// Checks that the shape takes this many bytes, and that the shard lies within
// the tensor.
absl::Status CheckTensor(const Item& item) {
  const uint32_t element_bytes = DTypeBytes(item.dtype);
  const absl::StatusOr<int64_t> elements =
      ElementCount(item.shape, element_bytes);
  CKPTDB_RETURN_IF_ERROR(InItem(item, elements.status()));
  CKPTDB_RETURN_IF_ERROR(
      InItem(item, ElementCount(item.global_shape, element_bytes).status()));
  CKPTDB_RETURN_IF_ERROR(InItem(
      item, CheckBoxWithin({item.offset, item.shape}, item.global_shape)));
  const uint64_t bytes = static_cast<uint64_t>(*elements) * element_bytes;
  if (bytes == item.raw_bytes) return absl::OkStatus();
  return BadItem(item,
                 absl::StrCat("has ", item.raw_bytes, " raw bytes; shape ",
                              ToString(item.shape), " takes ", bytes));
}

absl::Status CheckBlob(const Item& item) {
  if (item.raw_bytes <= kMaxBlobBytes) return absl::OkStatus();
  return BadItem(
      item, absl::StrCat("has ", item.raw_bytes,
                         " raw bytes; the limit of a blob is ", kMaxBlobBytes));
}

// The bytes determine the number of chunks. Readers rely on it to index the
// hashes.
absl::Status CheckChunks(const Item& item) {
  const uint64_t chunks = ChunkCount(item.raw_bytes);
  if (chunks == item.chunk_hashes.size()) return absl::OkStatus();
  return BadItem(item, absl::StrCat("has ", item.chunk_hashes.size(),
                                    " chunk hashes; expected ", chunks));
}

// Checks the names and widths of slots, from which the size of a row is
// computed.
absl::Status CheckSlots(const Item& item) {
  std::set<absl::string_view> names;
  for (const Slot& slot : item.slots) {
    CKPTDB_RETURN_IF_ERROR(InItem(item, CheckName("slot name", slot.name)));
    if (!names.insert(slot.name).second) {
      return BadItem(item,
                     absl::StrCat("has duplicate slot \"", slot.name, "\""));
    }
    if (slot.row_bytes() == 0 || slot.row_bytes() > kMaxSlotBytes) {
      return BadItem(
          item,
          absl::StrCat("has slot \"", slot.name, "\" of ", slot.row_bytes(),
                       " bytes per row; expected 1 to ", kMaxSlotBytes));
    }
  }
  return absl::OkStatus();
}

// Returns the bytes of a row with its id; the slots have been checked.
uint64_t RowBytes(const Item& item) {
  uint64_t bytes = sizeof(int64_t);
  for (const Slot& slot : item.slots) bytes += slot.row_bytes();
  return bytes;
}

uint64_t WidestSlotBytes(const Item& item) {
  uint64_t widest = sizeof(int64_t);
  for (const Slot& slot : item.slots) {
    widest = std::max(widest, slot.row_bytes());
  }
  return widest;
}

// Checks that rows, erased ids and bytes agree, and that no page exceeds its
// limit.
absl::Status CheckRows(const Item& item) {
  if (item.run == Item::Run::kBase && item.erased_rows != 0) {
    return BadItem(item, absl::StrCat("has ", item.erased_rows,
                                      " erased ids in a base run"));
  }
  const uint64_t most = kPageBytes / WidestSlotBytes(item);
  if (item.rows_per_page == 0 || item.rows_per_page > most) {
    return BadItem(item, absl::StrCat("has ", item.rows_per_page,
                                      " rows per page; expected 1 to ", most));
  }
  uint64_t rows = 0;
  uint64_t erased = 0;
  uint64_t bytes = 0;
  // The counts of a damaged record may be anything, so a product that overflows
  // must not pass.
  if (!__builtin_mul_overflow(item.rows, RowBytes(item), &rows) &&
      !__builtin_mul_overflow(item.erased_rows, sizeof(int64_t), &erased) &&
      !__builtin_add_overflow(rows, erased, &bytes) &&
      bytes == item.raw_bytes) {
    return absl::OkStatus();
  }
  return BadItem(
      item,
      absl::StrCat("has ", item.raw_bytes, " raw bytes; expected ", item.rows,
                   " rows of ", RowBytes(item), " bytes and ", item.erased_rows,
                   " erased ids of ", sizeof(int64_t), " bytes"));
}

// Only a table has a sharding, only a custom sharding has a name, and only one
// by range has ids.
absl::Status CheckSharding(const Item& item) {
  const bool custom = item.sharding == Item::Sharding::kCustom;
  if (item.kind != Item::Kind::kRows &&
      item.sharding != Item::Sharding::kUndeclared) {
    return BadItem(
        item, absl::StrCat("has sharding ", static_cast<int>(item.sharding),
                           ", which only a table may have"));
  }
  const bool by_range = item.sharding == Item::Sharding::kByRange;
  if (by_range ? item.first_id > item.end_id
               : item.first_id != 0 || item.end_id != 0) {
    return BadItem(
        item,
        absl::StrCat("has the ids ", item.first_id, " to below ", item.end_id,
                     ", with the sharding ", ShardingKindName(item.sharding),
                     "; expected an ascending range, only by range"));
  }
  if (custom) {
    return InItem(item, CheckName("sharding name", item.sharding_name));
  }
  if (item.sharding_name.empty()) return absl::OkStatus();
  return BadItem(
      item,
      absl::StrCat("has the sharding name \"",
                   absl::Utf8SafeCHexEscape(item.sharding_name),
                   "\", but its sharding is ", ShardingKindName(item.sharding),
                   "; only a custom sharding has a name"));
}

// A lossy codec applies only to f32, and records its errors.
absl::Status CheckLossyCodec(const Item& item, Codec codec, DType dtype,
                             uint64_t row_elements) {
  if (!IsLossy(codec)) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(InItem(item, CheckLossy(codec, dtype, row_elements)));
  if (!item.errors.empty()) return absl::OkStatus();
  return BadItem(item, absl::StrCat("has codec ", CodecName(codec),
                                    " and no errors; expected one for each "
                                    "tensor or slot"));
}

// Checks the errors of lossy codecs: one for a tensor, one per slot of a table,
// or none at all.
absl::Status CheckErrors(const Item& item) {
  const bool table = item.kind == Item::Kind::kRows;
  const size_t values = item.kind == Item::Kind::kBlob ? 0
                        : table                        ? item.slots.size()
                                                       : 1;
  if (!item.errors.empty() && item.errors.size() != values) {
    return BadItem(item, absl::StrCat("has ", item.errors.size(),
                                      " errors; expected 0 or ", values));
  }
  for (const Item::Error& error : item.errors) {
    // This form of the comparisons rejects NaN.
    if (std::isfinite(error.bound) && error.max >= 0 &&
        error.max <= error.bound) {
      continue;
    }
    return BadItem(item,
                   absl::StrCat("has the error ", error.max,
                                "; expected 0 to its bound, ", error.bound));
  }
  CKPTDB_RETURN_IF_ERROR(CheckLossyCodec(
      item, item.codec,
      item.kind == Item::Kind::kTensor ? item.dtype : DType::kU8,
      kInt8BlockElements));
  for (const Slot& slot : item.slots) {
    CKPTDB_RETURN_IF_ERROR(
        CheckLossyCodec(item, slot.codec, slot.dtype, slot.elements));
  }
  return absl::OkStatus();
}

// Rejects enum values that are out of range, which a record in memory may have.
absl::Status CheckEnums(const Item& item) {
  const auto number = [](auto value) { return static_cast<int>(value); };
  if (item.kind != Item::Kind::kBlob && item.kind != Item::Kind::kRows &&
      item.kind != Item::Kind::kTensor) {
    return BadItem(item, absl::StrCat("has unknown kind ",
                                      number(static_cast<uint8_t>(item.kind))));
  }
  if (item.placement > Item::Placement::kInline) {
    return BadItem(
        item, absl::StrCat("has unknown placement ", number(item.placement)));
  }
  if (item.slice_hash > SliceHash::kMix) {
    return BadItem(
        item, absl::StrCat("has unknown slice hash ", number(item.slice_hash)));
  }
  if (item.run != Item::Run::kBase && item.run != Item::Run::kDelta) {
    return BadItem(item, absl::StrCat("has unknown run ",
                                      number(static_cast<uint8_t>(item.run))));
  }
  if (static_cast<uint8_t>(item.sharding) >= kShardingKinds) {
    return BadItem(item, absl::StrCat("has unknown sharding ",
                                      static_cast<int>(item.sharding)));
  }
  return absl::OkStatus();
}

// Rejects a dtype or codec that is never stored before it indexes an array.
absl::Status CheckStoredEnums(const Item& item, DType dtype, Codec codec) {
  CKPTDB_RETURN_IF_ERROR(
      InItem(item, DTypeFromStored(static_cast<uint8_t>(dtype)).status()));
  return InItem(item, CodecFromStored(static_cast<uint8_t>(codec)).status());
}

}  // namespace

absl::Status BadItem(const Item& item, absl::string_view why) {
  return BadField(
      RecordKind::kRank,
      absl::StrCat("item \"", absl::Utf8SafeCHexEscape(item.name), "\""), why);
}

absl::Status CheckItem(const Item& item) {
  CKPTDB_RETURN_IF_ERROR(
      CheckNameField(RecordKind::kRank, "item name", item.name));
  CKPTDB_RETURN_IF_ERROR(CheckEnums(item));
  CKPTDB_RETURN_IF_ERROR(CheckSharding(item));
  CKPTDB_RETURN_IF_ERROR(CheckFirstChunk(item));
  CKPTDB_RETURN_IF_ERROR(CheckSlotCount(item, item.slots.size()));
  CKPTDB_RETURN_IF_ERROR(
      InItem(item, CheckVersion(RecordKind::kRank, "data", item.data_version)));
  CKPTDB_RETURN_IF_ERROR(CheckStoredEnums(item, item.dtype, item.codec));
  for (const Slot& slot : item.slots) {
    CKPTDB_RETURN_IF_ERROR(CheckStoredEnums(item, slot.dtype, slot.codec));
  }
  CKPTDB_RETURN_IF_ERROR(CheckErrors(item));
  switch (item.kind) {
    case Item::Kind::kTensor:
      CKPTDB_RETURN_IF_ERROR(CheckTensor(item));
      return CheckChunks(item);
    case Item::Kind::kBlob:
      CKPTDB_RETURN_IF_ERROR(CheckBlob(item));
      return CheckChunks(item);
    case Item::Kind::kRows:
      CKPTDB_RETURN_IF_ERROR(CheckSlots(item));
      return CheckRows(item);
  }
  return BadItem(item, "has an unknown kind");
}

absl::Status CheckSlotCount(const Item& item, size_t slots) {
  if (slots <= kMaxSlots && (item.kind != Item::Kind::kRows || slots > 0)) {
    return absl::OkStatus();
  }
  return BadItem(
      item, absl::StrCat("has ", slots, " slots; expected 1 to ", kMaxSlots));
}

absl::Status CheckOrder(const Item& last, const Item& item) {
  if (ItemLess(last, item)) return absl::OkStatus();
  return BadItem(item,
                 absl::StrCat("is out of order: it follows ",
                              ItemKindName(last.kind), " \"", last.name, "\""));
}

}  // namespace ckptdb::internal
