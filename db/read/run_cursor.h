// SPDX-License-Identifier: Apache-2.0
// Reads the rows of one run in order, page by page; internal to db/.
#ifndef CKPTDB_DB_READ_RUN_CURSOR_H_
#define CKPTDB_DB_READ_RUN_CURSOR_H_

#include <rocksdb/slice.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "db/read/step_reader_impl.h"
#include "db/rocks/ahead_iterator.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/page.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Reads one stream of a run: the ids, the erased ids, or the values of a slot.
// Checks the hash of each page, and calls ReadOptions::cancelled before it
// loads one.
class StreamCursor {
 public:
  // `slot` is the slot number in keys: kIdSlot, kErasedSlot, or the number of a
  // slot, from 1.
  StreamCursor(const StepReader::Impl& step, const RankItem& part,
               uint16_t slot, const SliceRange& slices,
               const ReadOptions& options);

  // Seeks to the page with the first row of the slices, or to an earlier one.
  void SeekToSlices();
  // Seeks to the page that may contain this row, for a lookup.
  void SeekToRow(const RowPosition& position);
  // Seeks to the page that starts with exactly this row. Returns DataLoss if it
  // is missing.
  absl::Status SeekToPage(const RowPosition& position);
  void Next() { entries_->Next(); }
  // Loads the page with the same rows as the page loaded in `ids`, usually the
  // next one.
  absl::Status Follow(const StreamCursor& ids);
  // The same without a look at the next one.
  absl::Status JumpTo(const StreamCursor& ids);

  // Loads the page at the cursor. Returns false at the end, and DataLoss for a
  // damaged entry.
  absl::StatusOr<bool> Load();
  // The following describe the loaded page.
  const RowPosition& position() const { return position_; }
  uint32_t rows() const { return page_.count; }
  uint64_t raw_hash() const { return page_.raw_hash; }
  size_t entry_bytes() const { return page_.stored.size() + kPageHeaderBytes; }
  absl::string_view raw() const { return raw_; }

  // Returns "step 7 rank 0 table "user", key of ..." for errors.
  std::string Place() const;

 private:
  std::string KeyAt(const RowPosition& position) const;
  void SeekForward(const std::string& key);
  absl::Status LoadWith(const StreamCursor& ids);
  absl::Status LoadPage();

  const RankItem part_;
  const uint64_t row_bytes_;
  const uint32_t element_bytes_;
  const uint32_t rows_per_page_;
  const SliceRange slices_;
  const std::function<bool()> cancelled_;
  std::string prefix_;
  std::string end_;
  rocksdb::Slice lower_;
  rocksdb::Slice upper_;
  std::unique_ptr<AheadIterator> entries_;
  RowPosition position_;
  PageView page_;
  absl::string_view raw_;
  std::string scratch_;
};

// Reads the rows of some slices and slots of a run, or its erased ids. Not
// thread-safe.
class RunCursor {
 public:
  // `slots` are indexes into the table's slots; empty for erased ids.
  RunCursor(const StepReader::Impl& step, const RankItem& part,
            absl::Span<const size_t> slots, const SliceRange& slices,
            const ReadOptions& options, uint16_t id_slot = kIdSlot);

  // Moves to the next rows, whose ids are valid until the next call. Returns
  // false at the end.
  absl::StatusOr<bool> Next();
  absl::Span<const int64_t> ids() const { return ids_; }
  absl::Span<const RowPosition> positions() const { return positions_; }

  // Loads the values of these rows: slots()[i] points to slot i's. Pages for
  // which this is not called are not read.
  absl::Status LoadSlots();
  absl::Span<const char* const> slots() const { return values_; }
  uint64_t row_bytes(size_t slot) const {
    return item_.slots[slot_indexes_[slot]].row_bytes();
  }

 private:
  absl::Status LoadIds();
  bool Trim();

  const Item& item_;
  const SliceRange slices_;
  bool started_ = false;
  bool slots_loaded_ = false;
  StreamCursor id_stream_;
  std::vector<size_t> slot_indexes_;
  std::vector<std::unique_ptr<StreamCursor>> slot_streams_;
  // These hold the whole page, aligned; the spans below are the rows in the
  // slices.
  std::vector<int64_t> page_ids_;
  std::vector<RowPosition> page_positions_;
  absl::Span<const int64_t> ids_;
  absl::Span<const RowPosition> positions_;
  std::vector<const char*> values_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_READ_RUN_CURSOR_H_
