// SPDX-License-Identifier: Apache-2.0
// Runs threads one at a time, in an order that a seed decides. A thread may be
// left out for long, as a process that stalls.
#ifndef CKPTDB_TESTS_REMOTE_TURNS_H_
#define CKPTDB_TESTS_REMOTE_TURNS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "db/base/mutex.h"

namespace ckptdb::testing {

// All actors call Wait often, and Finish once at their end.
class Turns {
 public:
  // `on_turn` is called before each turn with its number, while no actor runs.
  Turns(uint64_t seed, int actors, std::function<void(uint64_t)> on_turn)
      : random_(seed), on_turn_(std::move(on_turn)), actors_(actors) {}

  // Ends the actor's turn, and waits for its next one.
  void Wait(int actor) {
    const internal::MutexLock lock(&mutex_);
    actors_[actor].waits = true;
    if (current_ == actor) current_ = kNone;
    Choose();
    while (current_ != actor) changed_.Wait(&mutex_);
    actors_[actor].waits = false;
  }
  void Finish(int actor) {
    const internal::MutexLock lock(&mutex_);
    actors_[actor].finished = true;
    if (current_ == actor) current_ = kNone;
    Choose();
  }
  // Only during a turn.
  uint64_t turn() const {
    const internal::MutexLock lock(&mutex_);
    return turn_;
  }
  bool OneIn(uint64_t n) {
    const internal::MutexLock lock(&mutex_);
    return random_() % n == 0;
  }

 private:
  static constexpr int kNone = -1;
  static constexpr uint64_t kStallOneIn = 60;
  static constexpr uint64_t kMostStall = 1500;
  struct Actor {
    bool waits = false;
    bool finished = false;
    uint64_t stalled_until = 0;
  };

  void Choose() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<int> ready;
    uint64_t first = ~uint64_t{0};
    for (size_t i = 0; i < actors_.size(); ++i) {
      if (actors_[i].finished) continue;
      if (!actors_[i].waits || current_ != kNone) return;
      first = std::min(first, actors_[i].stalled_until);
    }
    turn_ = first == ~uint64_t{0} ? turn_ : std::max(turn_ + 1, first);
    for (size_t i = 0; i < actors_.size(); ++i) {
      if (!actors_[i].finished && actors_[i].stalled_until <= turn_) {
        ready.push_back(static_cast<int>(i));
      }
    }
    if (ready.empty()) return;
    current_ = ready[random_() % ready.size()];
    // From its next turn on.
    if (random_() % kStallOneIn == 0) {
      actors_[current_].stalled_until = turn_ + 1 + random_() % kMostStall;
    }
    on_turn_(turn_);
    changed_.NotifyAll();
  }

  mutable internal::Mutex mutex_;
  internal::ConditionVariable changed_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  const std::function<void(uint64_t)> on_turn_;
  std::vector<Actor> actors_ ABSL_GUARDED_BY(mutex_);
  int current_ ABSL_GUARDED_BY(mutex_) = kNone;
  uint64_t turn_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_REMOTE_TURNS_H_
