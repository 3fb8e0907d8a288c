// SPDX-License-Identifier: Apache-2.0
#include "tools/row_diff.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "schema/status.h"
#include "tools/number_diff.h"

namespace ckptdb::tool {
namespace {

// The slots that both tables have, of the same type.
std::vector<Slot> CommonSlots(const std::vector<Slot>& from,
                              const std::vector<Slot>& to) {
  std::vector<Slot> common;
  for (const Slot& slot : from) {
    const bool same = std::any_of(to.begin(), to.end(), [&](const Slot& other) {
      return other.name == slot.name && other.dtype == slot.dtype &&
             other.elements == slot.elements;
    });
    if (same) common.push_back(slot);
  }
  return common;
}

ScanOptions SlotsOnly(const std::vector<Slot>& slots, const ReadOptions& read) {
  ScanOptions options;
  for (const Slot& slot : slots) options.slots.push_back(slot.name);
  options.ids_only = slots.empty();
  options.read = read;
  return options;
}

uint64_t RowBytes(const std::vector<Slot>& slots) {
  uint64_t bytes = 0;
  for (const Slot& slot : slots) bytes += slot.row_bytes();
  return bytes;
}

// The findings of one worker.
class alignas(128) RowTally {
 public:
  void Add(int64_t id, const RowDiffOptions& options) {
    ++diff_.added;
    KeepId(id, options.max_ids, &diff_.added_ids);
  }
  void Erase(int64_t id, const RowDiffOptions& options) {
    ++diff_.erased;
    KeepId(id, options.max_ids, &diff_.erased_ids);
  }

  // Compares the values of a row, slot by slot.
  void Compare(int64_t id, const std::vector<Slot>& slots,
               absl::Span<const char* const> from,
               absl::Span<const char* const> to,
               const RowDiffOptions& options) {
    bool changed = false;
    double squares = 0;
    for (size_t s = 0; s < slots.size(); ++s) {
      const Slot& slot = slots[s];
      if (std::memcmp(from[s], to[s], slot.row_bytes()) == 0) continue;
      const NumberDiff diff = differ_.Compare(slot.dtype, from[s], slot.dtype,
                                              to[s], slot.elements);
      changed = changed || !options.tolerance.has_value() ||
                diff.max_abs > *options.tolerance;
      if (!CanCast(slot.dtype, DType::kI64)) squares += diff.squares;
    }
    if (!changed) return;
    ++diff_.changed;
    KeepId(id, options.max_ids, &diff_.changed_ids);
    KeepMove({id, std::sqrt(squares)}, options.max_movers);
  }

  void MergeInto(RowDiff* all, const RowDiffOptions& options) {
    all->added += diff_.added;
    all->erased += diff_.erased;
    all->changed += diff_.changed;
    Merge(diff_.added_ids, options.max_ids, std::less<>(), &all->added_ids);
    Merge(diff_.erased_ids, options.max_ids, std::less<>(), &all->erased_ids);
    Merge(diff_.changed_ids, options.max_ids, std::less<>(), &all->changed_ids);
    Merge(diff_.movers, options.max_movers, MovedFarther, &all->movers);
  }

 private:
  static bool MovedFarther(const RowMove& a, const RowMove& b) {
    if (a.distance != b.distance) return a.distance > b.distance;
    return a.id < b.id;
  }

  // Keeps the first of both in their order, which `all` then has.
  template <typename T, typename Before>
  static void Merge(const std::vector<T>& part, size_t limit,
                    const Before& before, std::vector<T>* all) {
    all->insert(all->end(), part.begin(), part.end());
    std::sort(all->begin(), all->end(), before);
    if (all->size() > limit) all->resize(limit);
  }

  // Keeps the first in a heap, whose top is the last in order.
  template <typename T, typename Before>
  static void Keep(const T& element, size_t limit, const Before& before,
                   std::vector<T>* heap) {
    if (heap->size() == limit) {
      if (limit == 0 || !before(element, heap->front())) return;
      std::pop_heap(heap->begin(), heap->end(), before);
      heap->pop_back();
    }
    heap->push_back(element);
    std::push_heap(heap->begin(), heap->end(), before);
  }
  static void KeepId(int64_t id, size_t limit, std::vector<int64_t>* ids) {
    Keep(id, limit, std::less<>(), ids);
  }
  void KeepMove(const RowMove& move, size_t limit) {
    Keep(move, limit, MovedFarther, &diff_.movers);
  }

  RowDiff diff_;
  NumberComparer differ_;
};

RowDiff MergeTallies(std::vector<RowTally>* tallies,
                     const RowDiffOptions& options) {
  RowDiff diff;
  for (RowTally& tally : *tallies) tally.MergeInto(&diff, options);
  return diff;
}

// --- By a scan of both steps.

// The rows of a part of the first step.
class HeldRows : public RowSink {
 public:
  HeldRows(const std::vector<Slot>& slots, int workers)
      : slots_(slots), parts_(static_cast<size_t>(workers)) {}

  absl::Status Consume(int worker, const Batch& batch) override {
    Part& part = parts_[static_cast<size_t>(worker)];
    part.ids.insert(part.ids.end(), batch.ids.begin(), batch.ids.end());
    for (size_t r = 0; r < batch.ids.size(); ++r) {
      for (size_t s = 0; s < slots_.size(); ++s) {
        const uint64_t bytes = slots_[s].row_bytes();
        part.values.append(batch.slots[s] + r * bytes, bytes);
      }
    }
    return absl::OkStatus();
  }

  // Makes Find usable, after the scan.
  void Index() {
    size_t rows = 0;
    for (const Part& part : parts_) rows += part.ids.size();
    index_.reserve(rows);
    seen_.resize(rows);
    const uint64_t row_bytes = RowBytes(slots_);
    for (const Part& part : parts_) {
      for (size_t r = 0; r < part.ids.size(); ++r) {
        index_.emplace(part.ids[r], Place{part.values.data() + r * row_bytes,
                                          index_.size()});
      }
    }
  }

  // Returns the values of a row, one slot after the other, or null. Notes that
  // the row was found. Several threads may call it, with different ids.
  const char* Find(int64_t id) {
    const auto place = index_.find(id);
    if (place == index_.end()) return nullptr;
    seen_[place->second.number] = 1;
    return place->second.values;
  }

  // Calls `erased` with the ids that were not found.
  template <typename Erased>
  void ForOthers(const Erased& erased) const {
    for (const auto& [id, place] : index_) {
      if (seen_[place.number] == 0) erased(id);
    }
  }

 private:
  struct alignas(128) Part {
    std::vector<int64_t> ids;
    std::string values;
  };
  struct Place {
    const char* values = nullptr;
    size_t number = 0;
  };

  const std::vector<Slot>& slots_;
  std::vector<Part> parts_;
  absl::flat_hash_map<int64_t, Place> index_;
  std::vector<char> seen_;
};

// Compares the rows of the second step with held ones.
class ScanComparer : public RowSink {
 public:
  ScanComparer(const std::vector<Slot>& slots, const RowDiffOptions& options,
               HeldRows* held, std::vector<RowTally>* tallies)
      : slots_(slots), options_(options), held_(held), tallies_(tallies) {}

  absl::Status Consume(int worker, const Batch& batch) override {
    RowTally& tally = (*tallies_)[static_cast<size_t>(worker)];
    std::vector<const char*> from(slots_.size());
    std::vector<const char*> to(slots_.size());
    for (size_t r = 0; r < batch.ids.size(); ++r) {
      const char* values = held_->Find(batch.ids[r]);
      if (values == nullptr) {
        tally.Add(batch.ids[r], options_);
        continue;
      }
      for (size_t s = 0; s < slots_.size(); ++s) {
        from[s] = values;
        values += slots_[s].row_bytes();
        to[s] = batch.slots[s] + r * slots_[s].row_bytes();
      }
      tally.Compare(batch.ids[r], slots_, from, to, options_);
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<Slot>& slots_;
  const RowDiffOptions& options_;
  HeldRows* const held_;
  std::vector<RowTally>* const tallies_;
};

// --- By the changes between the steps.

class ChangeComparer : public LiveTable {
 public:
  ChangeComparer(const StepReader& from, const std::string& table,
                 const std::vector<Slot>& slots, const RowDiffOptions& options)
      : from_(from),
        table_(table),
        slots_(slots),
        options_(options),
        tallies_(static_cast<size_t>(options.read.threads)) {
    for (const Slot& slot : slots) names_.push_back(slot.name);
    // Each worker of the scan looks up its own rows.
    read_.threads = 1;
    read_.cancelled = options.read.cancelled;
  }

  absl::Status Clear() override { return absl::OkStatus(); }
  absl::Status Consume(int worker, const RowSink::Batch& batch) override {
    RowTally& tally = tallies_[static_cast<size_t>(worker)];
    CKPTDB_ASSIGN_OR_RETURN(const OldRows old, LookUp(batch.ids, slots_));
    std::vector<const char*> from(slots_.size());
    std::vector<const char*> to(slots_.size());
    for (size_t r = 0; r < batch.ids.size(); ++r) {
      if (old.found[r] == 0) {
        tally.Add(batch.ids[r], options_);
        continue;
      }
      for (size_t s = 0; s < slots_.size(); ++s) {
        from[s] = old.values[s].data() + r * slots_[s].row_bytes();
        to[s] = batch.slots[s] + r * slots_[s].row_bytes();
      }
      tally.Compare(batch.ids[r], slots_, from, to, options_);
    }
    return absl::OkStatus();
  }
  // Ids that were added in between are not in the first step.
  absl::Status Erase(int worker, absl::Span<const int64_t> ids) override {
    CKPTDB_ASSIGN_OR_RETURN(const OldRows old, LookUp(ids, {}));
    for (size_t r = 0; r < ids.size(); ++r) {
      if (old.found[r] == 0) continue;
      tallies_[static_cast<size_t>(worker)].Erase(ids[r], options_);
    }
    return absl::OkStatus();
  }

  RowDiff Finish() { return MergeTallies(&tallies_, options_); }

 private:
  struct OldRows {
    std::vector<std::string> values;  // by slot
    std::vector<char> found;
  };
  absl::StatusOr<OldRows> LookUp(absl::Span<const int64_t> ids,
                                 absl::Span<const Slot> slots) const {
    static_assert(sizeof(bool) == sizeof(char));
    OldRows old;
    std::vector<char*> out;
    for (const Slot& slot : slots) {
      old.values.emplace_back(ids.size() * slot.row_bytes(), '\0');
    }
    for (std::string& values : old.values) out.push_back(values.data());
    old.found.resize(ids.size());
    CKPTDB_RETURN_IF_ERROR(from_.LookupRows(
        table_, ids, absl::MakeConstSpan(names_).first(slots.size()), out,
        reinterpret_cast<bool*>(old.found.data()), read_));
    return old;
  }

  const StepReader& from_;
  const std::string& table_;
  const std::vector<Slot>& slots_;
  const RowDiffOptions& options_;
  ReadOptions read_;
  std::vector<std::string> names_;
  std::vector<RowTally> tallies_;
};

}  // namespace

absl::StatusOr<RowDiff> DiffRowsByScan(const StepReader& from,
                                       const StepReader& to,
                                       const std::string& table,
                                       const RowDiffOptions& options) {
  CKPTDB_ASSIGN_OR_RETURN(const auto from_spec, from.FindTable(table));
  CKPTDB_ASSIGN_OR_RETURN(const auto to_spec, to.FindTable(table));
  const std::vector<Slot> slots = CommonSlots(from_spec.slots, to_spec.slots);
  // The memory of a row in HeldRows besides its values.
  constexpr uint64_t kIndexBytes = 48;
  const uint64_t bytes = from_spec.rows * (RowBytes(slots) + kIndexBytes);
  const auto parts = static_cast<uint32_t>(
      std::min<uint64_t>(bytes / options.part_bytes + 1, kSlices));
  const auto workers = static_cast<size_t>(options.read.threads);
  std::vector<RowTally> tallies(workers);
  for (uint32_t part = 0; part < parts; ++part) {
    const SliceRange slices = {
        static_cast<uint32_t>(uint64_t{part} * kSlices / parts),
        static_cast<uint32_t>(uint64_t{part + 1} * kSlices / parts)};
    HeldRows held(slots, options.read.threads);
    ScanOptions scan = SlotsOnly(slots, options.read);
    scan.slices = slices;
    CKPTDB_RETURN_IF_ERROR(from.ScanTable(table, scan, &held));
    held.Index();
    if (to_spec.slice_hash != from_spec.slice_hash) {
      scan.slices = {};
      scan.wanted = [&](int64_t id) {
        return slices.Contains(SliceOf(id, from_spec.slice_hash));
      };
    }
    ScanComparer comparer(slots, options, &held, &tallies);
    CKPTDB_RETURN_IF_ERROR(to.ScanTable(table, scan, &comparer));
    held.ForOthers([&](int64_t id) { tallies[0].Erase(id, options); });
  }
  return MergeTallies(&tallies, options);
}

absl::StatusOr<RowDiff> DiffRowsByChanges(const StepReader& from,
                                          const ChangeReader& changes,
                                          const std::string& table,
                                          const RowDiffOptions& options) {
  CKPTDB_ASSIGN_OR_RETURN(const auto from_spec, from.FindTable(table));
  CKPTDB_ASSIGN_OR_RETURN(const auto to_spec, changes.to().FindTable(table));
  const std::vector<Slot> slots = CommonSlots(from_spec.slots, to_spec.slots);
  ChangeComparer comparer(from, table, slots, options);
  CKPTDB_RETURN_IF_ERROR(
      changes.ScanTable(table, SlotsOnly(slots, options.read), &comparer));
  return comparer.Finish();
}

}  // namespace ckptdb::tool
