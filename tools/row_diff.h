// SPDX-License-Identifier: Apache-2.0
// Compares the rows of a table in two steps by id and value.
#ifndef CKPTDB_TOOLS_ROW_DIFF_H_
#define CKPTDB_TOOLS_ROW_DIFF_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/reader.h"
#include "schema/types.h"

namespace ckptdb::tool {

struct RowDiffOptions {
  // Elements that differ by at most this are equal. Unset: their bytes must be
  // equal.
  std::optional<double> tolerance = std::nullopt;
  size_t max_ids = 0;     // the longest list of ids
  size_t max_movers = 0;  // the limit of RowDiff::movers
  // A scan holds about so much of the first step's rows at once.
  uint64_t part_bytes = uint64_t{256} << 20;
  ReadOptions read = {};
};

struct RowMove {
  int64_t id = 0;
  // The L2 norm of the difference over all slots of floats; infinite if an
  // element is finite in only one step.
  double distance = 0;
};

struct RowDiff {
  uint64_t added = 0;
  uint64_t erased = 0;
  uint64_t changed = 0;  // counts only slots that both steps have with one type
  // The lowest of them.
  std::vector<int64_t> added_ids;
  std::vector<int64_t> erased_ids;
  std::vector<int64_t> changed_ids;
  std::vector<RowMove> movers;  // the changed rows that moved farthest

  bool same() const { return added + erased + changed == 0; }
};

// Both steps must have the table. Returns the errors of StepReader.
//
// Scans both steps, in parts of RowDiffOptions::part_bytes if the rows are
// spread over the slices. If the steps have other slice hashes, reads
// the ids of the second step once for each part.
absl::StatusOr<RowDiff> DiffRowsByScan(const StepReader& from,
                                       const StepReader& to,
                                       const std::string& table,
                                       const RowDiffOptions& options);

// Reads the delta runs between the steps, and looks up their ids in the first
// step. Returns the errors of ChangeReader: FailedPrecondition if the table was
// saved in full in between. `from` is the step from which the changes lead.
absl::StatusOr<RowDiff> DiffRowsByChanges(const StepReader& from,
                                          const ChangeReader& changes,
                                          const std::string& table,
                                          const RowDiffOptions& options);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_ROW_DIFF_H_
