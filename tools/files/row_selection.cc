// SPDX-License-Identifier: Apache-2.0
#include "tools/files/row_selection.h"

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "tools/row_filter.h"

namespace ckptdb::tool {
namespace {

using RowRange = SelectedRowSink::RowRange;

// Passes on the rows that match the filter. The scan reads the filter's slots
// first, then the others that are wanted.
class SelectingSink : public RowSink {
 public:
  SelectingSink(std::optional<RowFilter> filter, std::vector<size_t> places,
                SelectedRowSink* sink)
      : filter_(std::move(filter)), places_(std::move(places)), sink_(sink) {}

  absl::Status Consume(int worker, const Batch& batch) override {
    std::vector<RowRange> rows;
    if (filter_.has_value()) {
      rows = Matches(batch);
    } else {
      rows.emplace_back(0, batch.ids.size());
    }
    if (rows.empty()) return absl::OkStatus();
    std::vector<const char*> slots;
    slots.reserve(places_.size());
    for (const size_t place : places_) slots.push_back(batch.slots[place]);
    return sink_->Consume(worker, {batch.ids, slots}, rows);
  }

 private:
  std::vector<RowRange> Matches(const Batch& batch) const {
    std::vector<RowFilter::Number> values;
    filter_->Evaluate(batch, &values);
    std::vector<RowRange> rows;
    for (size_t r = 0; r < values.size(); ++r) {
      if (values[r] == 0) continue;
      if (!rows.empty() && rows.back().second == r) {
        ++rows.back().second;
      } else {
        rows.emplace_back(r, r + 1);
      }
    }
    return rows;
  }

  const std::optional<RowFilter> filter_;
  const std::vector<size_t> places_;  // where a batch has the wanted slots
  SelectedRowSink* const sink_;
};

class CountingSink : public SelectedRowSink {
 public:
  absl::Status Consume(int /*worker*/, const RowSink::Batch& /*batch*/,
                       absl::Span<const RowRange> rows) override {
    for (const RowRange& range : rows) count_ += range.second - range.first;
    return absl::OkStatus();
  }
  uint64_t count() const { return count_; }

 private:
  std::atomic<uint64_t> count_ = 0;
};

void SelectIds(const RowSelection& selection, SliceHash hash,
               ScanOptions* scan) {
  const bool by_slice = hash == SliceHash::kModulo;
  if (by_slice) scan->slices = selection.slices;
  const bool checks_slice = !by_slice && !(selection.slices == SliceRange());
  if (!selection.ids.has_value() && !checks_slice) return;
  scan->wanted = [&selection, checks_slice](int64_t id) {
    return (!selection.ids.has_value() || selection.ids->Contains(id)) &&
           (!checks_slice ||
            selection.slices.Contains(SliceOf(id, SliceHash::kModulo)));
  };
}

}  // namespace

absl::Status ScanSelectedRows(const StepReader& step, const std::string& table,
                              const RowSelection& selection,
                              const std::vector<Slot>& slots,
                              const ReadOptions& options,
                              SelectedRowSink* sink) {
  ScanOptions scan;
  scan.read = options;
  CKPTDB_ASSIGN_OR_RETURN(const StepReader::TableSpec spec,
                          step.FindTable(table));
  SelectIds(selection, spec.slice_hash, &scan);
  std::optional<RowFilter> filter;
  if (!selection.where.empty()) {
    auto parsed = RowFilter::Parse(selection.where, spec.slots);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("table \"", table, "\": ", parsed.status().message()));
    }
    filter = *std::move(parsed);
    scan.slots = filter->slots();
  }
  std::vector<size_t> places;
  for (const Slot& slot : slots) {
    const auto found =
        std::find(scan.slots.begin(), scan.slots.end(), slot.name);
    places.push_back(static_cast<size_t>(found - scan.slots.begin()));
    if (found == scan.slots.end()) scan.slots.push_back(slot.name);
  }
  scan.ids_only = scan.slots.empty();
  SelectingSink selecting(std::move(filter), std::move(places), sink);
  return step.ScanTable(table, scan, &selecting);
}

absl::StatusOr<uint64_t> CountSelectedRows(const StepReader& step,
                                           const std::string& table,
                                           const RowSelection& selection,
                                           const ReadOptions& options) {
  CountingSink counting;
  CKPTDB_RETURN_IF_ERROR(
      ScanSelectedRows(step, table, selection, {}, options, &counting));
  return counting.count();
}

}  // namespace ckptdb::tool
