// SPDX-License-Identifier: Apache-2.0
// The plan of what a load rule loads from a step; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_LOAD_PLAN_H_
#define CKPTDB_MANAGER_LOAD_LOAD_PLAN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "manager/coordinator.h"
#include "manager/load/load_patterns.h"
#include "manager/load/load_progress.h"
#include "manager/load/loaded_items.h"
#include "manager/load/planned_items.h"
#include "manager/load/step_items.h"
#include "manager/load_rule.h"
#include "manager/state/change_sets.h"

namespace ckptdb::internal {

class LoadPlan {
 public:
  // What a step must contain before anything is loaded.
  enum class Demand {
    kAll,  // all chosen items, as registered
    kFit,  // at least one item, and those it contains must fit
    kAny,  // nothing in particular
  };

  // Plans the items of the model that `rule` chooses. Does not touch the model.
  static absl::StatusOr<LoadPlan> Make(const LoadInputs& inputs,
                                       const LoadRule& rule);

  // The items of the step that no registered item is loaded from. Those that
  // other ranks load can be taken out before Check and Describe.
  const std::vector<StepItem>& unexpected() const { return unexpected_; }
  void set_unexpected(std::vector<StepItem> unexpected) {
    unexpected_ = std::move(unexpected);
  }
  // Returns InvalidArgument for a pattern or key that matches nothing
  // registered, except a pattern of LoadRule::load under kAny. Returns
  // FailedPrecondition naming all items that are missing or do not fit, and
  // ending with `remedy` unless each of them has another.
  absl::Status Check(Demand demand, absl::string_view remedy) const;
  // Reads the ids of rows for tables of fixed size. Returns the first error of
  // TableState::Capacity; the model is unchanged.
  absl::Status CheckCapacities() const;
  // Marks all items as not loaded, until Run loads them. Without this call
  // Describe predicts the outcome of Run.
  void MarkNotLoaded();
  // Loads the items that the step contains and that fit. All ranks call it.
  // Never returns NotFound, which callers interpret as a store without steps.
  absl::Status Run();

  LoadedRule Describe() const;
  // Tables that the rule excludes although the step contains rows of them, such
  // as `table "user" (3 rows)`.
  const std::vector<std::string>& excluded() const { return excluded_; }
  // Returns the tables that differ from the step once the plan has run, so that
  // they cannot be saved as changes since that step.
  BaseReasons DifferingTables(const ModelState& model) const;

 private:
  // Returns whether the step contains none of the items.
  bool AllMissing() const;
  absl::Status RunOnly(const std::function<bool(const PlannedItem&)>& chosen);
  absl::Status ReadWholeTensors();
  void NoteReading(uint64_t bytes);

  const StepReader* reader_ = nullptr;
  ReadOptions read_;
  std::shared_ptr<LoadProgress> progress_;  // shared by reads; may be null
  Coordinator* ranks_ = nullptr;
  absl::Duration deadline_;
  int64_t step_ = 0;
  std::vector<PlannedItem> items_;
  std::vector<StepItem> unexpected_;
  std::vector<UnmatchedPattern> unmatched_;
  std::vector<std::string> excluded_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_LOAD_PLAN_H_
