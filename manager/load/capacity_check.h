// Checks that the rows of a step have a place in a table of fixed size;
// internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_CAPACITY_CHECK_H_
#define CKPTDB_MANAGER_LOAD_CAPACITY_CHECK_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/manager/model_state.h"
#include "ckptdb/manager/state/model_sharding.h"

namespace ckptdb::internal {

// The table of a step that is to be restored, of which this rank has the rows
// that `filter` lets through.
struct CapacityCheck {
  const StepReader* step;  // outlives the check
  std::string source;      // the name of the table in the step
  LiveTable::RestoreMode mode;
  ScanOptions scan;  // as of the restore
  std::shared_ptr<RowFilter> filter;
  TableState::Capacity capacity;

  // Reads the ids of the rows and nothing else, and changes nothing. Returns
  // the first error of Capacity::check_id, or ResourceExhausted with both
  // numbers when this rank has more rows than places; that is not checked in
  // RestoreMode::kMerge, as rows may be there already.
  absl::Status Run() const;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_CAPACITY_CHECK_H_
