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
#include "ckptdb/manager/model_state.h"

namespace ckptdb::internal {

// One item to load, of which each rank loads its part.
struct PlannedItem {
  CheckpointManager::LoadedItem item;
  // Loads it; null when the step does not have it, or it does not fit.
  std::function<absl::Status()> load;
};

class LoadPlan {
 public:
  // Plans what `rule` chooses of `model`, which is not touched. The step, the
  // model and the options outlive the plan. `shardings` are those of
  // ResolveShardings. `changes` lead to the step from what the model holds, or
  // are null: tables are loaded by them alone where that is possible.
  static absl::StatusOr<LoadPlan> Make(
      const StepReader& step, const ChangeReader* changes,
      const ModelState& model, const ManagerOptions& options,
      absl::Span<const TableSharding> shardings, const ModelState::Shard& shard,
      const LoadRule& rule);

  // Returns InvalidArgument for a pattern that matches nothing registered,
  // NotFound naming all that is missing, FailedPrecondition for what does not
  // fit.
  absl::Status CheckAll() const;
  // Loads what the step has and what fits.
  absl::Status Run() const;

  CheckpointManager::LoadedRule Describe() const;

 private:
  class Maker;

  int64_t step_ = 0;
  std::vector<PlannedItem> items_;
  std::vector<std::string> unexpected_;
  std::vector<CheckpointManager::UnmatchedPattern> unmatched_;
};

// Returns whether `name` matches the pattern, in which "*" stands for any
// characters and "?" for any one.
bool GlobMatches(absl::string_view pattern, absl::string_view name);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_LOAD_PLAN_H_
