// SPDX-License-Identifier: Apache-2.0
// Scans a table on several threads, each with its ranges of slices; internal to
// db/.
#ifndef CKPTDB_DB_READ_TABLE_SCAN_H_
#define CKPTDB_DB_READ_TABLE_SCAN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "db/read/run_merge.h"
#include "db/read/step_reader_impl.h"
#include "db/read/table_runs.h"

namespace ckptdb::internal {

absl::Status CheckSlices(const SliceRange& slices);

// Returns the indexes of these slots, in the same order, or NotFound.
absl::StatusOr<std::vector<size_t>> SlotIndexes(
    const RankItem& part, absl::Span<const std::string> names);
// The same for the slots in `options`.
absl::StatusOr<std::vector<size_t>> SlotIndexes(const RankItem& part,
                                                const ScanOptions& options);

// Returns the slots at these indexes.
std::vector<Slot> SlotsAt(const RankItem& part,
                          absl::Span<const size_t> indexes);

// A part of a scan, for one worker.
struct ScanTask {
  const RunGroup* group;
  SliceRange slices;
};

// Divides groups so that `threads` workers finish at about the same time.
std::vector<ScanTask> CutTasks(const std::vector<RankItem>& runs,
                               const std::vector<RunGroup>& groups,
                               int threads);

// Returns how many threads of `options` fit in about a GiB of pages: each
// worker holds one page of each stream of each run.
int WorkersFor(const std::vector<RunGroup>& groups, size_t slots,
               const ReadOptions& options);

// Merges the runs of each task on several threads. The task function attaches a
// sink to the merge and runs it.
class MergeScan {
 public:
  MergeScan(const StepReader::Impl& step, const std::vector<RankItem>& runs,
            const std::vector<RunGroup>& groups,
            const std::vector<size_t>& slots, const ScanOptions& options);

  using TaskFunction =
      std::function<absl::Status(int worker, uint64_t task, RunMerge* merge)>;
  absl::Status Run(const TaskFunction& task);

  const std::vector<ScanTask>& tasks() const { return tasks_; }

 private:
  absl::Status CheckCounts(const std::vector<RunMerge::Count>& counts) const;

  const StepReader::Impl& step_;
  const std::vector<RankItem>& runs_;
  const std::vector<size_t>& slots_;
  const ScanOptions& options_;
  const int threads_;
  const std::vector<ScanTask> tasks_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_READ_TABLE_SCAN_H_
