// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/history.h"

#include <utility>

namespace ckptdb::internal {

void History::NoteSaved(int64_t step, std::string why) {
  const MutexLock lock(&mutex_);
  At(step).saved = std::move(why);
}

void History::NoteKept(int64_t step, std::string why) {
  const MutexLock lock(&mutex_);
  At(step).kept = std::move(why);
}

std::optional<StepExplanation> History::Find(int64_t step) const {
  const MutexLock lock(&mutex_);
  const auto found = explanations_.find(step);
  if (found == explanations_.end()) return std::nullopt;
  return found->second;
}

// Drops the lowest step if full, unless that is `step`: a training that was
// reset to an old step still records it.
StepExplanation& History::At(int64_t step) {
  StepExplanation& explanation = explanations_[step];
  if (explanations_.size() > kMaxSteps) {
    const auto oldest = explanations_.begin();
    explanations_.erase(oldest->first == step ? std::next(oldest) : oldest);
  }
  return explanation;
}

}  // namespace ckptdb::internal
