// What a load rule takes from a step, and loading it; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_LOAD_PLAN_H_
#define CKPTDB_MANAGER_LOAD_LOAD_PLAN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ckptdb/manager/coordinator.h"
#include "ckptdb/manager/load/loaded_items.h"
#include "ckptdb/manager/load/planned_items.h"
#include "ckptdb/manager/load/step_items.h"
#include "ckptdb/manager/load_rule.h"
#include "ckptdb/manager/state/change_sets.h"

namespace ckptdb::internal {

class LoadPlan {
 public:
  // What a step must have before anything is loaded.
  enum class Demand {
    kAll,    // all chosen items, as they are registered
    kToFit,  // at least one, and those that the step has must fit
    kAny,    // it may have other items, or none
  };

  // Plans what `rule` chooses of the model, which is not touched.
  static absl::StatusOr<LoadPlan> Make(const LoadInputs& inputs,
                                       const LoadRule& rule);

  // Returns InvalidArgument for a pattern or key that matches nothing
  // registered, except a pattern of LoadRule::load under kAny. Returns
  // FailedPrecondition naming all items that are missing or do not fit, which
  // ends with `remedy`.
  absl::Status Check(Demand demand, absl::string_view remedy) const;
  // Reads the ids of rows for tables of fixed size. Returns the first error of
  // TableState::Capacity, with the model as it was.
  absl::Status CheckCapacities() const;
  // Says of all items that they are not loaded, until Run loads them. Without
  // it they are described as Run would leave them.
  void SetNotLoaded();
  // Loads what the step has and what fits. All ranks call it. It never returns
  // NotFound, which means to callers that the store has no step.
  absl::Status Run();

  LoadedRule Describe() const;
  // Returns the tables that the model does not have as the step has them once
  // the plan has run, so that no changes since the step can be saved.
  BaseReasons OtherTables(const ModelState& model) const;

 private:
  // Returns whether the step has none of the items.
  bool IsOfOtherModel() const;
  absl::Status RunOnly(const std::function<bool(const PlannedItem&)>& chosen);

  Coordinator* ranks_ = nullptr;
  absl::Duration deadline_;
  int64_t step_ = 0;
  std::vector<PlannedItem> items_;
  std::vector<StepItem> unexpected_;
  std::vector<UnmatchedPattern> unmatched_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_LOAD_PLAN_H_
