// SPDX-License-Identifier: Apache-2.0
#include "manager/save/column_exchange.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "db/base/own_rows.h"
#include "db/base/row_block.h"
#include "manager/ranks/message_codec.h"
#include "manager/state/registered_state.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

using SlotColumns = TableState::Columns;
using RankMessages = std::vector<std::string>;  // to or from each rank

// What a rank has of the rows that it sends to another one.
struct ColumnOffer {
  absl::Status status;
  std::vector<uint64_t> columns;  // slot, first, elements of each
  std::vector<int64_t> ids;
  uint64_t rounds = 0;  // that the sender needs
};

struct ColumnMarks {
  absl::Status status;
  std::vector<int64_t> upserted;
  std::vector<int64_t> erased;
};

}  // namespace

template <>
struct Fields<ColumnOffer> {
  static auto Of(auto& m) {
    return std::tie(m.status, m.columns, m.ids, m.rounds);
  }
};
template <>
struct Fields<ColumnMarks> {
  static auto Of(auto& m) { return std::tie(m.status, m.upserted, m.erased); }
};

namespace {

class GatheredRows : public TableState::Captured {
 public:
  GatheredRows(std::vector<int64_t> ids, const std::vector<Slot>& slots)
      : ids_(std::move(ids)) {
    memory_.reserve(slots.size());  // as short strings move
    for (const Slot& slot : slots) {
      memory_.emplace_back(ids_.size() * slot.row_bytes(), '\0');
      values_.push_back({memory_.back().data(), slot.row_bytes()});
    }
  }
  absl::Status Fetch() override { return absl::OkStatus(); }
  uint64_t block_count() const override { return 1; }
  absl::StatusOr<RowBlock> Block(uint64_t) const override {
    return RowBlock{ids_, values_};
  }

  const std::vector<int64_t>& ids() const { return ids_; }
  char* slot(size_t slot) { return memory_[slot].data(); }

 private:
  const std::vector<int64_t> ids_;
  std::vector<std::string> memory_;  // by slot
  std::vector<RowBlock::SlotValues> values_;
};

void SortIds(std::vector<int64_t>* ids) {
  std::sort(ids->begin(), ids->end());
  ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
}

// The exchange of one table. A rank that fails keeps taking part, and sends its
// error instead of rows until all ranks have received it.
class TableExchange {
 public:
  TableExchange(const ColumnExchange& exchange, size_t table,
                std::vector<SlotColumns> columns)
      : exchange_(exchange),
        table_(exchange.model.tables()[table]),
        slots_(table_.state->slots()),
        columns_(std::move(columns)),
        tag_(absl::StrCat("columns of table \"", table_.name, "\" of attempt ",
                          exchange.attempt)),
        world_size_(exchange.ranks->world_size()),
        own_(exchange.shardings[table], table_.state->slice_hash(),
             exchange.ranks->rank(), world_size_) {}

  // `changes` is null for all rows. Sets *own to this rank's error; an error
  // that is returned is that of all ranks.
  absl::StatusOr<WholeRows> Run(const ChangeTracker::Changes* changes,
                                absl::Status* own) {
    WholeRows whole;
    std::vector<int64_t> upserted;
    if (changes != nullptr) {
      CKPTDB_RETURN_IF_ERROR(Unite(*changes, *own, &upserted, &whole.erased));
      own->Update(InTable(KeepOwn(&whole.erased)));
    }
    if (own->ok()) {
      *own = InTable(CallGuarded("TableState", [&] {
        return Sort(changes == nullptr ? nullptr : &upserted);
      }));
    }
    CKPTDB_RETURN_IF_ERROR(Offer(*own));
    if (own->ok()) {
      *own = InTable(CallGuarded("placing rows", [&] { return Place(); }));
    }
    for (uint64_t round = 0; round < rounds_; ++round) {
      CKPTDB_RETURN_IF_ERROR(Send(round, own));
    }
    whole.rows = std::move(rows_);
    return whole;
  }

 private:
  // A row of a block.
  struct Source {
    uint32_t block = 0;
    uint32_t row = 0;
  };

  absl::StatusOr<RankMessages> AllToAll(RankMessages messages) const {
    return exchange_.ranks->AllToAll(tag_, std::move(messages),
                                     exchange_.deadline);
  }
  // Decodes what each rank has sent. Every rank receives all errors, so all
  // ranks return that of the lowest one.
  template <typename Message>
  absl::StatusOr<std::vector<Message>> Receive(RankMessages messages) const {
    CKPTDB_ASSIGN_OR_RETURN(const RankMessages incoming,
                            AllToAll(std::move(messages)));
    std::vector<Message> decoded(incoming.size());
    for (size_t rank = 0; rank < incoming.size(); ++rank) {
      CKPTDB_RETURN_IF_ERROR(DecodeMessage(incoming[rank], &decoded[rank]));
      CKPTDB_RETURN_IF_ERROR(OfRank(decoded[rank].status, rank));
    }
    return decoded;
  }
  absl::Status InTable(const absl::Status& status) const {
    return Annotate(status, absl::StrCat("table \"", table_.name, "\""));
  }
  absl::Status OfRank(const absl::Status& status, size_t rank) const {
    if (world_size_ == 1) return status;
    return Annotate(status, absl::StrCat("rank ", rank));
  }

  // Sets the rows that any rank has changed: one that a rank has upserted is
  // upserted.
  absl::Status Unite(const ChangeTracker::Changes& changes,
                     const absl::Status& own, std::vector<int64_t>* upserted,
                     std::vector<int64_t>* erased) const {
    const std::string marks =
        EncodeMessage(ColumnMarks{own, changes.upserted, changes.erased});
    CKPTDB_ASSIGN_OR_RETURN(
        const std::vector<ColumnMarks> all,
        Receive<ColumnMarks>(RankMessages(world_size_, marks)));
    std::vector<int64_t> gone;
    for (const ColumnMarks& each : all) {
      upserted->insert(upserted->end(), each.upserted.begin(),
                       each.upserted.end());
      gone.insert(gone.end(), each.erased.begin(), each.erased.end());
    }
    SortIds(upserted);
    SortIds(&gone);
    std::set_difference(gone.begin(), gone.end(), upserted->begin(),
                        upserted->end(), std::back_inserter(*erased));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<uint32_t>> RanksOf(
      absl::Span<const int64_t> ids) const {
    std::vector<uint32_t> ranks(ids.size());
    own_.RanksOf(ids, absl::MakeSpan(ranks));
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ranks[i] >= world_size_) {
        return absl::InvalidArgumentError(own_.DescribeNoRank(ids[i]));
      }
    }
    return ranks;
  }

  // Keeps the ids whose rows this rank saves.
  absl::Status KeepOwn(std::vector<int64_t>* ids) const {
    return CallGuarded("TableSharding", [&]() -> absl::Status {
      CKPTDB_ASSIGN_OR_RETURN(const std::vector<uint32_t> ranks, RanksOf(*ids));
      size_t kept = 0;
      for (size_t i = 0; i < ids->size(); ++i) {
        if (ranks[i] == exchange_.ranks->rank()) (*ids)[kept++] = (*ids)[i];
      }
      ids->resize(kept);
      return absl::OkStatus();
    });
  }

  // Finds the rows of this rank, and which rank saves each.
  absl::Status Sort(const std::vector<int64_t>* ids) {
    if (columns_.empty()) return absl::OkStatus();
    CKPTDB_RETURN_IF_ERROR(CheckColumns());
    CKPTDB_ASSIGN_OR_RETURN(source_, ids == nullptr
                                         ? table_.state->AllRows()
                                         : table_.state->RowsOf(*ids));
    if (source_ == nullptr) {
      return absl::InvalidArgumentError(
          "TableState::AllRows or RowsOf returned null");
    }
    CKPTDB_ASSIGN_OR_RETURN(const uint64_t blocks, CountBlocks(*source_));
    for (uint64_t b = 0; b < blocks; ++b) {
      CKPTDB_ASSIGN_OR_RETURN(const RowBlock block, GetBlock(*source_, b));
      CKPTDB_RETURN_IF_ERROR(CheckRowBlock(b, block, ColumnSlots()));
      CKPTDB_ASSIGN_OR_RETURN(const std::vector<uint32_t> ranks,
                              RanksOf(block.ids));
      for (uint32_t row = 0; row < block.ids.size(); ++row) {
        sources_[ranks[row]].push_back({static_cast<uint32_t>(b), row});
        offers_[ranks[row]].ids.push_back(block.ids[row]);
      }
      blocks_.push_back(block);
    }
    return absl::OkStatus();
  }
  absl::Status CheckColumns() const {
    for (const SlotColumns& each : columns_) {
      if (each.slot < slots_.size() && each.elements > 0 &&
          uint64_t{each.first} + each.elements <= slots_[each.slot].elements) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "TableState::columns has ", each.elements, " elements from ",
          each.first, " of slot ", each.slot,
          "; expected some of those of one of the ", slots_.size(), " slots"));
    }
    return absl::OkStatus();
  }
  // The columns as slots of a block.
  std::vector<Slot> ColumnSlots() const {
    std::vector<Slot> slots;
    for (const SlotColumns& each : columns_) {
      slots.push_back(slots_[each.slot]);
      slots.back().elements = each.elements;
    }
    return slots;
  }
  uint64_t BytesOf(const SlotColumns& columns) const {
    return uint64_t{columns.elements} * DTypeBytes(slots_[columns.slot].dtype);
  }

  // Tells each rank the ids and columns that it will receive.
  absl::Status Offer(const absl::Status& own) {
    uint64_t row_bytes = 0;
    for (const SlotColumns& each : columns_) row_bytes += BytesOf(each);
    uint64_t rows = 0;
    for (const auto& sources : sources_) rows += sources.size();
    RankMessages messages;
    for (ColumnOffer& offer : offers_) {
      offer.status = own;
      for (const SlotColumns& each : columns_) {
        offer.columns.insert(offer.columns.end(),
                             {each.slot, each.first, each.elements});
      }
      offer.rounds = rows * row_bytes / exchange_.round_bytes + 1;
      messages.push_back(EncodeMessage(offer));
    }
    CKPTDB_ASSIGN_OR_RETURN(offers_, Receive<ColumnOffer>(std::move(messages)));
    for (const ColumnOffer& offer : offers_) {
      rounds_ = std::max(rounds_, offer.rounds);
    }
    return absl::OkStatus();
  }

  // A rank may have registered the table with other slots.
  absl::Status CheckOffer(size_t rank) const {
    const std::vector<uint64_t>& columns = offers_[rank].columns;
    for (size_t c = 0; c + 2 < columns.size(); c += 3) {
      const uint64_t slot = columns[c];
      if (slot < slots_.size() && columns[c + 1] <= slots_[slot].elements &&
          columns[c + 2] <= slots_[slot].elements - columns[c + 1]) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", rank, " has elements of slot ", slot,
          " that this rank's table lacks; register the same slots on all "
          "ranks"));
    }
    if (columns.size() % 3 == 0) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(
        "rank ", rank, " sent ", columns.size(), " numbers for columns"));
  }

  // Makes room for the rows, and finds the place of each that arrives.
  absl::Status Place() {
    for (size_t rank = 0; rank < offers_.size(); ++rank) {
      CKPTDB_RETURN_IF_ERROR(CheckOffer(rank));
    }
    std::vector<int64_t> ids;
    for (const ColumnOffer& offer : offers_) {
      ids.insert(ids.end(), offer.ids.begin(), offer.ids.end());
    }
    SortIds(&ids);
    if (ids.size() > std::numeric_limits<uint32_t>::max()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the rank would save ", ids.size(), " rows; the limit is ",
          std::numeric_limits<uint32_t>::max()));
    }
    for (ColumnOffer& offer : offers_) {
      std::vector<uint32_t>& places = places_.emplace_back();
      for (const int64_t id : offer.ids) {
        places.push_back(static_cast<uint32_t>(
            std::lower_bound(ids.begin(), ids.end(), id) - ids.begin()));
      }
      offer.ids = {};
    }
    for (size_t slot = 0; slot < slots_.size(); ++slot) {
      CKPTDB_RETURN_IF_ERROR(CheckSlot(slot, ids));
    }
    rows_ = std::make_unique<GatheredRows>(std::move(ids), slots_);
    return absl::OkStatus();
  }

  // Checks that each element of a row is on one rank.
  absl::Status CheckSlot(size_t slot, const std::vector<int64_t>& ids) const {
    std::vector<std::array<uint64_t, 3>> parts;  // first, end, rank
    for (size_t rank = 0; rank < offers_.size(); ++rank) {
      const std::vector<uint64_t>& columns = offers_[rank].columns;
      for (size_t c = 0; c < columns.size(); c += 3) {
        if (columns[c] != slot) continue;
        parts.push_back(
            {columns[c + 1], columns[c + 1] + columns[c + 2], rank});
      }
    }
    std::sort(parts.begin(), parts.end());
    std::vector<uint32_t> ends(ids.size());
    const auto check = [&](uint32_t row, uint64_t next) -> absl::Status {
      const uint32_t end = ends[row];
      if (end == next) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(
          "row ", ids[row], " has elements ", std::min<uint64_t>(end, next),
          " to ", std::max<uint64_t>(end, next) - 1, " of slot \"",
          slots_[slot].name, "\" on ", end < next ? "no rank" : "two ranks",
          "; TableState::columns of all ranks must cover each row once"));
    };
    for (const auto& [first, end, rank] : parts) {
      for (const uint32_t row : places_[rank]) {
        CKPTDB_RETURN_IF_ERROR(check(row, first));
        ends[row] = static_cast<uint32_t>(end);
      }
    }
    for (uint32_t row = 0; row < ids.size(); ++row) {
      CKPTDB_RETURN_IF_ERROR(check(row, slots_[slot].elements));
    }
    return absl::OkStatus();
  }

  // A share of the rows to each rank, and what the others send.
  absl::Status Send(uint64_t round, absl::Status* own) {
    RankMessages messages(world_size_);
    for (uint32_t rank = 0; rank < world_size_; ++rank) {
      MessageWriter(&messages[rank]).Put(*own);
      if (own->ok()) Append(sources_[rank], round, &messages[rank]);
    }
    CKPTDB_ASSIGN_OR_RETURN(const RankMessages incoming,
                            AllToAll(std::move(messages)));
    for (size_t rank = 0; rank < incoming.size(); ++rank) {
      absl::Status status;
      MessageReader reader(incoming[rank]);
      if (!reader.Get(&status)) {
        return absl::InternalError(absl::StrCat(
            "cannot decode ", incoming[rank].size(), " bytes of columns"));
      }
      CKPTDB_RETURN_IF_ERROR(OfRank(status, rank));
      if (own->ok()) *own = Take(rank, round, reader.rest());
    }
    return absl::OkStatus();
  }

  // The part of a rank's rows that a round sends.
  std::pair<size_t, size_t> Share(size_t rows, uint64_t round) const {
    return {rows * round / rounds_, rows * (round + 1) / rounds_};
  }
  void Append(const std::vector<Source>& sources, uint64_t round,
              std::string* to) const {
    const auto [begin, end] = Share(sources.size(), round);
    for (size_t c = 0; c < columns_.size(); ++c) {
      const uint64_t bytes = BytesOf(columns_[c]);
      for (size_t i = begin; i < end; ++i) {
        const RowBlock& block = blocks_[sources[i].block];
        to->append(block.slots[c].At(block.RowAt(sources[i].row)), bytes);
      }
    }
  }
  absl::Status Take(size_t rank, uint64_t round, absl::string_view bytes) {
    const std::vector<uint64_t>& columns = offers_[rank].columns;
    const auto [begin, end] = Share(places_[rank].size(), round);
    for (size_t c = 0; c < columns.size(); c += 3) {
      const Slot& slot = slots_[columns[c]];
      const uint64_t element = DTypeBytes(slot.dtype);
      const uint64_t count = columns[c + 2] * element;
      char* const to = rows_->slot(columns[c]) + columns[c + 1] * element;
      if (bytes.size() < (end - begin) * count) {
        return absl::InternalError(
            absl::StrCat("rank ", rank, " sent too few bytes of columns"));
      }
      for (size_t i = begin; i < end; ++i) {
        std::memcpy(to + places_[rank][i] * slot.row_bytes(), bytes.data(),
                    count);
        bytes.remove_prefix(count);
      }
    }
    return absl::OkStatus();
  }

  const ColumnExchange& exchange_;
  const RegisteredTable& table_;
  const std::vector<Slot> slots_;
  const std::vector<SlotColumns> columns_;  // of this rank
  const std::string tag_;
  const uint32_t world_size_;
  const OwnRows own_;
  std::unique_ptr<RowSource> source_;  // this rank's rows
  std::vector<RowBlock> blocks_;
  // By the rank that saves the rows: this rank's.
  std::vector<std::vector<Source>> sources_{world_size_};
  // To each rank, then from each.
  std::vector<ColumnOffer> offers_{world_size_};
  uint64_t rounds_ = 0;
  std::unique_ptr<GatheredRows> rows_;
  // By rank, the places in rows_ of the rows that it sends, in their order.
  std::vector<std::vector<uint32_t>> places_;
};

}  // namespace

absl::StatusOr<WholeTables> ExchangeColumns(const ColumnExchange& exchange,
                                            absl::Status own) {
  WholeTables whole;
  for (size_t t = 0; t < exchange.model.tables().size(); ++t) {
    const RegisteredTable& table = exchange.model.tables()[t];
    std::optional<std::vector<SlotColumns>> columns = table.state->columns();
    if (!columns.has_value()) continue;
    // The same on all ranks; one that has failed may have no changes.
    const bool full = exchange.changes == nullptr ||
                      table.state->tracker() == nullptr ||
                      exchange.bases.contains(table.name);
    const ChangeTracker::Changes none;
    const ChangeTracker::Changes* changes = full ? nullptr : &none;
    if (!full && t < exchange.changes->size() &&
        (*exchange.changes)[t].has_value()) {
      changes = &*(*exchange.changes)[t];
    }
    TableExchange run(exchange, t, *std::move(columns));
    CKPTDB_ASSIGN_OR_RETURN(whole[t], run.Run(changes, &own));
  }
  CKPTDB_RETURN_IF_ERROR(own);
  return whole;
}

}  // namespace ckptdb::internal
