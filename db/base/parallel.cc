// SPDX-License-Identifier: Apache-2.0
#include "db/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "db/base/call_gate.h"
#include "db/base/call_guard.h"
#include "db/base/mutex.h"

namespace ckptdb::internal {
namespace {

class Tasks {
 public:
  Tasks(uint64_t count, const std::function<absl::Status(int, uint64_t)>& task)
      : count_(count), task_(task), failed_at_(count + 1) {}

  void Work(int worker) {
    // A task that was taken also runs if another one has failed meanwhile, so
    // the lowest task that fails always runs, and its error is returned.
    while (!failed_) {
      const uint64_t i = next_++;
      if (i >= count_) return;
      absl::Status status =
          CallGuarded("a worker thread", [&] { return task_(worker, i); });
      if (!status.ok()) Fail(i, std::move(status));
    }
  }
  // Called by each worker but the calling thread when it ends.
  void Leave() {
    const MutexLock lock(&mutex_);
    ++left_;
    changed_.NotifyAll();
  }
  // Calls `poll` until `others` workers have left or it returns an error.
  void Poll(size_t others, const std::function<absl::Status()>& poll) {
    constexpr std::chrono::milliseconds kPollEvery(5);
    while (!Await(others, std::chrono::steady_clock::now() + kPollEvery)) {
      absl::Status status = CallGuarded("a poll", poll);
      if (!status.ok()) return Fail(count_, std::move(status));
    }
  }
  absl::Status status() const {
    const MutexLock lock(&mutex_);
    return status_;
  }

 private:
  // Returns whether `others` workers have left.
  bool Await(size_t others, std::chrono::steady_clock::time_point deadline) {
    const MutexLock lock(&mutex_);
    while (left_ < others && changed_.WaitUntil(&mutex_, deadline)) {
    }
    return left_ >= others;
  }
  // Keeps the error of the lowest task, so that the outcome does not depend on
  // the threads' timing.
  void Fail(uint64_t i, absl::Status status) {
    const MutexLock lock(&mutex_);
    failed_ = true;
    if (i >= failed_at_) return;
    failed_at_ = i;
    status_ = std::move(status);
  }

  const uint64_t count_;
  const std::function<absl::Status(int, uint64_t)>& task_;
  std::atomic<uint64_t> next_ = 0;
  std::atomic<bool> failed_ = false;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  size_t left_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t failed_at_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::Status ParallelFor(
    int threads, uint64_t tasks,
    const std::function<absl::Status(int worker, uint64_t i)>& task,
    const std::function<absl::Status()>& poll) {
  Tasks queue(tasks, task);
  const auto workers = static_cast<int>(
      std::min<uint64_t>(static_cast<uint64_t>(std::max(threads, 1)), tasks));
  // The caller's code must not call the object whose call it runs in, on no
  // thread: it would wait for itself.
  const CallGate::Call* const calls = CallGate::InnermostCall();
  std::vector<std::thread> others;
  others.reserve(static_cast<size_t>(std::max(workers, 1)));
  for (int worker = 1; worker < workers; ++worker) {
    // If a thread cannot be started, or its memory runs out, fewer do the work.
    const absl::Status started = CallGuarded("starting a worker thread", [&] {
      others.emplace_back([&queue, worker, calls] {
        const CallGate::Worker part(calls);
        queue.Work(worker);
        queue.Leave();
      });
    });
    if (!started.ok()) break;
  }
  queue.Work(0);
  if (poll) queue.Poll(others.size(), poll);
  for (std::thread& other : others) other.join();
  return queue.status();
}

}  // namespace ckptdb::internal
