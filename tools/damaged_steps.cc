// SPDX-License-Identifier: Apache-2.0
#include "tools/damaged_steps.h"

#include <cstdint>

#include "tools/open_store.h"

namespace ckptdb::tool {

absl::Status RemoveDamaged(const std::vector<ExaminedStep>& steps, Store* store,
                           std::vector<Version>* removed) {
  for (const ExaminedStep& step : steps) {
    if (!absl::IsDataLoss(step.status) || step.record.pinned) continue;
    const int64_t number = step.record.version.step;
    const auto now = store->FindStep(number);
    if (!now.ok() || now->version != step.record.version) continue;
    const absl::Status deleted = store->Delete(number);
    if (!deleted.ok()) {
      return WithPlace(ReadingStatus(deleted), StepName(number));
    }
    removed->push_back(step.record.version);
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::tool
