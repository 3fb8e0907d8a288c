// SPDX-License-Identifier: Apache-2.0
// Checks that a step's rows fit in a table of fixed size; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_CAPACITY_CHECK_H_
#define CKPTDB_MANAGER_LOAD_CAPACITY_CHECK_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "db/reader.h"
#include "manager/model_state.h"
#include "manager/state/model_sharding.h"

namespace ckptdb::internal {

// A table to restore, of which this rank loads the rows that pass `filter`.
struct CapacityCheck {
  const StepReader* step;  // outlives the check
  std::string source;      // the table's name in the step
  LiveTable::RestoreMode mode;
  ScanOptions scan;  // of the restore
  std::shared_ptr<RowFilter> filter;
  const TableState* table;
  uint64_t rows = 0;  // the table's capacity

  // Reads only the ids of the rows, and changes nothing. Returns the first
  // error of TableState::CheckId, or ResourceExhausted with both numbers if
  // this rank has more rows than the table has room for; the latter is not
  // checked in RestoreMode::kMerge, as rows may exist already.
  absl::Status Run() const;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_CAPACITY_CHECK_H_
