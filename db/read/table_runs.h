// Finds the runs that have the rows of a table; internal to db/.
#ifndef CKPTDB_DB_READ_TABLE_RUNS_H_
#define CKPTDB_DB_READ_TABLE_RUNS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/read/step_reader_impl.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

// Returns the runs of a table back to its base runs: newest first, those of one
// version by rank. Returns NotFound when the step does not have the table,
// DataLoss when its chain has no base run.
absl::StatusOr<std::vector<RankItem>> RunsOf(const StepReader::Impl& step,
                                             absl::string_view table);

// Runs that may have rows of the same slices, and are merged there.
struct RunGroup {
  SliceRange slices;
  std::vector<size_t> runs;  // indexes into the runs of RunsOf, newest first
};

// Appends the runs of the table in one version, by rank.
void AppendRuns(const ChainMember& member, absl::string_view table,
                std::vector<RankItem>* runs);

// Divides the slices wherever those of a rank of any version begin or end, so
// that no slice is in two groups.
std::vector<RunGroup> GroupRuns(const std::vector<RankItem>& runs,
                                const SliceRange& asked);

// Makes a group of each run, for runs of one version, which have no common
// rows.
std::vector<RunGroup> EachRun(const std::vector<RankItem>& runs,
                              const SliceRange& asked);

// Estimates how many rows the runs of a group have in its slices.
uint64_t EstimateRows(const std::vector<RankItem>& runs, const RunGroup& group);
// Estimates what a scan of these slices reads of the runs.
StepReader::ScanEstimate EstimateRuns(const std::vector<RankItem>& runs,
                                      const SliceRange& slices);
// Estimates how many rows are read twice where the group is divided: a page of
// each run is on both sides.
uint64_t EstimateRowsCut(const std::vector<RankItem>& runs,
                         const RunGroup& group);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_READ_TABLE_RUNS_H_
