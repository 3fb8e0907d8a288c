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

std::optional<StepStory> History::Find(int64_t step) const {
  const MutexLock lock(&mutex_);
  const auto found = stories_.find(step);
  if (found == stories_.end()) return std::nullopt;
  return found->second;
}

StepStory& History::At(int64_t step) {
  StepStory& story = stories_[step];
  if (stories_.size() > kMaxSteps) {
    const auto oldest = stories_.begin();
    stories_.erase(oldest->first == step ? std::next(oldest) : oldest);
  }
  return story;
}

}  // namespace ckptdb::internal
