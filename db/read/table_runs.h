// Which runs a table's rows are in; internal to db/.
#ifndef CKPTDB_DB_READ_TABLE_RUNS_H_
#define CKPTDB_DB_READ_TABLE_RUNS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/read/step_reader_impl.h"
#include "ckptdb/schema/slice.h"

namespace ckptdb::internal {

// Newest first, and of one version by rank: back to the base runs. NotFound
// when the step has no such table; DataLoss when its chain has no base run.
absl::StatusOr<std::vector<RankItem>> RunsOf(const StepReader::Impl& step,
                                             absl::string_view table);

// Runs that may have rows of the same slices and are merged there.
struct RunGroup {
  SliceRange slices;
  std::vector<size_t> runs;  // positions in what RunsOf gave, newest first
};

// The table's runs in one version, by rank.
void AppendRuns(const ChainMember& member, absl::string_view table,
                std::vector<RankItem>* runs);

// Cut where the slices of a rank of any version begin or end: no slice is in
// two of them.
std::vector<RunGroup> GroupRuns(const std::vector<RankItem>& runs,
                                const SliceRange& asked);

// Each run a group of its own: for runs of one version, which have no rows in
// common.
std::vector<RunGroup> EachRun(const std::vector<RankItem>& runs,
                              const SliceRange& asked);

// About how many rows the runs of a group have in its slices.
uint64_t EstimateRows(const std::vector<RankItem>& runs, const RunGroup& group);
// What a scan of these slices reads of the runs, each once.
ScanEstimate EstimateRuns(const std::vector<RankItem>& runs,
                          const SliceRange& slices);
// About how many of them are read once more where the group is cut: a page of
// each run is on both sides.
uint64_t EstimateRowsCut(const std::vector<RankItem>& runs,
                         const RunGroup& group);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_READ_TABLE_RUNS_H_
