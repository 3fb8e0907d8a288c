// SPDX-License-Identifier: Apache-2.0
#include "tools/row_history.h"

#include <algorithm>
#include <utility>

#include "schema/status.h"
#include "schema/types.h"
#include "tools/open_store.h"

namespace ckptdb::tool {
namespace {

// Receives a single row, from a single worker.
class OneRow : public LiveTable {
 public:
  OneRow(int64_t id, std::vector<Slot> slots)
      : id_(id), slots_(std::move(slots)) {}

  absl::Status Clear() override { return absl::OkStatus(); }
  absl::Status Erase(int, absl::Span<const int64_t> ids) override {
    const bool has = std::find(ids.begin(), ids.end(), id_) != ids.end();
    erased_ = erased_ || has;
    return absl::OkStatus();
  }
  absl::Status Consume(int, const RowSink::Batch& batch) override {
    for (size_t r = 0; r < batch.ids.size(); ++r) {
      if (batch.ids[r] != id_) continue;
      row_ = Row{slots_, {}};
      for (size_t i = 0; i < slots_.size(); ++i) {
        const uint64_t bytes = slots_[i].row_bytes();
        row_->values.emplace_back(batch.slots[i] + r * bytes, bytes);
      }
    }
    return absl::OkStatus();
  }

  bool erased() const { return erased_; }
  const std::optional<Row>& row() const { return row_; }

 private:
  const int64_t id_;
  const std::vector<Slot> slots_;
  bool erased_ = false;
  std::optional<Row> row_;
};

ScanOptions OneRowOptions(int64_t id, SliceHash hash) {
  ScanOptions options;
  const uint32_t slice = SliceOf(id, hash);
  options.slices = {slice, slice + 1};
  options.wanted = [id](int64_t other) { return other == id; };
  options.read.threads = 1;
  // Only a few pages are read, so reading ahead would waste time.
  options.read.readahead_bytes = 0;
  return options;
}

// Finds a slot of the same type. Ignores codecs, because they do not change
// values.
const std::string* FindValue(const Row& row, const Slot& slot) {
  for (size_t i = 0; i < row.slots.size(); ++i) {
    const Slot& other = row.slots[i];
    if (other.name == slot.name && other.dtype == slot.dtype &&
        other.elements == slot.elements) {
      return &row.values[i];
    }
  }
  return nullptr;
}

std::vector<std::string> ChangedSlots(const Row& before, const Row& after) {
  std::vector<std::string> changed;
  for (size_t i = 0; i < after.slots.size(); ++i) {
    const std::string* const old = FindValue(before, after.slots[i]);
    if (old == nullptr || *old != after.values[i]) {
      changed.push_back(after.slots[i].name);
    }
  }
  for (const Slot& slot : before.slots) {
    if (FindValue(after, slot) != nullptr) continue;
    // A slot whose type changed is in the list already.
    if (std::find(changed.begin(), changed.end(), slot.name) == changed.end()) {
      changed.push_back(slot.name);
    }
  }
  return changed;
}

}  // namespace

absl::string_view RowChangeName(RowChange change) {
  switch (change) {
    case RowChange::kAppeared:
      return "appeared";
    case RowChange::kChanged:
      return "changed";
    case RowChange::kErased:
      return "erased";
    case RowChange::kDropped:
      return "dropped";
  }
  return "unknown";
}

RowHistory::RowHistory(Reader* reader, std::string table, int64_t id)
    : reader_(reader), table_(std::move(table)), id_(id) {}

absl::Status RowHistory::Add(const StepRecord& step) {
  const int64_t number = step.version.step;
  absl::StatusOr<State> state =
      absl::FailedPreconditionError("no earlier step was added");
  // The changes since the previous step are a few pages. If there are none, the
  // row is looked up.
  if (before_.has_value() && state_.has_table) state = Follow(number);
  if (absl::IsFailedPrecondition(state.status())) state = LookUp(number);
  if (absl::IsNotFound(state.status())) {
    // Keeps `before_`, so that the next step is compared with the last one that
    // was read.
    ++skipped_;
    return absl::OkStatus();
  }
  if (!state.ok()) {
    return WithPlace(ReadingStatus(state.status()), StepName(number));
  }
  Note(step, *std::move(state));
  return absl::OkStatus();
}

// Returns FailedPrecondition if no changes lead to the step.
absl::StatusOr<RowHistory::State> RowHistory::Follow(int64_t step) {
  CKPTDB_ASSIGN_OR_RETURN(const auto changes,
                          reader_->OpenChanges(*before_, step));
  const auto spec = changes->to().FindTable(table_);
  if (absl::IsNotFound(spec.status())) return State();
  CKPTDB_RETURN_IF_ERROR(spec.status());
  OneRow sink(id_, spec->slots);
  CKPTDB_RETURN_IF_ERROR(
      changes->ScanTable(table_, OneRowOptions(id_, spec->slice_hash), &sink));
  State state = state_;
  // A row that was erased and inserted again is in both lists, and exists.
  if (sink.erased()) state.row.reset();
  if (sink.row().has_value()) state.row = sink.row();
  return state;
}

absl::StatusOr<RowHistory::State> RowHistory::LookUp(int64_t step) {
  CKPTDB_ASSIGN_OR_RETURN(const auto opened, reader_->OpenStep(step));
  const auto spec = opened->FindTable(table_);
  if (absl::IsNotFound(spec.status())) return State();
  CKPTDB_RETURN_IF_ERROR(spec.status());
  absl::StatusOr<std::vector<std::string>> values =
      opened->LookupRow(table_, id_);
  State state;
  state.has_table = true;
  if (absl::IsNotFound(values.status())) return state;
  CKPTDB_RETURN_IF_ERROR(values.status());
  state.row = Row{spec->slots, *std::move(values)};
  return state;
}

// Adds an event if the row differs from the previous step's, and makes this the
// previous step.
void RowHistory::Note(const StepRecord& step, State state) {
  RowEvent event;
  event.step = step;
  bool happened = true;
  if (state.row.has_value() && !state_.row.has_value()) {
    event.change = RowChange::kAppeared;
  } else if (state.row.has_value()) {
    event.changed_slots = ChangedSlots(*state_.row, *state.row);
    happened = !event.changed_slots.empty();
  } else {
    event.change = state.has_table ? RowChange::kErased : RowChange::kDropped;
    happened = state_.row.has_value();
  }
  if (state.row.has_value()) event.row = *state.row;
  if (happened) events_.push_back(std::move(event));
  found_table_ = found_table_ || state.has_table;
  before_ = step.version;
  state_ = std::move(state);
}

}  // namespace ckptdb::tool
