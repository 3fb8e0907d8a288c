// A step into a model; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_STATE_H_
#define CKPTDB_MANAGER_LOAD_STATE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "ckptdb/db/step_reader.h"
#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/manager/model_state.h"

namespace ckptdb::internal {

struct LoadSpec {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  RestoreMode mode = RestoreMode::kClear;
};

// Whether the step has all of the model, in types and shapes that fit: NotFound
// naming all that is missing, FailedPrecondition for what does not fit. The
// model is not touched.
absl::Status CheckStep(const StepReader& step, const ModelState& model,
                       const ManagerOptions& options, const LoadSpec& spec);

// This rank's part of the step. Counts in *report what was loaded. The step has
// been checked.
absl::Status LoadStep(const StepReader& step, const ModelState& model,
                      const ManagerOptions& options, const LoadSpec& spec,
                      RestoreReport* report);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_STATE_H_
