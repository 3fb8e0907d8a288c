// SPDX-License-Identifier: Apache-2.0
// The parts that a manager opens; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_MANAGER_PARTS_H_
#define CKPTDB_MANAGER_CORE_MANAGER_PARTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "db/base/call_gate.h"
#include "db/reader.h"
#include "db/state.h"
#include "db/store.h"
#include "manager/checkpoint_manager.h"
#include "manager/coordinator.h"
#include "manager/core/error_ledger.h"
#include "manager/core/warnings.h"
#include "manager/internal/step_shipping.h"
#include "manager/state/change_sets.h"

namespace ckptdb::internal {

// The options, the model and the coordinators of a manager, and what this rank
// has opened for it. The rest of manager/core points into it. OpenManagerParts
// fills it and CheckpointManager::Close empties it, both on the training
// thread; it does not change in between.
struct ManagerParts {
  ManagerParts(ManagerOptions given_options, const ModelState* given_model,
               std::unique_ptr<Coordinator> given_ranks);
  // Leaves the other ranks, once the store is closed.
  ~ManagerParts();
  ManagerParts(const ManagerParts&) = delete;
  ManagerParts& operator=(const ManagerParts&) = delete;

  bool is_owner() const { return ranks->rank() == kOwnerRank; }
  uint32_t world_size() const { return ranks->world_size(); }
  // Returns the rank whose part of a step the model holds.
  ModelState::Shard shard() const {
    return options.follow.shard.value_or(
        ModelState::Shard{ranks->rank(), ranks->world_size()});
  }

  // The options as passed, with paths resolved, and without options that do not
  // apply, such as those of saving if saving is disabled.
  const ManagerOptions options;
  const ModelState* const model;
  const std::unique_ptr<Coordinator> ranks;
  CallGate calls;
  ErrorLedger errors;
  Warnings warnings;

  std::vector<TableSharding> shardings;           // of the model's tables
  std::unique_ptr<Coordinator> background_ranks;  // for the save thread
  std::unique_ptr<Coordinator> notice_ranks;      // for a NoticeExchange
  std::unique_ptr<Store> store;  // on the owner, unless read-only
  // Ships the steps of `store` if ManagerOptions::ship.to is set. Shared with
  // PendingSaves, which may be destroyed later.
  std::shared_ptr<StepShipping> shipping;
  std::unique_ptr<Reader> reader;    // of a read-only manager
  std::unique_ptr<ChangeFeed> feed;  // with ManagerOptions::save.deltas
  // The newest step in the store when it was opened.
  std::optional<int64_t> newest_at_open;
};

// Checks the options and opens what they name, on all ranks together: if one
// rank fails, all fail. `ranks` is not null.
absl::StatusOr<std::unique_ptr<ManagerParts>> OpenManagerParts(
    const ManagerOptions& options, const ModelState* model,
    std::unique_ptr<Coordinator> ranks);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_MANAGER_PARTS_H_
