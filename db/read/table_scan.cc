// SPDX-License-Identifier: Apache-2.0
#include "db/read/table_scan.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "db/base/cancelled.h"
#include "db/base/mutex.h"
#include "db/base/option_checks.h"
#include "db/base/parallel.h"
#include "db/base/progress.h"
#include "db/read/row_batcher.h"
#include "schema/bytes/limits.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

// Each worker gets one range per round. Each round's ranges are half as long as
// the previous round's, so that workers finish at about the same time.
constexpr uint64_t kRounds = 4;
// Minimum rows read once per row that a division reads twice: for one round,
// and for more.
constexpr uint64_t kRowsPerRowCut = 4;
constexpr uint64_t kRowsPerRowCutMore = 48;

// Returns ranges in rounds of one per worker, or fewer ranges than one round.
// `rows_per_row_cut` is the number of rows for each row that a division reads
// twice.
std::vector<SliceRange> CutSlices(const SliceRange& slices,
                                  uint64_t rows_per_row_cut, uint64_t workers) {
  const uint64_t most =
      std::max<uint64_t>(rows_per_row_cut / kRowsPerRowCut, 1);
  const uint64_t rounds = std::clamp<uint64_t>(
      rows_per_row_cut / (kRowsPerRowCutMore * workers), 1, kRounds);
  const uint64_t ranges = std::min(most, rounds * workers);
  std::vector<uint64_t> weights;
  for (uint64_t i = 0; i < ranges; ++i) {
    // The last round's ranges are as long as the previous round's.
    const uint64_t round = std::min(i / workers + 2, rounds);
    weights.push_back(uint64_t{1} << (rounds - round));
  }
  const uint64_t whole =
      std::accumulate(weights.begin(), weights.end(), uint64_t{0});
  std::vector<SliceRange> cut;
  uint64_t before = 0;
  uint32_t begin = slices.begin;
  for (const uint64_t weight : weights) {
    before += weight;
    const auto end = static_cast<uint32_t>(
        slices.begin + (slices.end - slices.begin) * before / whole);
    if (end > begin) cut.push_back({begin, end});
    begin = end;
  }
  return cut;
}

}  // namespace

absl::Status CheckSlices(const SliceRange& slices) {
  if (slices.end <= kSlices && slices.begin <= slices.end) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "slices [", slices.begin, ", ", slices.end,
      ") are out of range; expected a range within [0, ", kSlices, ")"));
}

absl::StatusOr<std::vector<size_t>> SlotIndexes(
    const RankItem& part, absl::Span<const std::string> names) {
  const std::vector<Slot>& slots = part.item->slots;
  std::vector<size_t> indexes;
  for (const std::string& name : names) {
    const auto found =
        std::find_if(slots.begin(), slots.end(),
                     [&](const Slot& slot) { return slot.name == name; });
    if (found == slots.end()) {
      return absl::NotFoundError(
          absl::StrCat(PlaceOf(part), " has no slot \"", name, "\""));
    }
    indexes.push_back(static_cast<size_t>(found - slots.begin()));
  }
  return indexes;
}

absl::StatusOr<std::vector<size_t>> SlotIndexes(const RankItem& part,
                                                const ScanOptions& options) {
  if (options.ids_only || !options.slots.empty()) {
    return SlotIndexes(part, options.ids_only
                                 ? absl::Span<const std::string>()
                                 : absl::MakeConstSpan(options.slots));
  }
  std::vector<size_t> all(part.item->slots.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

std::vector<ScanTask> CutTasks(const std::vector<RankItem>& runs,
                               const std::vector<RunGroup>& groups,
                               int threads) {
  std::vector<ScanTask> tasks;
  for (const RunGroup& group : groups) {
    const uint64_t cut_rows =
        std::max<uint64_t>(EstimateRowsCut(runs, group), 1);
    for (const SliceRange& slices :
         CutSlices(group.slices, EstimateRows(runs, group) / cut_rows,
                   static_cast<uint64_t>(threads))) {
      tasks.push_back({&group, slices});
    }
  }
  return tasks;
}

int WorkersFor(const std::vector<RunGroup>& groups, size_t slots,
               const ReadOptions& options) {
  // With long chains, fewer workers limit the memory to about this: two pages
  // of each stream of each run.
  constexpr uint64_t kBudgetBytes = uint64_t{1} << 30;
  size_t runs = 1;
  for (const RunGroup& group : groups) {
    runs = std::max(runs, group.runs.size());
  }
  const uint64_t worker_bytes = runs * (slots + 2) * 2 * kPageBytes;
  return static_cast<int>(std::clamp<uint64_t>(
      kBudgetBytes / worker_bytes, 1, static_cast<uint64_t>(options.threads)));
}

MergeScan::MergeScan(const StepReader::Impl& step,
                     const std::vector<RankItem>& runs,
                     const std::vector<RunGroup>& groups,
                     const std::vector<size_t>& slots,
                     const ScanOptions& options)
    : step_(step),
      runs_(runs),
      slots_(slots),
      options_(options),
      threads_(WorkersFor(groups, slots.size(), options.read)),
      tasks_(CutTasks(runs, groups, threads_)) {}

absl::Status MergeScan::Run(const TaskFunction& task) {
  uint64_t row_bytes = sizeof(int64_t);
  for (const size_t slot : slots_) {
    row_bytes += runs_[0].item->slots[slot].row_bytes();
  }
  Progress progress("ReadOptions::progress", options_.read.progress);
  progress.AddTotal(EstimateRuns(runs_, options_.slices).rows * row_bytes);
  Mutex mutex;
  std::vector<RunMerge::Count> counts(runs_.size());
  const absl::Status merged = ParallelFor(
      threads_, tasks_.size(),
      [&](int worker, uint64_t i) -> absl::Status {
        const RunGroup part{tasks_[i].slices, tasks_[i].group->runs};
        RunMerge merge(step_, runs_, part, slots_, options_);
        CKPTDB_RETURN_IF_ERROR(task(worker, i, &merge));
        uint64_t rows = 0;
        for (const RunMerge::Count& count : merge.counts()) rows += count.rows;
        CKPTDB_RETURN_IF_ERROR(progress.Advance(rows * row_bytes));
        const MutexLock lock(&mutex);
        for (size_t run = 0; run < part.runs.size(); ++run) {
          counts[part.runs[run]].rows += merge.counts()[run].rows;
          counts[part.runs[run]].erased += merge.counts()[run].erased;
        }
        return absl::OkStatus();
      },
      PollOf(options_.read.cancelled));
  CKPTDB_RETURN_IF_ERROR(merged);
  // Only a scan of all slices reads all rows, whose number is recorded.
  if (options_.slices != SliceRange()) return absl::OkStatus();
  return CheckCounts(counts);
}

absl::Status MergeScan::CheckCounts(
    const std::vector<RunMerge::Count>& counts) const {
  for (size_t i = 0; i < runs_.size(); ++i) {
    const Item& item = *runs_[i].item;
    if (counts[i].rows != item.rows) {
      return absl::DataLossError(
          absl::StrCat(PlaceOf(runs_[i]), " has ", counts[i].rows,
                       " rows; its record has ", item.rows));
    }
    if (counts[i].erased != item.erased_rows) {
      return absl::DataLossError(
          absl::StrCat(PlaceOf(runs_[i]), " has ", counts[i].erased,
                       " erased ids; its record has ", item.erased_rows));
    }
  }
  return absl::OkStatus();
}

std::vector<Slot> SlotsAt(const RankItem& part,
                          absl::Span<const size_t> indexes) {
  std::vector<Slot> slots;
  for (const size_t index : indexes) slots.push_back(part.item->slots[index]);
  return slots;
}

absl::Status CheckScan(const StepReader::Impl& step, absl::string_view table,
                       const ScanOptions& options) {
  CKPTDB_RETURN_IF_ERROR(CheckSlices(options.slices));
  CKPTDB_RETURN_IF_ERROR(
      CheckThreads("ReadOptions::threads", options.read.threads));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RankItem> runs,
                          RunsOf(step, table));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<size_t> slots,
                          SlotIndexes(runs[0], options));
  return step.CheckFetched(table, SlotsAt(runs[0], slots), options.slices);
}

absl::Status ScanTable(const StepReader::Impl& step, absl::string_view table,
                       const ScanOptions& options, RowSink* sink) {
  CKPTDB_RETURN_IF_ERROR(CheckSlices(options.slices));
  CKPTDB_RETURN_IF_ERROR(
      CheckThreads("ReadOptions::threads", options.read.threads));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RankItem> runs,
                          RunsOf(step, table));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<size_t> slots,
                          SlotIndexes(runs[0], options));
  CKPTDB_RETURN_IF_ERROR(
      step.CheckFetched(table, SlotsAt(runs[0], slots), options.slices));
  std::vector<uint64_t> row_bytes;
  for (const size_t slot : slots) {
    row_bytes.push_back(runs[0].item->slots[slot].row_bytes());
  }
  // Runs of one version share no id, which Verify checks, so each is read
  // separately. Runs of several versions must be merged.
  const bool one_version = runs.front().step == runs.back().step;
  const std::vector<RunGroup> groups =
      one_version ? OneGroupPerRun(runs, options.slices)
                  : GroupRuns(runs, options.slices);
  MergeScan scan(step, runs, groups, slots, options);
  return scan.Run([&](int worker, uint64_t, RunMerge* merge) -> absl::Status {
    RowBatcher batcher(worker, row_bytes, sink, /*live=*/nullptr);
    CKPTDB_RETURN_IF_ERROR(merge->Run(&batcher));
    return batcher.Flush();
  });
}

}  // namespace ckptdb::internal
