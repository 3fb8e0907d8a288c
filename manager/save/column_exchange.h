// SPDX-License-Identifier: Apache-2.0
// Makes whole rows of a table whose columns are divided among ranks; internal
// to manager/.
#ifndef CKPTDB_MANAGER_SAVE_COLUMN_EXCHANGE_H_
#define CKPTDB_MANAGER_SAVE_COLUMN_EXCHANGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "db/row_tracker.h"
#include "db/state.h"
#include "manager/coordinator.h"
#include "manager/internal/tensor_device.h"
#include "manager/model_state.h"
#include "manager/state/change_sets.h"

namespace ckptdb::internal {

// The whole rows that a rank saves of a table, in memory of their own.
struct WholeRows {
  std::unique_ptr<TableState::Captured> rows;
  std::vector<int64_t> erased;
};

// By the index of the table in the model.
using WholeTables = std::map<size_t, WholeRows>;

struct ColumnExchange {
  const ModelState& model;
  const std::vector<TableSharding>& shardings;
  const ChangeSets* changes;  // null saves all tables in full
  const BaseReasons& bases;   // the tables that are saved in full
  Coordinator* ranks;
  uint32_t attempt = 0;
  absl::Duration deadline;
  // The approximate bytes that a rank sends in a round.
  uint64_t round_bytes = uint64_t{128} << 20;
};

// Gathers the rows of each such table, or those that any rank has changed, on
// the ranks that save them. All ranks call it together, one that has failed
// with its error `own`: then all return an error. Returns InvalidArgument if an
// element of a row is on no rank, or on several.
absl::StatusOr<WholeTables> ExchangeColumns(const ColumnExchange& exchange,
                                            absl::Status own);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_SAVE_COLUMN_EXCHANGE_H_
