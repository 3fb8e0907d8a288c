// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "schema/bytes/codec.h"
#include "schema/bytes/dtype.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/lossy.h"
#include "schema/bytes/names.h"
#include "schema/bytes/shape.h"
#include "schema/records/checks.h"
#include "schema/records/flat.h"
#include "schema/records/record_checks.h"
#include "schema/records/records.h"
#include "schema/records/shards.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using flatbuffers::Vector;
using internal::AddString;
using internal::BadField;
using internal::CheckVersion;
using internal::FromFbs;
using internal::Opened;
using internal::RecordKind;
using internal::Seal;
using internal::SizeOf;
using internal::ToFbs;
using internal::ToStd;
using internal::ViewOf;

std::vector<Offset<fbs::Slot>> AddSlots(const std::vector<Slot>& slots,
                                        FlatBufferBuilder* builder) {
  std::vector<Offset<fbs::Slot>> added;
  for (const Slot& slot : slots) {
    const auto name = AddString(slot.name, builder);
    added.push_back(
        fbs::CreateSlot(*builder, name, static_cast<uint8_t>(slot.dtype),
                        slot.elements, static_cast<uint8_t>(slot.codec)));
  }
  return added;
}

// The field is absent if there are no errors, as in records from before the
// field.
Offset<Vector<const fbs::ItemError*>> AddErrors(
    const std::vector<Item::Error>& errors, FlatBufferBuilder* builder) {
  if (errors.empty()) return {};
  std::vector<fbs::ItemError> added;
  for (const Item::Error& error : errors) {
    added.emplace_back(error.max, error.bound);
  }
  return builder->CreateVectorOfStructs(added);
}

// A table divided by ranges of ids is stored as by a function of this name, so
// that libraries that do not know ranges read all of its rows.
constexpr char kRangeName[] = "range";

// An empty string is absent, as in records from before its field.
Offset<flatbuffers::String> AddIfAny(absl::string_view text,
                                     FlatBufferBuilder* builder) {
  if (text.empty()) return {};
  return AddString(text, builder);
}

bool IsByRange(const Item& item) {
  return item.sharding == Item::Sharding::kByRange;
}

void SetSharding(const Item& item, Offset<flatbuffers::String> name,
                 const fbs::IdRange& id_range, fbs::ItemBuilder* out) {
  out->add_sharding(static_cast<uint8_t>(
      IsByRange(item) ? Item::Sharding::kCustom : item.sharding));
  out->add_sharding_name(name);
  if (IsByRange(item) || item.first_id != 0 || item.end_id != 0) {
    out->add_id_range(&id_range);
  }
}

// Adds an item. FlatBuffers requires all strings and vectors to be finished
// before the table that refers to them is begun.
Offset<fbs::Item> AddItem(const Item& item, FlatBufferBuilder* builder) {
  const auto slots = AddSlots(item.slots, builder);
  const auto name = AddString(item.name, builder);
  const auto hashes = builder->CreateVector(item.chunk_hashes);
  const auto shape = builder->CreateVector(item.shape);
  const auto global_shape = builder->CreateVector(item.global_shape);
  const auto offset = builder->CreateVector(item.offset);
  const auto slot_vector = builder->CreateVector(slots);
  const auto reason = AddString(item.base_reason, builder);
  const auto sharding_name = AddIfAny(
      IsByRange(item) && item.sharding_name.empty() ? kRangeName
                                                    : item.sharding_name,
      builder);
  const fbs::IdRange id_range(item.first_id, item.end_id);
  const auto errors = AddErrors(item.errors, builder);
  const fbs::Version data = ToFbs(item.data_version);
  fbs::ItemBuilder out(*builder);
  out.add_kind(static_cast<uint8_t>(item.kind));
  out.add_name(name);
  out.add_data(&data);
  out.add_placement(static_cast<uint8_t>(item.placement));
  out.add_raw_bytes(item.raw_bytes);
  out.add_stored_bytes(item.stored_bytes);
  out.add_digest(item.digest);
  out.add_chunk_hashes(hashes);
  out.add_dtype(static_cast<uint8_t>(item.dtype));
  out.add_codec(static_cast<uint8_t>(item.codec));
  out.add_shape(shape);
  out.add_global_shape(global_shape);
  out.add_offset(offset);
  out.add_slots(slot_vector);
  out.add_slice_hash(static_cast<uint8_t>(item.slice_hash));
  out.add_run(static_cast<uint8_t>(item.run));
  out.add_rows(item.rows);
  out.add_erased(item.erased_rows);
  out.add_rows_per_page(item.rows_per_page);
  out.add_base_reason(reason);
  SetSharding(item, sharding_name, id_range, &out);
  out.add_errors(errors);
  out.add_first_chunk(item.first_chunk);
  return out.Finish();
}

absl::Status BadItem(const Item& item, absl::string_view why) {
  return BadField(
      RecordKind::kRank,
      absl::StrCat("item \"", absl::Utf8SafeCHexEscape(item.name), "\""), why);
}

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
  const uint64_t chunks = internal::ChunkCount(item.raw_bytes);
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

// Only a table must have slots.
absl::Status CheckSlotCount(const Item& item, size_t slots) {
  if (slots <= kMaxSlots && (item.kind != Item::Kind::kRows || slots > 0)) {
    return absl::OkStatus();
  }
  return BadItem(
      item, absl::StrCat("has ", slots, " slots; expected 1 to ", kMaxSlots));
}

// Checks an item except for its order among others.
absl::Status CheckItem(const Item& item) {
  CKPTDB_RETURN_IF_ERROR(
      internal::CheckNameField(RecordKind::kRank, "item name", item.name));
  CKPTDB_RETURN_IF_ERROR(CheckEnums(item));
  CKPTDB_RETURN_IF_ERROR(CheckSharding(item));
  CKPTDB_RETURN_IF_ERROR(internal::CheckFirstChunk(item));
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

// Returns the bytes that reading an item copies; the caller has checked the
// number of slots.
uint64_t CopiedBytes(const fbs::Item& from) {
  uint64_t bytes = ViewOf(from.name()).size() +
                   ViewOf(from.base_reason()).size() +
                   ViewOf(from.sharding_name()).size();
  for (const auto* numbers :
       {from.shape(), from.global_shape(), from.offset()}) {
    bytes += SizeOf(numbers) * sizeof(int64_t);
  }
  bytes += SizeOf(from.chunk_hashes()) * sizeof(uint64_t);
  bytes += SizeOf(from.errors()) * sizeof(fbs::ItemError);
  if (from.slots() == nullptr) return bytes;
  for (const fbs::Slot* slot : *from.slots()) {
    bytes += ViewOf(slot->name()).size();
  }
  return bytes;
}

std::vector<Slot> ReadSlots(const Vector<Offset<fbs::Slot>>* stored) {
  std::vector<Slot> slots;
  if (stored == nullptr) return slots;
  for (const fbs::Slot* from : *stored) {
    Slot& slot = slots.emplace_back();
    slot.name = ToStd(from->name());
    slot.dtype = static_cast<DType>(from->dtype());
    slot.codec = static_cast<Codec>(from->codec());
    slot.elements = from->elements();
  }
  return slots;
}

// Copies bytes because the verifier does not check the alignment of elements.
std::vector<Item::Error> ReadErrors(
    const Vector<const fbs::ItemError*>* stored) {
  std::vector<Item::Error> errors(SizeOf(stored));
  for (size_t i = 0; i < errors.size(); ++i) {
    double numbers[2];
    static_assert(sizeof(numbers) == sizeof(fbs::ItemError));
    std::memcpy(numbers, stored->Data() + i * sizeof(numbers), sizeof(numbers));
    errors[i] = {numbers[0], numbers[1]};
  }
  return errors;
}

// Reads these fields for all kinds, because an encoded record must decode to an
// equal one.
void ReadTensorFields(const fbs::Item& from, Item* item) {
  item->dtype = static_cast<DType>(from.dtype());
  item->codec = static_cast<Codec>(from.codec());
  item->chunk_hashes = ToStd(from.chunk_hashes());
  item->shape = ToStd(from.shape());
  item->global_shape = ToStd(from.global_shape());
  item->offset = ToStd(from.offset());
  item->first_chunk = from.first_chunk();
}

void ReadTableFields(const fbs::Item& from, Item* item) {
  item->slots = ReadSlots(from.slots());
  item->slice_hash = static_cast<SliceHash>(from.slice_hash());
  item->run = static_cast<Item::Run>(from.run());
  item->rows = from.rows();
  item->erased_rows = from.erased();
  item->rows_per_page = from.rows_per_page();
  item->base_reason = ToStd(from.base_reason());
  item->sharding = static_cast<Item::Sharding>(from.sharding());
  item->sharding_name = ToStd(from.sharding_name());
  if (from.id_range() == nullptr) return;
  item->first_id = from.id_range()->begin();
  item->end_id = from.id_range()->end();
  // CheckSharding refuses a range with another sharding or name.
  if (item->sharding != Item::Sharding::kCustom) return;
  item->sharding = Item::Sharding::kByRange;
  if (item->sharding_name == kRangeName) item->sharding_name.clear();
}

absl::StatusOr<Item> ReadItem(const fbs::Item& from) {
  Item item;
  item.name = ToStd(from.name());
  item.kind = static_cast<Item::Kind>(from.kind());
  if (from.data() == nullptr) return BadItem(item, "has no data version");
  item.data_version = FromFbs(*from.data());
  // Checks the number of slots before copying them.
  CKPTDB_RETURN_IF_ERROR(CheckSlotCount(item, SizeOf(from.slots())));
  item.placement = static_cast<Item::Placement>(from.placement());
  item.raw_bytes = from.raw_bytes();
  item.stored_bytes = from.stored_bytes();
  item.digest = from.digest();
  ReadTensorFields(from, &item);
  ReadTableFields(from, &item);
  item.errors = ReadErrors(from.errors());
  CKPTDB_RETURN_IF_ERROR(CheckItem(item));
  return item;
}

// Checks that items are in key order: Publish counts entries in that order, and
// items are found by binary search.
absl::Status CheckOrder(const Item& last, const Item& item) {
  if (internal::ItemLess(last, item)) return absl::OkStatus();
  return BadItem(item,
                 absl::StrCat("is out of order: it follows ",
                              ItemKindName(last.kind), " \"", last.name, "\""));
}

// Reads and checks items one by one, so that little is copied if one is
// invalid.
absl::StatusOr<std::vector<Item>> ReadItems(
    const Vector<Offset<fbs::Item>>& stored, size_t record_bytes) {
  constexpr RecordKind kKind = RecordKind::kRank;
  std::vector<Item> items;
  uint64_t copied = 0;
  for (const fbs::Item* from : stored) {
    // An item with too many slots fails in ReadItem before its slots are
    // visited.
    if (SizeOf(from->slots()) <= kMaxSlots) copied += CopiedBytes(*from);
    if (copied > record_bytes) {
      return BadField(kKind, "items",
                      absl::StrCat("reference more bytes than the ",
                                   record_bytes, " of the record"));
    }
    CKPTDB_ASSIGN_OR_RETURN(Item item, ReadItem(*from));
    if (!items.empty()) {
      CKPTDB_RETURN_IF_ERROR(CheckOrder(items.back(), item));
    }
    items.push_back(std::move(item));
  }
  CKPTDB_RETURN_IF_ERROR(internal::CheckShards(items));
  return items;
}

absl::Status CheckPlace(const StepRecord::Rank& record) {
  CKPTDB_RETURN_IF_ERROR(
      CheckVersion(RecordKind::kRank, "version", record.version));
  return internal::CheckRank(RecordKind::kRank, record.rank, kMaxWorldSize);
}

}  // namespace

absl::Status internal::Check(const StepRecord::Rank& record) {
  CKPTDB_RETURN_IF_ERROR(CheckPlace(record));
  const std::vector<Item>& items = record.items;
  for (size_t i = 0; i < items.size(); ++i) {
    CKPTDB_RETURN_IF_ERROR(CheckItem(items[i]));
    if (i == 0) continue;
    CKPTDB_RETURN_IF_ERROR(CheckOrder(items[i - 1], items[i]));
  }
  return CheckShards(items);
}

uint64_t internal::LeastBytes(const StepRecord::Rank& record) {
  // Lower bounds of a FlatBuffers table of this kind.
  constexpr uint64_t kLeastItem = 64;
  constexpr uint64_t kLeastSlot = 16;
  uint64_t bytes = 0;
  for (const Item& item : record.items) {
    bytes += kLeastItem + item.name.size() + item.base_reason.size() +
             item.chunk_hashes.size() * sizeof(uint64_t) +
             item.errors.size() * sizeof(fbs::ItemError);
    for (const Slot& slot : item.slots) bytes += kLeastSlot + slot.name.size();
  }
  return bytes;
}

namespace {

// A library without lossy codecs, or without several shards of a tensor on a
// rank, must refuse a record that uses them.
uint16_t FormatOf(const StepRecord::Rank& record) {
  if (internal::HasShards(record.items)) return kShardsFormatVersion;
  for (const Item& item : record.items) {
    if (IsLossy(item.codec) ||
        std::any_of(item.slots.begin(), item.slots.end(),
                    [](const Slot& slot) { return IsLossy(slot.codec); })) {
      return kLossyFormatVersion;
    }
  }
  return kFormatVersion;
}

}  // namespace

std::string internal::EncodeUnchecked(const StepRecord::Rank& record) {
  FlatBufferBuilder builder;
  std::vector<Offset<fbs::Item>> items;
  for (const Item& item : record.items) {
    items.push_back(AddItem(item, &builder));
  }
  builder.Finish(fbs::CreateRankRecord(builder, record.version.step,
                                       record.version.attempt, record.rank,
                                       builder.CreateVector(items)));
  return Seal(RecordKind::kRank, builder, FormatOf(record));
}

absl::StatusOr<std::string> EncodeRankRecord(const StepRecord::Rank& record) {
  return internal::EncodeChecked(RecordKind::kRank, record);
}

// Makes the checks of internal::Check item by item, while reading.
absl::StatusOr<StepRecord::Rank> DecodeRankRecord(absl::string_view bytes) {
  CKPTDB_ASSIGN_OR_RETURN(
      const auto from, Opened<fbs::RankRecord>::Open(RecordKind::kRank, bytes));
  StepRecord::Rank record;
  record.version = {from->step(), from->attempt()};
  record.rank = from->rank();
  CKPTDB_RETURN_IF_ERROR(CheckPlace(record));
  CKPTDB_ASSIGN_OR_RETURN(record.items,
                          ReadItems(*from->items(), from.bytes()));
  return record;
}

}  // namespace ckptdb
