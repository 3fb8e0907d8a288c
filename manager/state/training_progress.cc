// SPDX-License-Identifier: Apache-2.0
#include "manager/state/training_progress.h"

#include "absl/strings/str_cat.h"

namespace ckptdb::internal {

absl::Status TrainingProgress::Count(int64_t step) {
  if (step > global_step_ || (step == 0 && before_first_step_)) {
    global_step_ = step;
    before_first_step_ = false;
    trained_ = true;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("step ", step, " is not after step ", global_step(),
                   ", which was trained or restored last"));
}

void TrainingProgress::OnRestored(std::optional<int64_t> step) {
  restored_ = true;
  before_first_step_ = false;
  if (step.has_value()) global_step_ = *step;
}

}  // namespace ckptdb::internal
