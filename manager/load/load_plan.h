// Plans what a load rule takes from a step; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_LOAD_PLAN_H_
#define CKPTDB_MANAGER_LOAD_LOAD_PLAN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/manager/coordinator.h"
#include "ckptdb/manager/load/step_items.h"
#include "ckptdb/manager/model_state.h"

namespace ckptdb::internal {

// One item to load, of which each rank loads its part.
struct PlannedItem {
  CheckpointManager::LoadedItem item;
  // Loads it; null when the step does not have it, or it does not fit.
  std::function<absl::Status()> load;
  // All ranks call `load` together, and it returns the same status on each.
  bool together = false;
};

// What a plan is made of. All of it outlives the plan.
struct LoadInputs {
  const StepReader& step;
  // Lead to the step from what the model holds, or null: tables are loaded by
  // them alone where that is possible.
  const ChangeReader* changes;
  const ModelState& model;
  const ManagerOptions& options;
  absl::Span<const TableSharding> shardings;  // of ResolveShardings
  ModelState::Shard shard;
  Coordinator* ranks;
};

class LoadPlan {
 public:
  // Plans what `rule` chooses of the model, which is not touched.
  static absl::StatusOr<LoadPlan> Make(const LoadInputs& inputs,
                                       const LoadRule& rule);

  // Returns InvalidArgument for a pattern that matches nothing registered, and
  // FailedPrecondition naming all items that are missing or do not fit.
  absl::Status CheckAll() const;
  // Loads what the step has and what fits. All ranks call it. It never returns
  // NotFound, which means to callers that the store has no step.
  absl::Status Run() const;

  CheckpointManager::LoadedRule Describe() const;

 private:
  class Maker;

  absl::Status RunOnly(
      const std::function<bool(const PlannedItem&)>& chosen) const;

  Coordinator* ranks_ = nullptr;
  absl::Duration deadline_;
  int64_t step_ = 0;
  std::vector<PlannedItem> items_;
  std::vector<StepItem> unexpected_;
  std::vector<CheckpointManager::UnmatchedPattern> unmatched_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_LOAD_PLAN_H_
