// SPDX-License-Identifier: Apache-2.0
#include "manager/save/delta_audit.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "db/base/mutex.h"
#include "db/base/row_block.h"
#include "manager/state/model_sharding.h"
#include "manager/state/registered_state.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/lossy.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

std::vector<int64_t> Sorted(std::vector<int64_t> ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

bool Has(const std::vector<int64_t>& sorted, int64_t id) {
  return std::binary_search(sorted.begin(), sorted.end(), id);
}

// Returns whether `row`, encoded with a lossy codec, decodes to `stored`.
bool RoundsTo(Codec codec, absl::string_view row, absl::string_view stored) {
  std::string encoded;
  std::string decoded(row.size(), '\0');
  Item::Error error;
  return Quantize(codec, row, static_cast<uint32_t>(row.size() / sizeof(float)),
                  Rounding::kNearest, &encoded, &error) &&
         Dequantize(codec, encoded, row.size(), decoded.data()).ok() &&
         decoded == stored;
}

// Compares the table's rows with the parent's, which it consumes.
class RowAudit : public RowSink {
 public:
  // `codecs` are the codecs that the parent stores each slot with.
  RowAudit(const ChangeTracker::Changes& changes, std::vector<Slot> slots,
           std::vector<std::vector<Codec>> codecs, int64_t step)
      : upserted_(Sorted(changes.upserted)),
        erased_(Sorted(changes.erased)),
        slots_(std::move(slots)),
        codecs_(std::move(codecs)),
        step_(step) {}

  // Adds the table's rows, which it does not copy.
  absl::Status AddRows(const RowSource& source) {
    CKPTDB_ASSIGN_OR_RETURN(const uint64_t blocks, CountBlocks(source));
    for (uint64_t b = 0; b < blocks; ++b) {
      CKPTDB_ASSIGN_OR_RETURN(const RowBlock block, GetBlock(source, b));
      CKPTDB_RETURN_IF_ERROR(CheckRowBlock(b, block, slots_));
      // The caller owns the block, which is read again for each row of the
      // parent, so it is checked once, here.
      blocks_.push_back(block);
      for (uint64_t i = 0; i < block.ids.size(); ++i) AddRow(b, i);
    }
    std::sort(rows_.begin(), rows_.end(),
              [](const Row& a, const Row& b) { return a.id < b.id; });
    in_parent_.resize(rows_.size());
    return absl::OkStatus();
  }

  absl::Status Consume(int /*worker*/, const RowSink::Batch& batch) override {
    for (size_t r = 0; r < batch.ids.size(); ++r) Compare(batch, r);
    return absl::OkStatus();
  }

  // Returns the error of the row with the lowest id, so that it does not depend
  // on which worker finds its row first. Rows that the scan did not find are
  // new.
  absl::Status Finish() {
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (in_parent_[i] != 0) continue;
      Note(rows_[i].id, absl::StrCat("is not in step ", step_,
                                     " and was not marked; call MarkUpserted "
                                     "for each new row"));
    }
    const MutexLock lock(&mutex_);
    if (found_.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("audit_deltas: row ", lowest_, " ", found_));
  }

 private:
  struct Row {
    int64_t id;
    uint64_t block;
    uint64_t place;
  };

  // Keeps a row without a mark, to be compared. Marked rows are saved and need
  // no comparison.
  void AddRow(uint64_t block, uint64_t place) {
    const int64_t id = blocks_[block].ids[place];
    if (Has(erased_, id)) {
      Note(id,
           "was marked as erased but still exists; mark it after it has "
           "changed");
    } else if (!Has(upserted_, id)) {
      rows_.push_back({id, block, place});
    }
  }

  // Compares a row of a batch. Several workers call it concurrently, once for
  // each id.
  void Compare(const RowSink::Batch& batch, size_t r) {
    const int64_t id = batch.ids[r];
    if (Has(upserted_, id) || Has(erased_, id)) return;
    const auto row = std::lower_bound(
        rows_.begin(), rows_.end(), id,
        [](const Row& other, int64_t wanted) { return other.id < wanted; });
    if (row == rows_.end() || row->id != id) {
      return Note(id, absl::StrCat("of step ", step_,
                                   " was removed but not marked; call "
                                   "MarkErased for each row that is removed"));
    }
    in_parent_[static_cast<size_t>(row - rows_.begin())] = 1;
    for (size_t s = 0; s < slots_.size(); ++s) {
      const uint64_t bytes = slots_[s].row_bytes();
      if (IsStored(s, {ValueOf(*row, s), bytes},
                   {batch.slots[s] + r * bytes, bytes})) {
        continue;
      }
      return Note(id, absl::StrCat("differs from step ", step_, " in slot \"",
                                   slots_[s].name,
                                   "\" and was not marked; call MarkUpserted "
                                   "for each row that changes"));
    }
  }

  // Returns whether the parent stores `value`: exactly, or rounded by one of
  // the slot's lossy codecs.
  bool IsStored(size_t slot, absl::string_view value,
                absl::string_view stored) const {
    if (value == stored) return true;
    // A slot without recorded codecs was stored exactly.
    if (slot >= codecs_.size()) return false;
    return std::any_of(
        codecs_[slot].begin(), codecs_[slot].end(), [&](Codec codec) {
          return IsLossy(codec) && RoundsTo(codec, value, stored);
        });
  }

  const char* ValueOf(const Row& row, size_t slot) const {
    const RowBlock& block = blocks_[row.block];
    return block.slots[slot].At(block.RowAt(row.place));
  }

  void Note(int64_t id, std::string what) {
    const MutexLock lock(&mutex_);
    if (!found_.empty() && id >= lowest_) return;
    lowest_ = id;
    found_ = std::move(what);
  }

  const std::vector<int64_t> upserted_;
  const std::vector<int64_t> erased_;
  const std::vector<Slot> slots_;
  const std::vector<std::vector<Codec>> codecs_;
  const int64_t step_;
  std::vector<RowBlock> blocks_;
  std::vector<Row> rows_;  // the rows without a mark, by id
  std::vector<uint8_t> in_parent_;
  Mutex mutex_;
  int64_t lowest_ ABSL_GUARDED_BY(mutex_) = 0;
  // The error of the row with the lowest id; empty without an error.
  std::string found_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::Status AuditTable(const StepReader& parent, const RegisteredTable& table,
                        const TableSharding& sharding,
                        const ChangeTracker::Changes& changes, uint32_t rank,
                        uint32_t world_size, const ReadOptions& read) {
  const std::string place = absl::StrCat("table \"", table.name, "\"");
  CKPTDB_ASSIGN_OR_RETURN(const StepReader::TableSpec spec,
                          parent.FindTable(table.name));
  RowAudit audit(changes, table.state->slots(), spec.codecs,
                 parent.record().version.step);
  // Reads all rows, because rows whose mark was missed are in no set of
  // changes.
  CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<RowSource> rows,
                          Annotate(table.state->AllRows(), place));
  if (rows == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, ": TableState::AllRows returned null"));
  }
  CKPTDB_RETURN_IF_ERROR(Annotate(audit.AddRows(*rows), place));
  RowFilter filter(sharding, table.state->slice_hash(), rank, world_size);
  ScanOptions scan;
  scan.read = read;
  for (const Slot& slot : table.state->slots()) scan.slots.push_back(slot.name);
  filter.Apply(spec, &scan);
  CKPTDB_RETURN_IF_ERROR(parent.ScanTable(table.name, scan, &audit));
  CKPTDB_RETURN_IF_ERROR(Annotate(filter.status(), place));
  return Annotate(audit.Finish(), place);
}

}  // namespace ckptdb::internal
