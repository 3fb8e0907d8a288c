// SPDX-License-Identifier: Apache-2.0
// Finds the runs that contain the rows of a table; internal to db/.
#ifndef CKPTDB_DB_READ_TABLE_RUNS_H_
#define CKPTDB_DB_READ_TABLE_RUNS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/read/step_reader_impl.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Returns the runs of a table back to its base runs: newest first, and by rank
// within a version. Returns NotFound if the step does not have the table, and
// DataLoss if its chain has no base run.
absl::StatusOr<std::vector<RankItem>> RunsOf(const StepReader::Impl& step,
                                             absl::string_view table);

// Runs that may contain rows of the same slices and are merged there.
struct RunGroup {
  SliceRange slices;
  std::vector<size_t> runs;  // indexes into the runs of RunsOf, newest first
};

// Appends the table's runs in one version, by rank.
void AppendRuns(const ChainMember& member, absl::string_view table,
                std::vector<RankItem>* runs);

// Cuts the slices wherever those of any version's rank begin or end, so that no
// slice is in two groups.
std::vector<RunGroup> GroupRuns(const std::vector<RankItem>& runs,
                                const SliceRange& asked);

// Makes one group per run, for runs of one version, which share no rows.
std::vector<RunGroup> OneGroupPerRun(const std::vector<RankItem>& runs,
                                     const SliceRange& asked);

// Estimates the rows of a group's runs within its slices.
uint64_t EstimateRows(const std::vector<RankItem>& runs, const RunGroup& group);
// Estimates how much a scan of these slices reads from the runs.
StepReader::ScanEstimate EstimateRuns(const std::vector<RankItem>& runs,
                                      const SliceRange& slices);
// Estimates the rows that are read twice if the group is cut: a page of each
// run is on both sides.
uint64_t EstimateRowsCut(const std::vector<RankItem>& runs,
                         const RunGroup& group);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_READ_TABLE_RUNS_H_
