// SPDX-License-Identifier: Apache-2.0
#include "db/read/run_cursor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/cancelled.h"
#include "db/disk/rocks_status.h"
#include "db/rocks/rocks_options.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/limits.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

bool IsIds(uint16_t slot) { return slot == kIdSlot || slot == kErasedSlot; }

uint64_t RowBytesOf(const Item& item, uint16_t slot) {
  return IsIds(slot) ? sizeof(int64_t)
                     : item.slots[slot - size_t{1}].row_bytes();
}

uint32_t ElementBytesOf(const Item& item, uint16_t slot) {
  return IsIds(slot) ? sizeof(int64_t)
                     : DTypeBytes(item.slots[slot - size_t{1}].dtype);
}

RowPosition PositionOf(int64_t id, SliceHash hash) {
  return {SliceOf(id, hash), static_cast<uint64_t>(id)};
}

}  // namespace

StreamCursor::StreamCursor(const StepReader::Impl& step, const RankItem& part,
                           uint16_t slot, const SliceRange& slices,
                           const ReadOptions& options)
    : part_(part),
      row_bytes_(RowBytesOf(*part.item, slot)),
      element_bytes_(ElementBytesOf(*part.item, slot)),
      rows_per_page_(slot == kErasedSlot ? kErasedRowsPerPage
                                         : part.item->rows_per_page),
      slices_(slices),
      cancelled_(options.cancelled),
      prefix_(ItemPrefix(part.item->data_version, part.rank, Item::Kind::kRows,
                         part.item->name)) {
  AppendStream(part.item->run, slot, &prefix_);
  // The bound stops the iterator and its readahead at the end of the slices.
  // After the last slice the stream ends.
  end_ = slices.end < kSlices ? KeyAt({static_cast<uint16_t>(slices.end), 0})
                              : PrefixEnd(prefix_);
  lower_ = ToSlice(prefix_);
  upper_ = ToSlice(end_);
  const Database& database = step.database();
  const bool ahead = options.readahead_bytes > 0 && IsReadAhead(*part.item);
  entries_ = std::make_unique<AheadIterator>(
      database.NewIterator(PassOptions(&lower_, &upper_), part.item->placement),
      ahead ? options.readahead_bytes : 0,
      ahead ? database.ApproximateBytes(
                  Family::kBulk,
                  KeyAt({static_cast<uint16_t>(slices.begin), 0}), end_)
            : 0);
}

std::string StreamCursor::KeyAt(const RowPosition& position) const {
  std::string key = prefix_;
  AppendPosition(position, &key);
  return key;
}

std::string StreamCursor::Place() const {
  std::string place = PlaceOf(part_);
  if (!entries_->Valid()) return place;
  return absl::StrCat(place, ", key of ",
                      DescribeDataKey(FromSlice(entries_->key())));
}

void StreamCursor::SeekToSlices() {
  SeekToRow({static_cast<uint16_t>(slices_.begin), 0});
}

void StreamCursor::SeekToRow(const RowPosition& position) {
  if (part_.item->placement == Item::Placement::kInline) {
    SeekForward(KeyAt(position));
    return;
  }
  // The row may lie in the previous page, because a page's key is the position
  // of its first row.
  entries_->SeekForPrev(KeyAt(position));
  // No page begins before the row, but the stream's first page may contain
  // later rows of the range.
  if (!entries_->Valid() && entries_->status().ok()) {
    entries_->Seek(lower_);
  }
}

// Moves to the last page that does not begin after `key`, or to the first. A
// backward seek would also read a neighbouring version's block, whose damage
// must not affect this one. An inline stream has few pages.
void StreamCursor::SeekForward(const std::string& key) {
  std::string last;
  for (entries_->Seek(lower_);
       entries_->Valid() && entries_->key().compare(key) <= 0;
       entries_->Next()) {
    last = entries_->key().ToString();
  }
  if (!last.empty()) entries_->Seek(last);
}

// Moves to the page of a slot that begins at the same row as a page of ids. The
// ids imply that it exists, so its absence is damage.
absl::Status StreamCursor::SeekToPage(const RowPosition& position) {
  const std::string key = KeyAt(position);
  entries_->Seek(key);
  if (entries_->Valid() && entries_->key() == rocksdb::Slice(key)) {
    return absl::OkStatus();
  }
  CKPTDB_RETURN_IF_ERROR(FromRocksRead(entries_->status(), Place()));
  return absl::DataLossError(absl::StrCat(PlaceOf(part_), ": the page at ",
                                          DescribeDataKey(key), " is missing"));
}

absl::Status StreamCursor::Follow(const StreamCursor& ids) {
  const std::string key = KeyAt(ids.position());
  // The next page of a slot is nearly always the right one. A seek is needed
  // only if pages of ids were skipped.
  if (entries_->Valid()) entries_->Next();
  if (!entries_->Valid() || entries_->key() != rocksdb::Slice(key)) {
    CKPTDB_RETURN_IF_ERROR(SeekToPage(ids.position()));
  }
  return LoadWith(ids);
}

absl::Status StreamCursor::JumpTo(const StreamCursor& ids) {
  CKPTDB_RETURN_IF_ERROR(SeekToPage(ids.position()));
  return LoadWith(ids);
}

absl::Status StreamCursor::LoadWith(const StreamCursor& ids) {
  CKPTDB_RETURN_IF_ERROR(CheckCancelled(cancelled_));
  CKPTDB_RETURN_IF_ERROR(Annotate(LoadPage(), Place()));
  // Pages of all slots are cut at the same rows, so rows are found by their
  // index in a page.
  if (rows() == ids.rows()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(Place(), ": page has ", rows(),
                                          " rows; the page of the ids has ",
                                          ids.rows()));
}

absl::StatusOr<bool> StreamCursor::Load() {
  if (!entries_->Valid()) {
    CKPTDB_RETURN_IF_ERROR(FromRocksRead(entries_->status(), Place()));
    return false;
  }
  CKPTDB_RETURN_IF_ERROR(CheckCancelled(cancelled_));
  CKPTDB_RETURN_IF_ERROR(Annotate(LoadPage(), Place()));
  return true;
}

// Loads the entry at the iterator and checks its header against the item.
absl::Status StreamCursor::LoadPage() {
  CKPTDB_ASSIGN_OR_RETURN(const DataKey key,
                          ParseDataKey(FromSlice(entries_->key())));
  position_ = key.position;
  CKPTDB_ASSIGN_OR_RETURN(page_, ParsePage(FromSlice(entries_->value())));
  // The page's hash is right, but it may be another table's page or a forged
  // one, and the code below relies on these numbers.
  if (page_.count == 0 || page_.count > rows_per_page_ ||
      page_.raw_bytes != page_.count * row_bytes_) {
    return absl::DataLossError(
        absl::StrCat("page has ", page_.count, " rows in ", page_.raw_bytes,
                     " bytes; expected ", row_bytes_,
                     " bytes per row and at most ", rows_per_page_, " rows"));
  }
  CKPTDB_ASSIGN_OR_RETURN(raw_, ReadPage(page_, element_bytes_, &scratch_));
  return absl::OkStatus();
}

RunCursor::RunCursor(const StepReader::Impl& step, const RankItem& part,
                     absl::Span<const size_t> slots, const SliceRange& slices,
                     const ReadOptions& options, uint16_t id_slot)
    : item_(*part.item),
      slices_(slices),
      id_stream_(step, part, id_slot, slices, options),
      slot_indexes_(slots.begin(), slots.end()),
      values_(slots.size()) {
  for (const size_t slot : slots) {
    slot_streams_.push_back(std::make_unique<StreamCursor>(
        step, part, static_cast<uint16_t>(slot + 1), slices, options));
  }
}

absl::StatusOr<bool> RunCursor::Next() {
  if (started_) id_stream_.Next();
  if (!started_) id_stream_.SeekToSlices();
  started_ = true;
  // Slots are loaded when the first wanted row of a page is reached, so a page
  // without wanted rows is not read.
  slots_loaded_ = false;
  while (true) {
    CKPTDB_ASSIGN_OR_RETURN(const bool more, id_stream_.Load());
    if (!more) return false;
    CKPTDB_RETURN_IF_ERROR(Annotate(LoadIds(), id_stream_.Place()));
    if (Trim()) return true;
    id_stream_.Next();
  }
}

// Loads the ids of a page, and checks that they ascend and that the first one
// matches the key.
absl::Status RunCursor::LoadIds() {
  const size_t rows = id_stream_.rows();
  page_ids_.resize(rows);
  page_positions_.resize(rows);
  std::memcpy(page_ids_.data(), id_stream_.raw().data(),
              id_stream_.raw().size());
  for (size_t i = 0; i < rows; ++i) {
    page_positions_[i] = PositionOf(page_ids_[i], item_.slice_hash);
    // The merge relies on the order, and so does the search in a page.
    if (i == 0 || page_positions_[i - 1] < page_positions_[i]) continue;
    return absl::DataLossError(absl::StrCat(
        "id ", page_ids_[i], " is out of order after id ", page_ids_[i - 1]));
  }
  if (page_positions_[0] == id_stream_.position()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("page starts with id ", page_ids_[0],
                                          ", which does not match its key"));
}

// Keeps the rows of the page that are in the slices.
bool RunCursor::Trim() {
  // Only the first and the last page of a range contain rows of other slices.
  const auto begin = std::partition_point(
      page_positions_.begin(), page_positions_.end(),
      [&](const RowPosition& at) { return at.slice < slices_.begin; });
  const auto end = std::partition_point(
      begin, page_positions_.end(),
      [&](const RowPosition& at) { return at.slice < slices_.end; });
  const auto first = static_cast<size_t>(begin - page_positions_.begin());
  const auto count = static_cast<size_t>(end - begin);
  ids_ = absl::MakeConstSpan(page_ids_).subspan(first, count);
  positions_ = absl::MakeConstSpan(page_positions_).subspan(first, count);
  return count > 0;
}

// The pages of all slots begin at the same rows, so the ids determine the page
// to load.
absl::Status RunCursor::LoadSlots() {
  if (slots_loaded_) return absl::OkStatus();
  const auto skipped = static_cast<size_t>(ids_.data() - page_ids_.data());
  for (size_t i = 0; i < slot_streams_.size(); ++i) {
    StreamCursor& stream = *slot_streams_[i];
    CKPTDB_RETURN_IF_ERROR(stream.Follow(id_stream_));
    values_[i] = stream.raw().data() + skipped * row_bytes(i);
  }
  slots_loaded_ = true;
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
