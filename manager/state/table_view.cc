// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "db/base/row_block.h"
#include "manager/tables.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

// Rows of another source, with some of its slots. Selects the slots of all
// blocks in advance, because several threads read blocks.
class ViewedRows : public RowSource {
 public:
  static absl::StatusOr<std::unique_ptr<RowSource>> Of(
      std::unique_ptr<RowSource> rows, const std::vector<size_t>& places) {
    auto viewed = std::make_unique<ViewedRows>();
    const uint64_t blocks = rows->block_count();
    for (uint64_t b = 0; b < blocks; ++b) {
      CKPTDB_ASSIGN_OR_RETURN(const RowBlock block, rows->Block(b));
      std::vector<RowBlock::SlotValues>& values =
          viewed->slot_values_.emplace_back();
      if (block.ids.empty()) continue;  // may have no slots
      for (const size_t place : places) {
        if (place >= block.slots.size()) {
          return absl::InvalidArgumentError(
              absl::StrCat("block ", b, " has ", block.slots.size(),
                           " slots; expected those of TableState::slots"));
        }
        values.push_back(block.slots[place]);
      }
    }
    viewed->rows_ = std::move(rows);
    return viewed;
  }

  uint64_t block_count() const override { return slot_values_.size(); }
  absl::StatusOr<RowBlock> Block(uint64_t number) const override {
    CKPTDB_ASSIGN_OR_RETURN(RowBlock block, rows_->Block(number));
    block.slots = slot_values_[number];
    return block;
  }

 private:
  std::unique_ptr<RowSource> rows_;
  std::vector<std::vector<RowBlock::SlotValues>> slot_values_;
};

}  // namespace

TableView::TableView(TableState* table,
                     const std::vector<std::pair<std::string, Codec>>& slots)
    : table_(table) {
  if (table_ == nullptr) {
    status_ = absl::InvalidArgumentError("TableView: the table is null");
    return;
  }
  status_ = table_->status();
  status_.Update(Choose(slots));
  status_.Update(internal::CheckSlots(slots_));
}

absl::Status TableView::Choose(
    const std::vector<std::pair<std::string, Codec>>& slots) {
  if (table_->columns().has_value()) {
    return absl::InvalidArgumentError(
        "TableView: the table's columns are divided among ranks; save the "
        "table itself");
  }
  const std::vector<Slot> all = table_->slots();
  for (const std::pair<std::string, Codec>& viewed : slots) {
    const auto found = std::find_if(
        all.begin(), all.end(),
        [&](const Slot& slot) { return slot.name == viewed.first; });
    if (found == all.end()) {
      const auto name = [](std::string* out, const Slot& slot) {
        absl::StrAppend(out, slot.name);
      };
      return absl::InvalidArgumentError(
          absl::StrCat("TableView: the table has no slot \"", viewed.first,
                       "\"; expected one of ", absl::StrJoin(all, ", ", name)));
    }
    slots_.push_back(*found);
    slots_.back().codec = viewed.second;
    places_.push_back(static_cast<size_t>(found - all.begin()));
  }
  return absl::OkStatus();
}

SliceHash TableView::slice_hash() const { return table_->slice_hash(); }

std::vector<std::string> TableView::optimizer_slots() const {
  std::vector<std::string> viewed;
  for (const std::string& name : table_->optimizer_slots()) {
    const bool known =
        std::any_of(slots_.begin(), slots_.end(),
                    [&](const Slot& slot) { return slot.name == name; });
    if (known) viewed.push_back(name);
  }
  return viewed;
}

ChangeTracker* TableView::tracker() { return table_->tracker(); }

absl::StatusOr<std::unique_ptr<RowSource>> TableView::AllRows() const {
  CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<RowSource> rows, table_->AllRows());
  return View(std::move(rows));
}

absl::StatusOr<std::unique_ptr<RowSource>> TableView::RowsOf(
    absl::Span<const int64_t> ids) const {
  CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<RowSource> rows, table_->RowsOf(ids));
  return View(std::move(rows));
}

// A save reports a table that returns null, and names it.
absl::StatusOr<std::unique_ptr<RowSource>> TableView::View(
    std::unique_ptr<RowSource> rows) const {
  if (rows == nullptr) return rows;
  return ViewedRows::Of(std::move(rows), places_);
}

std::optional<uint64_t> TableView::capacity() const {
  return status_.ok() ? table_->capacity() : std::nullopt;
}
absl::Status TableView::CheckId(int64_t id) const {
  return status_.ok() ? table_->CheckId(id) : status_;
}

LiveTable* TableView::Live(absl::Span<const std::string> slots) {
  return table_->Live(slots);
}

}  // namespace ckptdb
