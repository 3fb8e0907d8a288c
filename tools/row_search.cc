// SPDX-License-Identifier: Apache-2.0
#include "tools/row_search.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/status.h"
#include "tools/row_filter.h"

namespace ckptdb::tool {
namespace {

// Lists of more ids are read by a scan.
constexpr uint64_t kMaxLookedUpIds = uint64_t{1} << 20;
constexpr size_t kMaxLookUpRows = size_t{1} << 16;
constexpr size_t kMaxLookUpBytes = size_t{64} << 20;

// A filter or value, and the places of its slots in the batches of a scan.
class BoundFilter {
 public:
  // Adds the filter's slots to `scanned`.
  BoundFilter(RowFilter filter, std::vector<std::string>* scanned)
      : filter_(std::move(filter)) {
    for (const std::string& slot : filter_.slots()) {
      const auto found = std::find(scanned->begin(), scanned->end(), slot);
      columns_.push_back(static_cast<size_t>(found - scanned->begin()));
      if (found == scanned->end()) scanned->push_back(slot);
    }
  }

  void Evaluate(const RowSink::Batch& batch,
                std::vector<RowFilter::Number>* values) const {
    std::vector<const char*> slots;
    for (const size_t column : columns_) slots.push_back(batch.slots[column]);
    filter_.Evaluate({batch.ids, slots}, values);
  }

 private:
  RowFilter filter_;
  std::vector<size_t> columns_;
};

// The order of the found rows.
struct SortsBefore {
  bool smallest_first = false;
  bool operator()(const FoundRow& a, const FoundRow& b) const {
    const bool a_nan = std::isnan(a.sort_value);
    const bool b_nan = std::isnan(b.sort_value);
    if (a_nan != b_nan) return a_nan;
    if (a_nan || a.sort_value == b.sort_value) return a.id < b.id;
    return (a.sort_value < b.sort_value) == smallest_first;
  }
};

class SearchSink : public RowSink {
 public:
  SearchSink(const RowSearch& search, std::optional<BoundFilter> where,
             std::optional<BoundFilter> not_finite,
             std::optional<BoundFilter> sort, int workers)
      : before_{search.smallest_first},
        limit_(search.limit),
        where_(std::move(where)),
        not_finite_(std::move(not_finite)),
        sort_(std::move(sort)),
        parts_(static_cast<size_t>(workers)) {}

  absl::Status Consume(int worker, const Batch& batch) override {
    Part& part = parts_[static_cast<size_t>(worker)];
    part.read += batch.ids.size();
    if (where_.has_value()) where_->Evaluate(batch, &part.matches);
    if (not_finite_.has_value()) {
      not_finite_->Evaluate(batch, &part.not_finite);
    }
    if (sort_.has_value()) sort_->Evaluate(batch, &part.values);
    for (size_t r = 0; r < batch.ids.size(); ++r) {
      if (where_.has_value() && part.matches[r] == 0) continue;
      if (not_finite_.has_value() && part.not_finite[r] == 0) continue;
      ++part.matched;
      Keep({batch.ids[r], sort_.has_value() ? part.values[r] : 0}, &part.best);
    }
    return absl::OkStatus();
  }

  FoundRows Finish() {
    FoundRows found;
    for (const Part& part : parts_) {
      found.matched_rows += part.matched;
      found.read_rows += part.read;
      for (const FoundRow& row : part.best) Keep(row, &found.rows);
    }
    std::sort(found.rows.begin(), found.rows.end(), before_);
    return found;
  }

 private:
  // Each worker's on its own cache lines.
  struct alignas(128) Part {
    uint64_t read = 0;
    uint64_t matched = 0;
    std::vector<FoundRow> best;  // a heap: the last in order is on top
    std::vector<RowFilter::Number> matches;
    std::vector<RowFilter::Number> not_finite;
    std::vector<RowFilter::Number> values;
  };

  void Keep(const FoundRow& row, std::vector<FoundRow>* best) const {
    if (best->size() == limit_) {
      if (best->empty() || !before_(row, best->front())) return;
      std::pop_heap(best->begin(), best->end(), before_);
      best->pop_back();
    }
    best->push_back(row);
    std::push_heap(best->begin(), best->end(), before_);
  }

  const SortsBefore before_;
  const size_t limit_;
  const std::optional<BoundFilter> where_;
  const std::optional<BoundFilter> not_finite_;
  const std::optional<BoundFilter> sort_;
  std::vector<Part> parts_;
};

absl::StatusOr<std::optional<BoundFilter>> ParseBound(
    const std::string& text, const std::vector<Slot>& slots,
    std::vector<std::string>* scanned) {
  if (text.empty()) return std::nullopt;
  CKPTDB_ASSIGN_OR_RETURN(RowFilter filter, RowFilter::Parse(text, slots));
  return BoundFilter(std::move(filter), scanned);
}

std::vector<int64_t> IdsOf(const IdList& list) {
  std::vector<int64_t> ids;
  for (const auto& [first, last] : list.ranges()) {
    for (int64_t id = first; id < last; ++id) ids.push_back(id);
    ids.push_back(last);
  }
  return ids;
}

absl::Status Scan(const StepReader& step, const RowSearch& search,
                  const std::vector<std::string>& slots,
                  const ReadOptions& read, RowSink* sink) {
  ScanOptions options;
  options.read = read;
  options.slots = slots;
  options.ids_only = slots.empty();
  if (search.ids.has_value()) {
    options.wanted_of_page = [&](absl::Span<const int64_t> ids,
                                 absl::Span<uint8_t> keep) {
      for (size_t i = 0; i < ids.size(); ++i) {
        keep[i] = search.ids->Contains(ids[i]) ? 1 : 0;
      }
    };
  }
  return step.ScanTable(search.table, options, sink);
}

// Moves the rows that were found to the front of the arrays.
void Compact(const std::vector<char>& found, absl::Span<const Slot> slots,
             std::vector<int64_t>* ids, std::vector<std::string>* values) {
  size_t kept = 0;
  for (size_t r = 0; r < ids->size(); ++r) {
    if (found[r] == 0) continue;
    for (size_t s = 0; s < slots.size() && kept != r; ++s) {
      const size_t bytes = slots[s].row_bytes();
      std::memcpy(&(*values)[s][kept * bytes], &(*values)[s][r * bytes], bytes);
    }
    (*ids)[kept++] = (*ids)[r];
  }
  ids->resize(kept);
}

absl::Status LookUpBatch(const StepReader& step, const std::string& table,
                         absl::Span<const Slot> slots, std::vector<int64_t> ids,
                         const ReadOptions& options, RowSink* sink) {
  static_assert(sizeof(bool) == sizeof(char));
  std::vector<std::string> names;
  std::vector<std::string> values;
  std::vector<char*> out;
  for (const Slot& slot : slots) {
    names.push_back(slot.name);
    values.emplace_back(ids.size() * slot.row_bytes(), '\0');
  }
  for (std::string& bytes : values) out.push_back(bytes.data());
  std::vector<char> found(ids.size());
  CKPTDB_RETURN_IF_ERROR(step.LookupRows(
      table, ids, names, out, reinterpret_cast<bool*>(found.data()), options));
  Compact(found, slots, &ids, &values);
  const std::vector<const char*> columns(out.begin(), out.end());
  return sink->Consume(0, {ids, columns});
}

}  // namespace

absl::Status LookUpRows(const StepReader& step, const std::string& table,
                        absl::Span<const Slot> slots,
                        absl::Span<const int64_t> ids,
                        const ReadOptions& options, RowSink* sink) {
  size_t row_bytes = sizeof(int64_t);
  for (const Slot& slot : slots) row_bytes += slot.row_bytes();
  const size_t rows =
      std::clamp<size_t>(kMaxLookUpBytes / row_bytes, 1, kMaxLookUpRows);
  for (size_t at = 0; at < ids.size(); at += rows) {
    const auto part = ids.subspan(at, rows);
    CKPTDB_RETURN_IF_ERROR(LookUpBatch(
        step, table, slots, {part.begin(), part.end()}, options, sink));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Slot>> ChooseSlots(
    const std::string& table, const std::vector<Slot>& slots,
    const std::vector<std::string>& names) {
  if (names.empty()) return slots;
  std::vector<Slot> chosen;
  for (const std::string& name : names) {
    const auto slot =
        std::find_if(slots.begin(), slots.end(),
                     [&](const Slot& each) { return each.name == name; });
    if (slot == slots.end()) {
      return absl::NotFoundError(absl::StrCat(
          "table \"", table, "\" has no slot \"", name, "\"; its slots are ",
          absl::StrJoin(slots, ", ", [](std::string* out, const Slot& each) {
            absl::StrAppend(out, each.name);
          })));
    }
    chosen.push_back(*slot);
  }
  return chosen;
}

absl::StatusOr<FoundRows> SearchRows(const StepReader& step,
                                     const RowSearch& search,
                                     const ReadOptions& options) {
  CKPTDB_ASSIGN_OR_RETURN(const StepReader::TableSpec table,
                          step.FindTable(search.table));
  std::vector<std::string> scanned;
  CKPTDB_ASSIGN_OR_RETURN(auto where,
                          ParseBound(search.where, table.slots, &scanned));
  CKPTDB_ASSIGN_OR_RETURN(auto sort,
                          ParseBound(search.sort, table.slots, &scanned));
  std::optional<BoundFilter> not_finite;
  if (search.not_finite) {
    not_finite.emplace(RowFilter::NotFinite(table.slots), &scanned);
  }
  SearchSink sink(search, std::move(where), std::move(not_finite),
                  std::move(sort), options.threads);
  if (search.ids.has_value() && search.ids->count() <= kMaxLookedUpIds) {
    CKPTDB_ASSIGN_OR_RETURN(
        const std::vector<Slot> slots,
        scanned.empty() ? std::vector<Slot>()
                        : ChooseSlots(search.table, table.slots, scanned));
    CKPTDB_RETURN_IF_ERROR(LookUpRows(step, search.table, slots,
                                      IdsOf(*search.ids), options, &sink));
  } else {
    CKPTDB_RETURN_IF_ERROR(Scan(step, search, scanned, options, &sink));
  }
  FoundRows found = sink.Finish();
  if (search.ids.has_value()) {
    found.missing_ids = search.ids->count() - found.read_rows;
  }
  return found;
}

}  // namespace ckptdb::tool
