// SPDX-License-Identifier: Apache-2.0
// Looks up rows: seeks in the ids of each run, newest first, and then reads the
// pages of the slots that have the rows.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/cancelled.h"
#include "db/base/parallel.h"
#include "db/read/run_cursor.h"
#include "db/read/step_reader_impl.h"
#include "db/read/table_runs.h"
#include "db/read/table_scan.h"
#include "schema/bytes/keys.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Finds ids in one stream of ids, in ascending order of their positions.
class IdFinder {
 public:
  IdFinder(const StepReader::Impl& step, const RankItem& run, uint16_t slot,
           const ReadOptions& options)
      : step_(step),
        run_(run),
        slot_(slot),
        ids_(step, run, slot, SliceRange(), options),
        hash_(run.item->slice_hash) {}

  // Returns whether the stream has the id; page() then holds it at index().
  absl::StatusOr<bool> Find(const RowPosition& position) {
    if (!loaded_ || last_ < position) {
      CKPTDB_RETURN_IF_ERROR(MoveTo(position));
    }
    if (!loaded_) return false;
    index_ = IndexOf(position);
    return index_ < ids_.rows();
  }
  const StreamCursor& page() const { return ids_; }
  size_t index() const { return index_; }

 private:
  RowPosition At(size_t index) const {
    int64_t id = 0;
    std::memcpy(&id, ids_.raw().data() + index * sizeof(id), sizeof(id));
    return {SliceOf(id, hash_), static_cast<uint64_t>(id)};
  }
  // Returns the index in the page, or rows() if it is not there.
  size_t IndexOf(const RowPosition& position) const {
    size_t low = 0;
    size_t high = ids_.rows();
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (At(middle) < position) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < ids_.rows() && At(low) == position ? low : ids_.rows();
  }
  absl::Status Load() {
    CKPTDB_ASSIGN_OR_RETURN(loaded_, ids_.Load());
    ended_ = !loaded_;
    if (loaded_) last_ = At(ids_.rows() - size_t{1});
    return absl::OkStatus();
  }
  // Loads the page that may have the row. Tries the next one before it seeks:
  // many ids are on neighbouring pages, and pages of ids on few blocks.
  absl::Status MoveTo(const RowPosition& position) {
    if (loaded_) {
      ids_.Next();
      CKPTDB_RETURN_IF_ERROR(Load());
    }
    if (ended_ || (loaded_ && !(last_ < position))) return absl::OkStatus();
    ids_.SeekToRow(position);
    CKPTDB_RETURN_IF_ERROR(Load());
    return loaded_ ? absl::OkStatus() : CheckEmpty();
  }
  // A seek finds a page of any stream that contains one. Returns DataLoss if
  // pages are missing; a partly fetched store may lack all of them.
  absl::Status CheckEmpty() const {
    const Item& item = *run_.item;
    const bool erased = slot_ == kErasedSlot;
    const uint64_t rows = erased ? item.erased_rows : item.rows;
    if (rows == 0 || !step_.CheckFetched(item.name, {}, SliceRange()).ok()) {
      return absl::OkStatus();
    }
    return absl::DataLossError(absl::StrCat(PlaceOf(run_), " has 0 ",
                                            erased ? "erased ids" : "rows",
                                            "; its record has ", rows));
  }

  const StepReader::Impl& step_;
  const RankItem& run_;
  const uint16_t slot_;
  StreamCursor ids_;
  const SliceHash hash_;
  bool loaded_ = false;
  bool ended_ = false;
  RowPosition last_;  // of the loaded page
  size_t index_ = 0;
};

// Looks up rows of one run in ascending order of their positions, with one
// cursor for each stream, created when it is first needed.
class RunLookup {
 public:
  RunLookup(const StepReader::Impl& step, const RankItem& run,
            absl::Span<const size_t> slots, const ReadOptions& options)
      : step_(step),
        run_(run),
        slots_(slots),
        options_(options),
        values_(slots.size()) {}

  // Returns whether the run has the row, and copies the value of each slot to
  // out[slot] + index * its bytes.
  absl::StatusOr<bool> Copy(const RowPosition& position, size_t index,
                            absl::Span<char* const> out) {
    CKPTDB_ASSIGN_OR_RETURN(const bool found, FindIn(kIdSlot, position, &ids_));
    if (!found) return false;
    const bool same_page = followed_ && page_ == ids_->page().position();
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (!same_page) CKPTDB_RETURN_IF_ERROR(LoadValues(i));
      const uint64_t bytes = run_.item->slots[slots_[i]].row_bytes();
      std::memcpy(out[i] + index * bytes,
                  values_[i]->raw().data() + ids_->index() * bytes, bytes);
    }
    page_ = ids_->page().position();
    followed_ = true;
    return true;
  }
  // Returns whether the run erases the id. Runs without erased ids are not
  // read.
  absl::StatusOr<bool> Erases(const RowPosition& position) {
    if (run_.item->erased_rows == 0) return false;
    return FindIn(kErasedSlot, position, &erased_);
  }

 private:
  absl::StatusOr<bool> FindIn(uint16_t slot, const RowPosition& position,
                              std::unique_ptr<IdFinder>* finder) {
    if (*finder == nullptr) {
      *finder = std::make_unique<IdFinder>(step_, run_, slot, options_);
    }
    return (*finder)->Find(position);
  }
  absl::Status LoadValues(size_t i) {
    if (values_[i] == nullptr) {
      values_[i] = std::make_unique<StreamCursor>(
          step_, run_, static_cast<uint16_t>(slots_[i] + 1), SliceRange(),
          options_);
    }
    return values_[i]->JumpTo(ids_->page());
  }

  const StepReader::Impl& step_;
  const RankItem& run_;
  const absl::Span<const size_t> slots_;
  const ReadOptions& options_;
  std::unique_ptr<IdFinder> ids_;
  std::unique_ptr<IdFinder> erased_;
  std::vector<std::unique_ptr<StreamCursor>> values_;
  bool followed_ = false;
  RowPosition page_;  // the page of ids whose values are loaded
};

// An id that is looked up.
struct WantedId {
  RowPosition position;
  size_t index;  // in the batch
  const StepRecord* erased_in;
};

// Looks up ids in the runs of a table. Thread-safe.
class BatchLookup {
 public:
  // `runs` come from RunsOf; `slots` are indexes into their slots. Results are
  // those of StepReader::LookupRows.
  BatchLookup(const StepReader::Impl& step, const std::vector<RankItem>& runs,
              absl::Span<const size_t> slots, absl::Span<char* const> out,
              bool* found, const ReadOptions& options)
      : step_(step),
        runs_(runs),
        slots_(slots),
        out_(out),
        found_(found),
        options_(options) {
    // Lookups use the page cache.
    options_.readahead_bytes = 0;
  }

  std::vector<WantedId> Sort(absl::Span<const int64_t> ids) const {
    std::vector<WantedId> wanted;
    wanted.reserve(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      wanted.push_back({{SliceOf(ids[i], runs_[0].item->slice_hash),
                         static_cast<uint64_t>(ids[i])},
                        i,
                        nullptr});
    }
    std::sort(wanted.begin(), wanted.end(),
              [](const WantedId& a, const WantedId& b) {
                return a.position < b.position;
              });
    return wanted;
  }

  // Looks up ids in ascending order of their positions.
  absl::Status Run(absl::Span<const WantedId> wanted) const {
    CKPTDB_RETURN_IF_ERROR(CheckCancelled(options_.cancelled));
    std::vector<WantedId> left(wanted.begin(), wanted.end());
    for (const RankItem& run : runs_) {
      CKPTDB_RETURN_IF_ERROR(RunOn(run, &left));
      if (left.empty()) break;
    }
    for (const WantedId& each : left) SetMissing(each);
    return absl::OkStatus();
  }

 private:
  // Removes the ids that this run, or an erasure before it, decides.
  absl::Status RunOn(const RankItem& run, std::vector<WantedId>* left) const {
    RunLookup lookup(step_, run, slots_, options_);
    const SliceRange slices = run.slices();
    size_t kept = 0;
    for (WantedId each : *left) {
      // A row that moved to another rank was upserted there and erased here, so
      // the upsert wins.
      if (each.erased_in != nullptr && each.erased_in != run.step) {
        SetMissing(each);
        continue;
      }
      // A rank with other slices cannot have the row.
      if (slices.Contains(each.position.slice)) {
        CKPTDB_ASSIGN_OR_RETURN(const bool found,
                                lookup.Copy(each.position, each.index, out_));
        found_[each.index] = found;
        if (found) continue;
        CKPTDB_ASSIGN_OR_RETURN(const bool erased,
                                lookup.Erases(each.position));
        if (erased) each.erased_in = run.step;
      }
      (*left)[kept++] = each;
    }
    left->resize(kept);
    return absl::OkStatus();
  }
  void SetMissing(const WantedId& wanted) const {
    found_[wanted.index] = false;
    for (size_t i = 0; i < slots_.size(); ++i) {
      const uint64_t bytes = runs_[0].item->slots[slots_[i]].row_bytes();
      std::memset(out_[i] + wanted.index * bytes, 0, bytes);
    }
  }

  const StepReader::Impl& step_;
  const std::vector<RankItem>& runs_;
  const absl::Span<const size_t> slots_;
  const absl::Span<char* const> out_;
  bool* const found_;
  ReadOptions options_;
};

absl::Status CheckTargets(absl::string_view table,
                          absl::Span<const int64_t> ids, size_t slots,
                          absl::Span<char* const> out, const bool* found) {
  const std::string what = absl::StrCat("table \"", table, "\"");
  if (out.size() != slots) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", slots,
                                                   " slots are looked up into ",
                                                   out.size(), " arrays"));
  }
  if (ids.empty()) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(CheckTarget(found, what));
  for (const char* const values : out) {
    CKPTDB_RETURN_IF_ERROR(CheckTarget(values, what));
  }
  return absl::OkStatus();
}

// Returns how many ids are worth a task: each opens cursors of the runs that
// may have its ids, and reads pages that its neighbours read, too.
size_t IdsPerTask(const std::vector<RankItem>& runs,
                  absl::Span<const WantedId> wanted) {
  constexpr size_t kIdsPerRun = 64;
  const uint16_t slice = wanted[wanted.size() / 2].position.slice;
  const auto count = std::count_if(
      runs.begin(), runs.end(),
      [&](const RankItem& run) { return run.slices().Contains(slice); });
  return kIdsPerRun * std::max<size_t>(static_cast<size_t>(count), 1);
}

// Returns FailedPrecondition if the slices of these ids were not fetched.
absl::Status CheckFetched(const StepReader::Impl& step, absl::string_view table,
                          const RankItem& part, absl::Span<const size_t> slots,
                          absl::Span<const int64_t> ids) {
  SliceRange slices = {kSlices, 0};
  for (const int64_t id : ids) {
    const uint32_t slice = SliceOf(id, part.item->slice_hash);
    slices.begin = std::min(slices.begin, slice);
    slices.end = std::max(slices.end, slice + 1);
  }
  return step.CheckFetched(table, SlotsAt(part, slots), slices);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> LookupRow(const StepReader::Impl& step,
                                                   absl::string_view table,
                                                   int64_t id) {
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RankItem> runs,
                          RunsOf(step, table));
  std::vector<std::string> row;
  std::vector<size_t> slots;
  std::vector<char*> out;
  for (const Slot& slot : runs[0].item->slots) {
    slots.push_back(slots.size());
    row.emplace_back(slot.row_bytes(), '\0');
  }
  for (std::string& values : row) out.push_back(values.data());
  CKPTDB_RETURN_IF_ERROR(CheckFetched(step, table, runs[0], slots, {&id, 1}));
  bool found = false;
  const BatchLookup batch(step, runs, slots, out, &found, {});
  CKPTDB_RETURN_IF_ERROR(batch.Run(batch.Sort({&id, 1})));
  if (found) return row;
  return absl::NotFoundError(absl::StrCat("step ", step.record().version.step,
                                          " table \"", table,
                                          "\" has no row with id ", id));
}

absl::Status LookupRows(const StepReader::Impl& step, absl::string_view table,
                        absl::Span<const int64_t> ids,
                        absl::Span<const std::string> slots,
                        absl::Span<char* const> out, bool* found,
                        const ReadOptions& options) {
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RankItem> runs,
                          RunsOf(step, table));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<size_t> indexes,
                          SlotIndexes(runs[0], slots));
  CKPTDB_RETURN_IF_ERROR(CheckTargets(table, ids, slots.size(), out, found));
  CKPTDB_RETURN_IF_ERROR(CheckFetched(step, table, runs[0], indexes, ids));
  if (ids.empty()) return absl::OkStatus();
  const BatchLookup batch(step, runs, indexes, out, found, options);
  const std::vector<WantedId> wanted = batch.Sort(ids);
  // A thread holds a page of each stream of one run at a time.
  const int threads = WorkersFor({}, slots.size(), options);
  const size_t tasks =
      std::clamp<size_t>(wanted.size() / IdsPerTask(runs, wanted), 1,
                         static_cast<size_t>(threads));
  return ParallelFor(
      threads, tasks,
      [&](int, uint64_t i) {
        const size_t begin = wanted.size() * i / tasks;
        const size_t end = wanted.size() * (i + 1) / tasks;
        return batch.Run(
            absl::MakeConstSpan(wanted).subspan(begin, end - begin));
      },
      PollOf(options.cancelled));
}

}  // namespace ckptdb::internal
