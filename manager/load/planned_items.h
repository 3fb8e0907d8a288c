// SPDX-License-Identifier: Apache-2.0
// Plans what a load rule loads from a step, item by item; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_PLANNED_ITEMS_H_
#define CKPTDB_MANAGER_LOAD_PLANNED_ITEMS_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "db/options.h"
#include "db/reader.h"
#include "manager/coordinator.h"
#include "manager/load/loaded_items.h"
#include "manager/manager_options.h"
#include "manager/model_state.h"

namespace ckptdb::internal {

// One item to load; each rank loads its part.
struct PlannedItem {
  LoadedItem item;
  // Returns an error if rows do not fit in the table; null if the table grows.
  std::function<absl::Status()> check;
  // Loads the item; null if the step does not contain it, or it does not fit.
  std::function<absl::Status()> load;
  // The host memory of a tensor that is loaded whole and as it is in the step,
  // which LoadPlan reads together with others instead of calling `load`; null
  // for other items.
  void* whole = nullptr;
  // All ranks call `load` together, and it returns the same status on each.
  bool together = false;
  // Whether LoadedItem::detail of an item that does not fit contains the only
  // remedy; the call's general remedies do not apply to it.
  bool names_remedy = false;
  // True for a table that is loaded with all its slots exactly as in the step.
  bool as_in_step = false;
  const ChangeTracker* tracker = nullptr;  // null without one
};

// The inputs of a plan, which outlive it.
struct LoadInputs {
  const StepReader& step;
  // The changes from the model's state to the step, or null: tables are loaded
  // from these alone if possible.
  const ChangeReader* changes;
  const ModelState& model;
  const ManagerOptions& options;
  absl::Span<const TableSharding> shardings;  // from ResolveShardings
  ModelState::Shard shard;
  Coordinator* ranks;
  absl::string_view cast_remedy;  // how the caller allows casts
};

// Plans the items of the model that `rule` chooses. Does not touch the model.
// Items that the step does not contain or that do not fit are in the plan, too,
// with that outcome. `read` replaces the ReadOptions of the manager's options.
absl::StatusOr<std::vector<PlannedItem>> PlanItems(const LoadInputs& inputs,
                                                   const ReadOptions& read,
                                                   const LoadRule& rule);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_PLANNED_ITEMS_H_
