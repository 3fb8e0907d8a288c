// SPDX-License-Identifier: Apache-2.0
// Decides which tables a save writes in full; internal to manager/.
#ifndef CKPTDB_MANAGER_SAVE_BASE_REASONS_H_
#define CKPTDB_MANAGER_SAVE_BASE_REASONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "db/state.h"
#include "manager/coordinator.h"
#include "manager/model_state.h"
#include "manager/state/change_sets.h"

namespace ckptdb::internal {

// Determines whether a table can be saved as its changes.
struct BaseInputs {
  const ModelState& model;
  const std::vector<TableSharding>& shardings;
  const ChangeSets& changes;
  const absl::StatusOr<Ticket>& ticket;  // for this rank's part of the save
  const BaseReasons& differing_tables;   // from SaveLineage
  bool has_parent = false;
  const std::string& reason;  // for all tables; may be empty
};

// Brings all ranks to the same reasons: a table is saved in full if any rank
// has a reason. Every rank calls it, even one that failed and has no changes to
// save. `attempt` is the save's. Updates *own with an error of this rank alone;
// an error that is returned is that of all ranks.
absl::StatusOr<BaseReasons> AgreeOnBases(const BaseInputs& inputs,
                                         Coordinator* ranks, uint32_t attempt,
                                         absl::Duration deadline,
                                         absl::Status* own);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_SAVE_BASE_REASONS_H_
