// Plans what a load rule takes from a step, item by item; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_PLANNED_ITEMS_H_
#define CKPTDB_MANAGER_LOAD_PLANNED_ITEMS_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/manager/coordinator.h"
#include "ckptdb/manager/load/loaded_items.h"
#include "ckptdb/manager/model_state.h"

namespace ckptdb::internal {

// One item to load, of which each rank loads its part.
struct PlannedItem {
  LoadedItem item;
  // Returns an error for rows that a table has no place for; null: it grows.
  std::function<absl::Status()> check;
  // Loads it; null when the step does not have it, or it does not fit.
  std::function<absl::Status()> load;
  // All ranks call `load` together, and it returns the same status on each.
  bool together = false;
  // A table that is loaded with all its slots, each as it is in the step.
  bool as_in_step = false;
  const ChangeTracker* tracker = nullptr;  // of a table that has one
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

// Plans the items that `rule` chooses of the model, which is not touched. Those
// that the step does not have or that do not fit are in the plan, too, with
// that outcome.
absl::StatusOr<std::vector<PlannedItem>> PlanItems(const LoadInputs& inputs,
                                                   const LoadRule& rule);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_PLANNED_ITEMS_H_
