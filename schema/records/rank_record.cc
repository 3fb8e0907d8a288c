// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/lossy.h"
#include "schema/records/checks.h"
#include "schema/records/flat.h"
#include "schema/records/item_checks.h"
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
using internal::BadItem;
using internal::CheckItem;
using internal::CheckOrder;
using internal::CheckSlotCount;
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
