#include "ckptdb/manager/policy/history.h"

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

std::optional<CheckpointManager::StepExplanation> History::Find(
    int64_t step) const {
  const MutexLock lock(&mutex_);
  const auto found = explanations_.find(step);
  if (found == explanations_.end()) return std::nullopt;
  return found->second;
}

// Makes room by dropping the lowest step, unless that is the one that is asked
// for: a training that went back to an old step still notes it.
CheckpointManager::StepExplanation& History::At(int64_t step) {
  CheckpointManager::StepExplanation& explanation = explanations_[step];
  if (explanations_.size() > kMaxSteps) {
    const auto oldest = explanations_.begin();
    explanations_.erase(oldest->first == step ? std::next(oldest) : oldest);
  }
  return explanation;
}

}  // namespace ckptdb::internal
