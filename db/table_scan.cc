// Scans of a table: its runs by ranges of slices, several at a time.
#include <algorithm>
#include <atomic>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/parallel.h"
#include "ckptdb/db/run_cursor.h"
#include "ckptdb/db/step_reader_impl.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

// So that workers end at about the same time; more cost seeks.
constexpr uint64_t kRangesPerThread = 4;
// A range is not worth less than this many pages of each slot.
constexpr uint64_t kPagesPerRange = 16;

struct ScanTask {
  const RankItem* part;
  size_t part_index;
  SliceRange slices;
};

absl::StatusOr<std::vector<size_t>> SlotIndexes(const StepReader::Impl& step,
                                                const RankItem& part,
                                                const ScanOptions& options) {
  const std::vector<Slot>& slots = part.item->slots;
  std::vector<size_t> indexes;
  if (options.ids_only) return indexes;
  if (options.slots.empty()) {
    for (size_t i = 0; i < slots.size(); ++i) indexes.push_back(i);
  }
  for (const std::string& name : options.slots) {
    const auto found =
        std::find_if(slots.begin(), slots.end(),
                     [&](const Slot& slot) { return slot.name == name; });
    if (found == slots.end()) {
      return absl::NotFoundError(absl::StrCat(PlaceOf(step.record(), part),
                                              " has no slot \"", name, "\""));
    }
    indexes.push_back(static_cast<size_t>(found - slots.begin()));
  }
  return indexes;
}

// The slices of a part that are asked for and that it can have rows of.
SliceRange SlicesOf(const StepRecord& step, const RankItem& part,
                    const SliceRange& asked) {
  const std::vector<uint32_t>& bounds = step.slice_bounds;
  if (bounds.empty()) return asked;
  return {std::max(asked.begin, bounds[part.rank]),
          std::min(asked.end, bounds[part.rank + size_t{1}])};
}

void AppendTasks(const RankItem& part, size_t part_index,
                 const SliceRange& slices, int threads,
                 std::vector<ScanTask>* tasks) {
  if (slices.begin >= slices.end) return;
  const uint64_t pages = part.item->rows / part.item->rows_per_page + 1;
  const uint64_t ranges = std::clamp<uint64_t>(
      pages / kPagesPerRange, 1,
      std::min<uint64_t>(
          static_cast<uint64_t>(std::max(threads, 1)) * kRangesPerThread,
          slices.end - slices.begin));
  const auto bound = [&](uint64_t i) {
    return static_cast<uint32_t>(slices.begin +
                                 (slices.end - slices.begin) * i / ranges);
  };
  for (uint64_t i = 0; i < ranges; ++i) {
    tasks->push_back({&part, part_index, {bound(i), bound(i + 1)}});
  }
}

absl::StatusOr<uint64_t> ScanRange(const StepReader::Impl& step,
                                   const ScanTask& task,
                                   const std::vector<size_t>& slots,
                                   const ReadOptions& options, int worker,
                                   RowSink* sink) {
  RunCursor run(step, *task.part, slots, task.slices, options);
  uint64_t rows = 0;
  while (true) {
    CKPTDB_ASSIGN_OR_RETURN(const bool more, run.Next());
    if (!more) return rows;
    rows += run.ids().size();
    CKPTDB_RETURN_IF_ERROR(sink->Consume(worker, {run.ids(), run.slots()}));
  }
}

}  // namespace

absl::Status ScanRows(const StepReader::Impl& step,
                      const std::vector<RankItem>& parts,
                      const ScanOptions& options, RowSink* sink) {
  if (options.slices.end > kSlices ||
      options.slices.begin > options.slices.end) {
    return absl::InvalidArgumentError(
        absl::StrCat("slices [", options.slices.begin, ", ", options.slices.end,
                     ") are not within [0, ", kSlices, ")"));
  }
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<size_t> slots,
                          SlotIndexes(step, parts[0], options));
  std::vector<ScanTask> tasks;
  for (size_t i = 0; i < parts.size(); ++i) {
    AppendTasks(parts[i], i, SlicesOf(step.record(), parts[i], options.slices),
                options.read.threads, &tasks);
  }
  std::vector<std::atomic<uint64_t>> rows(parts.size());
  CKPTDB_RETURN_IF_ERROR(ParallelFor(
      options.read.threads, tasks.size(),
      [&](int worker, uint64_t i) -> absl::Status {
        CKPTDB_ASSIGN_OR_RETURN(
            const uint64_t count,
            ScanRange(step, tasks[i], slots, options.read, worker, sink));
        rows[tasks[i].part_index] += count;
        return absl::OkStatus();
      }));
  if (options.slices != SliceRange()) return absl::OkStatus();
  for (size_t i = 0; i < parts.size(); ++i) {
    if (rows[i] == parts[i].item->rows) continue;
    return absl::DataLossError(
        absl::StrCat(PlaceOf(step.record(), parts[i]), " has ", rows[i].load(),
                     " rows, not the ", parts[i].item->rows, " of its record"));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
