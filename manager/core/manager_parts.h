// The parts that a manager opens; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_MANAGER_PARTS_H_
#define CKPTDB_MANAGER_CORE_MANAGER_PARTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/db/state.h"
#include "ckptdb/db/store.h"
#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/manager/coordinator.h"
#include "ckptdb/manager/core/error_ledger.h"
#include "ckptdb/manager/core/warnings.h"
#include "ckptdb/manager/state/change_sets.h"

namespace ckptdb::internal {

// The options, the model and the coordinators of a manager, and what this rank
// has opened for it. Everything else in manager/core points into it. It is
// filled by OpenManagerParts and emptied by CheckpointManager::Close, both on
// the training thread, and does not change in between.
struct ManagerParts {
  ManagerParts(ManagerOptions given_options, const ModelState* given_model,
               std::unique_ptr<Coordinator> given_ranks);
  // Leaves the other ranks, once the store is closed.
  ~ManagerParts();
  ManagerParts(const ManagerParts&) = delete;
  ManagerParts& operator=(const ManagerParts&) = delete;

  bool is_owner() const { return ranks->rank() == kOwnerRank; }
  uint32_t world_size() const { return ranks->world_size(); }
  // Returns whose part of a step the model has.
  ModelState::Shard shard() const {
    return options.shard.value_or(
        ModelState::Shard{ranks->rank(), ranks->world_size()});
  }

  // The options as given, with paths resolved, and without those of saving if
  // nothing is to be saved.
  const ManagerOptions options;
  const ModelState* const model;
  const std::unique_ptr<Coordinator> ranks;
  ErrorLedger errors;
  Warnings warnings;

  std::vector<TableSharding> shardings;           // of the model's tables
  std::unique_ptr<Coordinator> background_ranks;  // of the thread of saves
  std::unique_ptr<Store> store;      // of the owner, unless it only reads
  std::unique_ptr<Reader> reader;    // of a manager that is read-only
  std::unique_ptr<ChangeFeed> feed;  // with ManagerOptions::deltas
  // The step that an earlier manager saved last.
  std::optional<int64_t> newest_at_open;
};

// Checks the options and opens what they name, on all ranks together: what
// fails on one fails on all. `ranks` is not null.
absl::StatusOr<std::unique_ptr<ManagerParts>> OpenManagerParts(
    const ManagerOptions& options, const ModelState* model,
    std::unique_ptr<Coordinator> ranks);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_MANAGER_PARTS_H_
