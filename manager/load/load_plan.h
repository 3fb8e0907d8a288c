// What a rule takes from a step; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_LOAD_PLAN_H_
#define CKPTDB_MANAGER_LOAD_LOAD_PLAN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ckptdb/db/change_reader.h"
#include "ckptdb/db/step_reader.h"
#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/manager/load_spec.h"
#include "ckptdb/manager/model_state.h"

namespace ckptdb::internal {

// One thing to load: loads this rank's part of it.
struct PlannedItem {
  LoadedItem item;
  std::function<absl::Status()> load;  // when it is there and fits
};

// For the ranks that load it.
struct LoadPlace {
  uint32_t rank = 0;
  uint32_t world_size = 1;
};

class LoadPlan {
 public:
  // Of what `rule` chooses of `model`. The step, the model and the options
  // outlive it. The model is not touched. `shardings` as ResolveShardings gave
  // them. `changes` to the step from what the
  // model holds, or null: tables are loaded by them alone where they can be.
  static absl::StatusOr<LoadPlan> Make(
      const StepReader& step, const ChangeReader* changes,
      const ModelState& model, const ManagerOptions& options,
      absl::Span<const TableSharding> shardings, const LoadPlace& place,
      const LoadRule& rule);

  // InvalidArgument for a pattern that matches nothing registered, NotFound
  // naming all that is missing, FailedPrecondition for what does not fit.
  absl::Status CheckAll() const;
  // Loads what is there and fits.
  absl::Status Run() const;

  LoadedRule Describe() const;

 private:
  class Maker;

  int64_t step_ = 0;
  std::vector<PlannedItem> items_;
  std::vector<std::string> unexpected_;
  std::vector<UnmatchedPattern> unmatched_;
};

// Whether "*" and "?" of the pattern can stand for something so that it is
// `name`.
bool GlobMatches(absl::string_view pattern, absl::string_view name);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_LOAD_PLAN_H_
