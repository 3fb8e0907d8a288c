// SPDX-License-Identifier: Apache-2.0
#include "db/disk/io_threads.h"

#include <chrono>
#include <deque>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "db/base/mutex.h"

namespace ckptdb::internal {
namespace {

using Task = std::packaged_task<rocksdb::IOStatus()>;

class Threads {
 public:
  std::future<rocksdb::IOStatus> Run(Task task) {
    std::future<rocksdb::IOStatus> result = task.get_future();
    {
      const MutexLock lock(&mutex_);
      // Each queued task will take one idle thread, so one is available only if
      // there are more of them.
      if (idle_ > tasks_.size() || Start()) {
        tasks_.push_back(std::move(task));
        changed_.NotifyOne();
        return result;
      }
    }
    // Without a thread the caller does the work itself, which is only slower.
    task();
    return result;
  }

 private:
  // Returns whether there is another thread, which will take a task.
  bool Start() {
    try {
      std::thread([this] { Serve(); }).detach();
    } catch (const std::exception&) {  // no thread, or no memory for it
      return false;
    }
    return true;
  }

  void Serve() {
    while (std::optional<Task> task = AwaitTask()) (*task)();
  }

  // Returns nothing if no task arrived for a second.
  std::optional<Task> AwaitTask() {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::seconds(1);
    const MutexLock lock(&mutex_);
    ++idle_;
    while (tasks_.empty() && changed_.WaitUntil(&mutex_, deadline)) {
    }
    --idle_;
    if (tasks_.empty()) return std::nullopt;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    return task;
  }

  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Never destroyed, because its threads are detached.
Threads& SharedThreads() {
  static auto* const kThreads = new Threads();
  return *kThreads;
}

}  // namespace

std::future<rocksdb::IOStatus> RunAsync(
    std::function<rocksdb::IOStatus()> work) {
  return SharedThreads().Run(Task(std::move(work)));
}

}  // namespace ckptdb::internal
