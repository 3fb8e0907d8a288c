// SPDX-License-Identifier: Apache-2.0
#include "db/stage/staged_item.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "db/base/own_rows.h"
#include "db/base/parallel.h"
#include "db/base/row_block.h"
#include "db/base/staging.h"
#include "db/base/state_items.h"
#include "db/disk/rocks_status.h"
#include "db/meta/borrow_cost.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/lossy.h"
#include "schema/bytes/names.h"
#include "schema/bytes/page.h"
#include "schema/bytes/shape.h"
#include "schema/records/shards.h"
#include "schema/records/table_schema.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

absl::Status BadTable(const RankState::Table& table, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("table \"", table.name, "\": ", why));
}

// Pages of all slots begin at the same rows, so the widest slot decides.
uint32_t RowsPerPage(const RankState::Table& table) {
  uint64_t widest = sizeof(int64_t);
  for (const Slot& slot : table.slots) {
    widest = std::max(widest, slot.row_bytes());
  }
  return static_cast<uint32_t>(kPageBytes / widest);
}

// Returns an item that this version stores. ReuseUnchanged later replaces a
// borrowed one by the parent's item.
Item NewItem(const internal::TicketRecord& ticket, Item::Kind kind,
             const std::string& name) {
  Item item;
  item.kind = kind;
  item.name = name;
  item.data_version = ticket.version;
  return item;
}

// Checks a tensor and describes it. Does not read its bytes yet.
absl::StatusOr<StagedItem> PrepareTensor(const internal::TicketRecord& ticket,
                                         const StateTensor& tensor) {
  const std::string place = absl::StrCat("tensor \"", tensor.name, "\"");
  const TensorView& view = tensor.view;
  CKPTDB_RETURN_IF_ERROR(Annotate(
      CheckEnums(view.dtype, tensor.codec, kInt8BlockElements), place));
  const uint32_t element_bytes = DTypeBytes(view.dtype);
  StagedItem staged;
  Item& item = staged.item;
  item = NewItem(ticket, Item::Kind::kTensor, tensor.name);
  item.dtype = view.dtype;
  item.shape = view.shape;
  item.global_shape =
      view.global_shape.empty() ? view.shape : view.global_shape;
  // An unsharded tensor is stored as a shard that covers it, so that readers
  // handle only one form.
  item.offset = view.global_shape.empty() && view.offset.empty()
                    ? Shape(item.shape.size(), 0)
                    : view.offset;
  absl::StatusOr<int64_t> elements = ElementCount(item.shape, element_bytes);
  CKPTDB_RETURN_IF_ERROR(Annotate(elements.status(), place));
  CKPTDB_RETURN_IF_ERROR(
      Annotate(ElementCount(item.global_shape, element_bytes).status(), place));
  CKPTDB_RETURN_IF_ERROR(Annotate(
      CheckBoxWithin({item.offset, item.shape}, item.global_shape), place));
  item.raw_bytes = static_cast<uint64_t>(*elements) * element_bytes;
  if (view.data == nullptr && item.raw_bytes > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, " has no data: TensorView::data is null"));
  }
  item.codec = tensor.codec;  // AddTensorStreams makes the stream
  // Kept for the comparison with the parent's tensor.
  staged.bytes = {static_cast<const char*>(view.data), item.raw_bytes};
  return staged;
}

absl::StatusOr<StagedItem> PrepareBlob(const internal::TicketRecord& ticket,
                                       const StateBlob& blob) {
  if (blob.bytes.size() > kMaxBlobBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("blob \"", blob.name, "\" has ", blob.bytes.size(),
                     " bytes; the limit is ", kMaxBlobBytes));
  }
  // A blob consists of bytes, so this rejects the lossy codecs.
  CKPTDB_RETURN_IF_ERROR(Annotate(CheckEnums(DType::kU8, blob.codec, 1),
                                  absl::StrCat("blob \"", blob.name, "\"")));
  StagedItem staged;
  staged.item = NewItem(ticket, Item::Kind::kBlob, blob.name);
  staged.item.raw_bytes = blob.bytes.size();
  staged.bytes = blob.bytes;
  staged.streams.push_back(MakeChunkStream(
      ItemPrefix(ticket.version, ticket.rank, Item::Kind::kBlob, blob.name),
      /*first_chunk=*/0, blob.bytes, /*element_bytes=*/1, blob.codec));
  return staged;
}

// Returns why a table must be saved in full although its changes are given;
// empty if the changes can be saved.
std::string WhyBase(const StepRecord::Rank* parent_tables,
                    const RankState::Table& table) {
  if (!table.base_reason.empty()) return table.base_reason;
  if (parent_tables == nullptr) return "a delta save requires SaveSpec::parent";
  return WhyFull(*parent_tables, table.name, table.slots, table.slice_hash);
}

// Returns the rows that the ticket's slices give this rank. They must match the
// table's bounds.
absl::StatusOr<OwnRows> OwnSlices(const internal::TicketRecord& ticket,
                                  const RankState::Table& table) {
  const TableSharding& sharding = table.sharding;
  // A single rank holds all slices, regardless of the bounds that the table
  // declares.
  if (!ticket.slices.has_value()) {
    if (ticket.world_size == 1) return OwnRows();
    return BadTable(
        table, absl::StrCat("it is sharded by slices among ", ticket.world_size,
                            " ranks, but SaveSpec::slice_bounds is empty"));
  }
  const auto is_of_ticket = [&](const std::vector<uint32_t>& bounds) {
    return SliceRange{bounds[ticket.rank], bounds[ticket.rank + size_t{1}]} ==
           *ticket.slices;
  };
  if (!sharding.bounds().empty() && !is_of_ticket(sharding.bounds())) {
    return BadTable(
        table, absl::StrCat(
                   "its slice bounds [", absl::StrJoin(sharding.bounds(), ", "),
                   "] differ from SaveSpec::slice_bounds, which give rank ",
                   ticket.rank, " slices [", ticket.slices->begin, ", ",
                   ticket.slices->end, ")"));
  }
  // Errors use the bounds to name the rank that an id belongs to.
  std::vector<uint32_t> bounds = sharding.bounds();
  if (bounds.empty()) bounds = EvenSliceBounds(ticket.world_size);
  if (!is_of_ticket(bounds)) {
    return OwnRows(*ticket.slices, table.slice_hash, ticket.rank,
                   ticket.world_size);
  }
  return OwnRows(TableSharding::BySlices(std::move(bounds)), table.slice_hash,
                 ticket.rank, ticket.world_size);
}

// Sets the sharding that the table, or else the save, declares, and returns the
// rows that this rank may have.
absl::StatusOr<OwnRows> ResolveSharding(const internal::TicketRecord& ticket,
                                        const RankState::Table& table,
                                        Item* item) {
  const TableSharding& sharding = table.sharding;
  CKPTDB_RETURN_IF_ERROR(Annotate(CheckSharding(sharding, ticket.world_size),
                                  absl::StrCat("table \"", table.name, "\"")));
  item->sharding = sharding.kind();
  item->sharding_name = sharding.name();
  // SaveSpec::slice_bounds declare slices for all tables that declare no
  // sharding.
  if (!sharding.declared() && ticket.slices.has_value()) {
    item->sharding = Item::Sharding::kBySlices;
  }
  if (item->sharding == Item::Sharding::kBySlices)
    return OwnSlices(ticket, table);
  if (item->sharding == Item::Sharding::kByRange) {
    std::tie(item->first_id, item->end_id) =
        sharding.RangeOf(ticket.rank, ticket.world_size);
  }
  if (item->sharding != Item::Sharding::kUndeclared) {
    return OwnRows(sharding, table.slice_hash, ticket.rank, ticket.world_size);
  }
  if (!sharding.declared() && ticket.world_size > 1) {
    return BadTable(
        table, absl::StrCat("it declares no sharding among ", ticket.world_size,
                            " ranks; give it ", kShardingChoices,
                            ", or the save SaveSpec::slice_bounds"));
  }
  if (ticket.slices.has_value()) {
    return BadTable(
        table,
        "its sharding is TableSharding::Unchecked() in a save that has "
        "SaveSpec::slice_bounds; leave one of them out");
  }
  return OwnRows();
}

// Rank 0 saves all rows of a replicated table, and other ranks none.
bool SavesNoRows(const internal::TicketRecord& ticket, const Item& item) {
  return item.sharding == Item::Sharding::kReplicated && ticket.rank != 0;
}

// Orders the erased ids as rows without slots.
absl::StatusOr<std::unique_ptr<RowOrder>> OrderErased(
    const RankState::Table& table, const OwnRows& own, int threads) {
  const RowSource::Arrays ids(table.changes->erased, {});
  RankState::Table erased;
  erased.name = table.name;
  erased.rows = &ids;
  erased.slice_hash = table.slice_hash;
  return Annotate(RowOrder::Build(erased, own, threads), "erased ids");
}

// Checks that no id is both upserted and erased.
absl::Status CheckUpsertedOrErased(const RankState::Table& table,
                                   RowOrder* upserted, RowOrder* erased) {
  if (erased->rows() == 0) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(
      const auto gone,
      Annotate(erased->Sorted(0, erased->rows()), "erased ids"));
  CKPTDB_ASSIGN_OR_RETURN(const auto rows,
                          upserted->Sorted(0, upserted->rows()));
  // Both ascend by position, so one pass finds an id that is in both.
  size_t at = 0;
  for (const RowRef& ref : gone) {
    const RowPosition position = erased->PositionOf(ref);
    while (at < rows.size() && upserted->PositionOf(rows[at]) < position) ++at;
    if (at == rows.size()) break;
    if (rows[at].id != ref.id) continue;
    return BadTable(table, absl::StrCat("id ", static_cast<int64_t>(ref.id),
                                        " is both upserted and erased"));
  }
  return absl::OkStatus();
}

void AddRowStreams(const std::string& prefix, StagedItem* staged) {
  const Item& item = staged->item;
  const auto stream = [&](size_t slot) {
    std::string stream_prefix = prefix;
    AppendStream(item.run, static_cast<uint16_t>(slot), &stream_prefix);
    return stream_prefix;
  };
  // In key order, in which they are written: ids, slots, erased ids.
  staged->streams.push_back(
      MakeIdStream(stream(kIdSlot), staged->order.get(), item.rows_per_page));
  for (size_t i = 0; i < item.slots.size(); ++i) {
    staged->streams.push_back(MakeSlotStream(stream(i + 1), staged->order.get(),
                                             item.rows_per_page, i,
                                             item.slots[i]));
  }
  if (staged->erased == nullptr) return;
  staged->streams.push_back(MakeIdStream(
      stream(kErasedSlot), staged->erased.get(), kErasedRowsPerPage));
}

// Orders all rows, or the changed rows.
absl::Status OrderRows(const internal::TicketRecord& ticket,
                       const RankState::Table& table, const OwnRows& own,
                       int threads, StagedItem* staged) {
  Item& item = staged->item;
  RankState::Table source = table;
  const RowSource::Arrays none({}, {});
  if (item.run == Item::Run::kDelta) {
    source.rows =
        table.changes->upserted != nullptr ? table.changes->upserted : &none;
  }
  // The item is still recorded, because all ranks of a step have the same
  // tables.
  if (SavesNoRows(ticket, item)) {
    source.rows = &none;
    if (source.changes.has_value()) source.changes = RankState::Changes();
  }
  CKPTDB_ASSIGN_OR_RETURN(staged->order, RowOrder::Build(source, own, threads));
  item.rows = staged->order->rows();
  if (item.run == Item::Run::kBase) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(staged->erased, OrderErased(source, own, threads));
  item.erased_rows = staged->erased->rows();
  return CheckUpsertedOrErased(source, staged->order.get(),
                               staged->erased.get());
}

absl::StatusOr<StagedItem> PrepareTable(const internal::TicketRecord& ticket,
                                        const RankState::Table& table,
                                        int threads) {
  CKPTDB_RETURN_IF_ERROR(Annotate(CheckSlots(table.slots),
                                  absl::StrCat("table \"", table.name, "\"")));
  if (table.slice_hash > SliceHash::kMix) {
    return BadTable(table, absl::StrCat("invalid slice hash ",
                                        static_cast<int>(table.slice_hash),
                                        "; expected 0 (modulo) or 1 (mix)"));
  }
  StagedItem staged;
  Item& item = staged.item;
  item = NewItem(ticket, Item::Kind::kRows, table.name);
  item.slots = table.slots;
  item.slice_hash = table.slice_hash;
  item.rows_per_page = RowsPerPage(table);
  CKPTDB_ASSIGN_OR_RETURN(const OwnRows own,
                          ResolveSharding(ticket, table, &item));
  // Changes are saved as a delta run if the parent permits it; otherwise the
  // table is saved in full and the reason is recorded.
  if (table.changes.has_value()) {
    item.base_reason = WhyBase(ticket.parent_tables.get(), table);
    if (item.base_reason.empty()) item.run = Item::Run::kDelta;
    if (!item.base_reason.empty() && table.rows == nullptr &&
        !SavesNoRows(ticket, item)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "table \"", table.name,
          "\" cannot be saved as changes: ", item.base_reason,
          "; set RankState::Table::rows so that it can be saved in full"));
    }
  }
  CKPTDB_RETURN_IF_ERROR(OrderRows(ticket, table, own, threads, &staged));
  AddRowStreams(ItemPrefix(ticket.version, ticket.rank, item.kind, item.name),
                &staged);
  for (const auto& stream : staged.streams) {
    item.raw_bytes += stream->raw_bytes();
  }
  return staged;
}

// Checks the shards of each tensor, numbers their chunks through, and makes
// their streams. The items are in key order.
absl::Status AddTensorStreams(const internal::TicketRecord& ticket,
                              std::vector<StagedItem>* items) {
  std::vector<const Item*> shards;  // of the tensor, up to this one
  for (size_t i = 0; i < items->size(); ++i) {
    StagedItem& staged = (*items)[i];
    Item& item = staged.item;
    if (item.kind != Item::Kind::kTensor) continue;
    if (!shards.empty() && !SameTensor(*shards.back(), item)) shards.clear();
    if (!shards.empty()) {
      const Item& before = *shards.back();
      item.first_chunk = static_cast<uint32_t>(before.first_chunk +
                                               ChunkCount(before.raw_bytes));
    }
    shards.push_back(&item);
    const bool last =
        i + 1 == items->size() || !SameTensor(item, (*items)[i + 1].item);
    const std::string fault = last ? FaultOfShards(shards) : "";
    if (!fault.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor \"", item.name, "\" ", fault));
    }
    staged.streams.push_back(MakeChunkStream(
        ItemPrefix(ticket.version, ticket.rank, item.kind, item.name),
        item.first_chunk, staged.bytes, DTypeBytes(item.dtype), item.codec));
  }
  return absl::OkStatus();
}

// Checks names, and that items of one kind, except tensors, have distinct
// names.
template <typename Items>
absl::Status CheckNames(Item::Kind kind, const Items& items) {
  const std::string what = absl::StrCat(ItemKindName(kind), " name");
  std::set<std::string> names;
  for (const auto& item : items) {
    CKPTDB_RETURN_IF_ERROR(CheckName(what, item.name));
    if (kind == Item::Kind::kTensor) continue;
    if (!names.insert(item.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("duplicate ", what, " \"", item.name, "\""));
    }
  }
  return absl::OkStatus();
}

// Returns whether the parent's item may have the same bytes; the hashes decide.
bool SameShape(const Item& a, const Item& b) {
  return a.kind == b.kind && a.name == b.name && a.dtype == b.dtype &&
         a.raw_bytes == b.raw_bytes && a.shape == b.shape &&
         a.global_shape == b.global_shape && a.offset == b.offset;
}

// Compares chunk by chunk, and stops at the first difference, so that a changed
// tensor costs one hash. Sets *error to the error of a lossy codec for these
// bytes.
bool HasBytes(const Item& item, absl::string_view bytes, Item::Error* error) {
  PageBuilder builder;
  for (const uint64_t hash : item.chunk_hashes) {
    const absl::string_view chunk = bytes.substr(0, kChunkBytes);
    bytes.remove_prefix(chunk.size());
    if (!IsLossy(item.codec)) {
      if (HashBytes(chunk) != hash) return false;
      continue;
    }
    chunk.copy(builder.Reset(chunk.size()), chunk.size());
    builder.Finish(item.codec,
                   static_cast<uint32_t>(chunk.size() / sizeof(float)),
                   sizeof(float));
    if (builder.raw_hash() != hash) return false;
    *error = Larger(*error, builder.error());
  }
  // More bytes than hashes: another tensor.
  return bytes.empty();
}

// Returns whether both codecs store the same values. Lossless data is compared
// before encoding.
bool SameValues(Codec a, Codec b) {
  return a == b || !(IsLossy(a) || IsLossy(b));
}

// Returns the parent's item with the same bytes, if it has one.
std::optional<Item> FindUnchanged(const StepRecord::Rank& parent,
                                  const StagedItem& staged) {
  // Tables store only changed rows by other means, and an empty item has
  // nothing to borrow.
  if (staged.item.kind == Item::Kind::kRows || staged.bytes.empty()) {
    return std::nullopt;
  }
  const auto old = std::lower_bound(parent.items.begin(), parent.items.end(),
                                    staged.item, ItemLess);
  Item::Error error;
  if (old == parent.items.end() || !SameShape(*old, staged.item) ||
      !SameValues(old->codec, staged.streams[0]->codec()) ||
      !HasBytes(*old, staged.bytes, &error)) {
    return std::nullopt;
  }
  Item item = *old;
  // Different numbers may encode to the same bytes, so the error is computed
  // from these numbers and not the parent's.
  if (IsLossy(old->codec)) item.errors = {error};
  return item;
}

// Returns the errors of a tensor or of a table's slots, once all entries are
// made; empty if no codec is lossy.
std::vector<Item::Error> ErrorsOf(const StagedItem& staged) {
  const size_t first = staged.item.kind == Item::Kind::kRows ? 1 : 0;
  const size_t count = first == 0 ? 1 : staged.item.slots.size();
  std::vector<Item::Error> errors;
  bool lossy = false;
  for (size_t i = first; i < first + count; ++i) {
    errors.push_back(staged.streams[i]->error());
    lossy = lossy || IsLossy(staged.streams[i]->codec());
  }
  if (!lossy) errors.clear();
  return errors;
}

}  // namespace

uint64_t StagedItem::raw_bytes_to_write() const {
  return reused ? 0 : item.raw_bytes;
}

void StagedItem::Seal(Item::Placement placement) {
  // A borrowed item keeps the digest and hashes from the version that stored
  // it.
  if (reused) return;
  std::string all_hashes;
  item.placement = placement;
  item.errors = ErrorsOf(*this);
  for (size_t i = 0; i < streams.size(); ++i) {
    const std::vector<uint64_t>& hashes = streams[i]->hashes();
    all_hashes.append(reinterpret_cast<const char*>(hashes.data()),
                      hashes.size() * sizeof(uint64_t));
    item.stored_bytes += streams[i]->stored_bytes();
    if (item.kind == Item::Kind::kRows && i > 0 && i <= item.slots.size()) {
      item.slots[i - 1].codec = streams[i]->codec();
    }
  }
  item.codec = streams[0]->codec();
  if (item.kind != Item::Kind::kRows) item.chunk_hashes = streams[0]->hashes();
  item.digest = HashBytes(all_hashes);
}

absl::StatusOr<std::vector<StagedItem>> PrepareItems(
    const internal::TicketRecord& ticket, const RankState& state,
    const StoreOptions& options) {
  CKPTDB_RETURN_IF_ERROR(CheckNames(Item::Kind::kTensor, state.tensors()));
  CKPTDB_RETURN_IF_ERROR(CheckNames(Item::Kind::kRows, state.tables()));
  CKPTDB_RETURN_IF_ERROR(CheckNames(Item::Kind::kBlob, state.blobs()));
  std::vector<StagedItem> items;
  for (const StateBlob& blob : state.blobs()) {
    CKPTDB_ASSIGN_OR_RETURN(items.emplace_back(), PrepareBlob(ticket, blob));
  }
  for (const RankState::Table& table : state.tables()) {
    CKPTDB_ASSIGN_OR_RETURN(items.emplace_back(),
                            PrepareTable(ticket, table, options.stage_threads));
  }
  for (const StateTensor& tensor : state.tensors()) {
    CKPTDB_ASSIGN_OR_RETURN(items.emplace_back(),
                            PrepareTensor(ticket, tensor));
  }
  // Files are written in key order.
  std::sort(items.begin(), items.end(),
            [](const StagedItem& a, const StagedItem& b) {
              return ItemLess(a.item, b.item);
            });
  CKPTDB_RETURN_IF_ERROR(AddTensorStreams(ticket, &items));
  return items;
}

absl::Status ReuseUnchanged(const StepRecord::Rank& parent, int threads,
                            const std::function<absl::Status()>& check,
                            std::vector<StagedItem>* items) {
  std::vector<std::optional<Item>> same(items->size());
  const auto find = [&](int, uint64_t i) -> absl::Status {
    CKPTDB_RETURN_IF_ERROR(check());
    same[i] = FindUnchanged(parent, (*items)[i]);
    return absl::OkStatus();
  };
  CKPTDB_RETURN_IF_ERROR(ParallelFor(threads, items->size(), find));
  ItemKeys unchanged;
  for (const std::optional<Item>& item : same) {
    if (item.has_value()) unchanged.insert(KeyOf(*item));
  }
  const ItemKeys costly = CostlyToBorrow(parent, [&](const Item& item) {
    return unchanged.contains(KeyOf(item));
  });
  for (size_t i = 0; i < items->size(); ++i) {
    if (!same[i].has_value() || costly.contains(KeyOf(*same[i]))) continue;
    (*items)[i].item = *std::move(same[i]);
    (*items)[i].reused = true;
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
