// SPDX-License-Identifier: Apache-2.0
#include "cuda/tables/score_tracker.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "schema/status.h"

namespace ckptdb::internal {

absl::StatusOr<ChangeTracker::Consumer> ScoreTracker::AddConsumer(
    absl::string_view name) {
  const MutexLock lock(&mutex_);
  CKPTDB_ASSIGN_OR_RETURN(const Consumer consumer,
                          consumers_.AddConsumer(name));
  seen_.emplace(consumer.value, Seen());
  return consumer;
}

absl::Status ScoreTracker::RemoveConsumer(Consumer consumer) {
  const MutexLock lock(&mutex_);
  CKPTDB_RETURN_IF_ERROR(consumers_.RemoveConsumer(consumer));
  seen_.erase(consumer.value);
  return absl::OkStatus();
}

// Exports the whole table. Without erasures, the device skips rows with a lower
// score.
absl::StatusOr<ScoreTracker::Seen> ScoreTracker::Scan(const Seen& before,
                                                      Changes* changes) const {
  const bool compares = erasures_ == HashTable::Erasures::kCompare;
  CKPTDB_ASSIGN_OR_RETURN(const DeviceScope scope, layout_.context->Enter());
  CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<HashWindow> window,
                          HashWindow::Make(&layout_));
  Seen now;
  uint64_t exported = 0;
  std::vector<int64_t> all;
  const uint64_t capacity = layout_.source->capacity();
  for (uint64_t first = 0; first < capacity; first += window->rows()) {
    const uint64_t places = std::min(window->rows(), capacity - first);
    CKPTDB_ASSIGN_OR_RETURN(
        const std::vector<int64_t> keys,
        window->Export({first, places, compares ? 0 : before.score},
                       /*with_values=*/false));
    CKPTDB_ASSIGN_OR_RETURN(const std::vector<uint64_t> scores,
                            window->ReadScores(keys.size()));
    exported += keys.size();
    for (size_t i = 0; i < keys.size(); ++i) {
      now.score = std::max(now.score, scores[i]);
      if (scores[i] >= before.score) changes->upserted.push_back(keys[i]);
    }
    if (compares) all.insert(all.end(), keys.begin(), keys.end());
  }
  if (exported == 0) now.score = before.score;
  if (!compares) return now;
  std::sort(all.begin(), all.end());
  if (before.ids != nullptr) {
    std::set_difference(before.ids->begin(), before.ids->end(), all.begin(),
                        all.end(), std::back_inserter(changes->erased));
  }
  now.ids = std::make_shared<const std::vector<int64_t>>(std::move(all));
  return now;
}

absl::StatusOr<ChangeTracker::Changes> ScoreTracker::Take(Consumer consumer) {
  const MutexLock lock(&mutex_);
  std::erase_if(taken_, [](const Taken& each) { return each.key.expired(); });
  CKPTDB_ASSIGN_OR_RETURN(Changes changes, consumers_.Take(consumer));
  Seen& seen = seen_.at(consumer.value);
  absl::StatusOr<Seen> now = Scan(seen, &changes);
  if (!now.ok() || !changes.complete) {
    changes.upserted.clear();
    changes.erased.clear();
  }
  if (!now.ok()) {
    absl::Status status = now.status();
    status.Update(consumers_.Return(consumer, std::move(changes)));
    return status;
  }
  taken_.push_back({changes.taken(), seen});
  seen = *std::move(now);
  seen.number = ++takes_;
  return changes;
}

absl::Status ScoreTracker::Return(Consumer consumer, Changes&& changes) {
  const MutexLock lock(&mutex_);
  const std::shared_ptr<const TakenSet> key = changes.taken();
  std::vector<int64_t> upserted = std::move(changes.upserted);
  std::vector<int64_t> erased = std::move(changes.erased);
  changes.upserted.clear();
  changes.erased.clear();
  absl::Status returned = consumers_.Return(consumer, std::move(changes));
  if (!returned.ok()) {
    // A rejected set stays with the caller.
    changes.upserted = std::move(upserted);  // NOLINT(bugprone-use-after-move)
    changes.erased = std::move(erased);
    return returned;
  }
  const auto taken =
      std::find_if(taken_.begin(), taken_.end(),
                   [&](const Taken& each) { return each.key.lock() == key; });
  if (taken == taken_.end()) return absl::OkStatus();
  // The next set starts from the state before this one, unless an older set was
  // returned already.
  Seen& seen = seen_.at(consumer.value);
  if (taken->before.number < seen.number) {
    const uint64_t least = std::min(seen.score, taken->before.score);
    seen = taken->before;
    seen.score = least;
  }
  taken_.erase(taken);
  return absl::OkStatus();
}

void ScoreTracker::Restart() {
  const MutexLock lock(&mutex_);
  for (auto& [id, seen] : seen_) seen.score = 0;
}

}  // namespace ckptdb::internal
