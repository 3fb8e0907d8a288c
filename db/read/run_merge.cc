// SPDX-License-Identifier: Apache-2.0
#include "db/read/run_merge.h"

#include <algorithm>
#include <utility>

#include "db/base/call_guard.h"
#include "db/base/huge_page.h"
#include "schema/bytes/keys.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// A base run holds most of the bytes; with many other runs each gets about a
// page.
uint64_t ReadaheadOf(const Item& item, size_t runs,
                     const ReadOptions& options) {
  // Up to this many runs, each has the whole window.
  constexpr size_t kFull = 3;
  if (runs <= kFull || item.run == Item::Run::kBase) {
    return options.readahead_bytes;
  }
  return std::min<uint64_t>(options.readahead_bytes, kHugePartBytes);
}

// Returns the first of [begin, end) that is not before `limit`. It is usually
// near, so this searches in doubling steps and then by bisection.
size_t Gallop(absl::Span<const RowPosition> positions, size_t begin,
              const RowPosition& limit) {
  size_t step = 1;
  size_t low = begin;
  while (low + step < positions.size() && positions[low + step] < limit) {
    low += step;
    step *= 2;
  }
  const size_t high = std::min(low + step, positions.size());
  return static_cast<size_t>(
      std::lower_bound(positions.begin() + static_cast<std::ptrdiff_t>(low),
                       positions.begin() + static_cast<std::ptrdiff_t>(high),
                       limit) -
      positions.begin());
}

}  // namespace

RunMerge::RunMerge(const StepReader::Impl& step,
                   const std::vector<RankItem>& runs, const RunGroup& group,
                   absl::Span<const size_t> slots, const ScanOptions& options)
    : options_(options), counts_(group.runs.size()), values_(slots.size()) {
  ReadOptions each = options.read;
  for (size_t i = 0; i < group.runs.size(); ++i) {
    const RankItem& run = runs[group.runs[i]];
    each.readahead_bytes =
        ReadaheadOf(*run.item, group.runs.size(), options.read);
    // Within a version, an upsert precedes an erasure, which another rank
    // wrote.
    sources_.push_back(std::make_unique<Source>(step, run, slots, group.slices,
                                                each, kIdSlot, i));
    if (run.item->erased_rows == 0) continue;
    sources_.push_back(
        std::make_unique<Source>(step, run, absl::Span<const size_t>(),
                                 group.slices, each, kErasedSlot, i));
  }
  OrderSources(runs, group);
}

// Orders sources by version, newest first, and within a version rows before
// erased ids: a row that moved to another rank was upserted there and erased
// here. The runs are already in version order. Attempt numbers may not be,
// because a step's fold can begin after a save on top of it.
void RunMerge::OrderSources(const std::vector<RankItem>& runs,
                            const RunGroup& group) {
  std::vector<size_t> age(group.runs.size());
  for (size_t i = 1; i < age.size(); ++i) {
    const bool same = runs[group.runs[i]].step == runs[group.runs[i - 1]].step;
    age[i] = age[i - 1] + (same ? 0 : 1);
  }
  std::stable_sort(sources_.begin(), sources_.end(),
                   [&](const auto& a, const auto& b) {
                     return std::make_pair(age[a->run], a->erased) <
                            std::make_pair(age[b->run], b->erased);
                   });
  for (size_t i = 0; i < sources_.size(); ++i) {
    sources_[i]->rank = static_cast<uint32_t>(i);
  }
}

bool RunMerge::After(const Head& a, const Head& b) {
  if (a.position == b.position) return b.rank < a.rank;
  return b.position < a.position;
}

// Loads the next page of a source and counts its rows, which a whole scan
// compares with the records.
absl::StatusOr<bool> RunMerge::NextPage(Source* source) {
  source->at = 0;
  CKPTDB_ASSIGN_OR_RETURN(const bool more, source->cursor.Next());
  if (!more) return false;
  Count& count = counts_[source->run];
  const absl::Span<const int64_t> ids = source->cursor.ids();
  (source->erased ? count.erased : count.rows) += ids.size();
  if (options_.wanted_of_page) {
    source->keep.resize(ids.size());
    CKPTDB_RETURN_IF_ERROR(CallGuarded("ScanOptions::wanted_of_page", [&] {
      options_.wanted_of_page(ids, absl::MakeSpan(source->keep));
    }));
  }
  return true;
}

bool RunMerge::Wants(const Source& source, size_t row) const {
  if (options_.wanted_of_page) return source.keep[row] != 0;
  return options_.wanted(source.cursor.ids()[row]);
}

// Restores the heap after its first element has changed.
void RunMerge::SiftDown() {
  const Head moved = heap_.front();
  size_t at = 0;
  while (true) {
    size_t least = 2 * at + 1;
    if (least >= heap_.size()) break;
    if (least + 1 < heap_.size() && After(heap_[least], heap_[least + 1])) {
      ++least;
    }
    if (!After(moved, heap_[least])) break;
    heap_[at] = heap_[least];
    at = least;
  }
  heap_[at] = moved;
}

// Advances the first source of the heap by `count` rows.
absl::Status RunMerge::Advance(size_t count) {
  Source* const first = heap_.front().source;
  first->at += count;
  bool more = true;
  if (first->at == first->cursor.positions().size()) {
    CKPTDB_ASSIGN_OR_RETURN(more, NextPage(first));
  }
  heap_.front() = more ? Head(first) : heap_.back();
  if (!more) heap_.pop_back();
  if (!heap_.empty()) SiftDown();
  return absl::OkStatus();
}

// Returns the second head in order, or null.
const RunMerge::Head* RunMerge::Second() const {
  if (heap_.size() < 2) return nullptr;
  if (heap_.size() == 2) return &heap_[1];
  return After(heap_[1], heap_[2]) ? &heap_[2] : &heap_[1];
}

// Skips the entries of other sources for an id that `newest` has.
absl::Status RunMerge::SkipOlder(const RowPosition& position,
                                 const Source& newest) {
  while (!heap_.empty() && heap_.front().position == position) {
    const Source& other = *heap_.front().source;
    if (on_shared_ && !newest.erased && !other.erased &&
        newest.part.step == other.part.step) {
      CKPTDB_RETURN_IF_ERROR(on_shared_(static_cast<int64_t>(position.id),
                                        newest.part, other.part));
    }
    CKPTDB_RETURN_IF_ERROR(Advance(1));
  }
  return absl::OkStatus();
}

// Passes rows [begin, end) of a page on as one batch, without a copy. Slots are
// only loaded here.
absl::Status RunMerge::EmitPart(Source* source, size_t begin, size_t end,
                                MergeSink* sink) {
  const auto ids = source->cursor.ids().subspan(begin, end - begin);
  if (source->erased) return sink->Erased(ids);
  CKPTDB_RETURN_IF_ERROR(source->cursor.LoadSlots());
  for (size_t i = 0; i < values_.size(); ++i) {
    values_[i] =
        source->cursor.slots()[i] + begin * source->cursor.row_bytes(i);
  }
  return sink->Rows({ids, values_});
}

// Emits the wanted rows among the next `count`.
absl::Status RunMerge::Emit(Source* source, size_t count, MergeSink* sink) {
  const size_t end = source->at + count;
  if (!options_.wanted && !options_.wanted_of_page) {
    return EmitPart(source, source->at, end, sink);
  }
  for (size_t begin = source->at; begin < end;) {
    size_t to = begin;
    CKPTDB_RETURN_IF_ERROR(CallGuarded("ScanOptions::wanted", [&] {
      while (to < end && Wants(*source, to)) ++to;
    }));
    if (to > begin) CKPTDB_RETURN_IF_ERROR(EmitPart(source, begin, to, sink));
    // The row at `to` is unwanted or past the end.
    begin = to + 1;
  }
  return absl::OkStatus();
}

absl::Status RunMerge::Run(MergeSink* sink) {
  for (const auto& source : sources_) {
    CKPTDB_ASSIGN_OR_RETURN(const bool more, NextPage(source.get()));
    if (more) heap_.emplace_back(source.get());
  }
  std::make_heap(heap_.begin(), heap_.end(), After);
  while (!heap_.empty()) {
    Source* const first = heap_.front().source;
    const Head* const second = Second();
    const absl::Span<const RowPosition> positions = first->cursor.positions();
    const bool tie =
        second != nullptr && second->position == heap_.front().position;
    size_t count = positions.size() - first->at;
    // Several sources have this id: the newest one's row is emitted, the others
    // are skipped.
    if (tie) {
      count = 1;
    } else if (second != nullptr) {
      count = Gallop(positions, first->at, second->position) - first->at;
    }
    CKPTDB_RETURN_IF_ERROR(Emit(first, count, sink));
    const RowPosition last = positions[first->at + count - 1];
    CKPTDB_RETURN_IF_ERROR(Advance(count));
    if (tie) CKPTDB_RETURN_IF_ERROR(SkipOlder(last, *first));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
