#include "ckptdb/db/disk/io_threads.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace ckptdb::internal {
namespace {

using Task = std::packaged_task<rocksdb::IOStatus()>;

class Threads {
 public:
  std::future<rocksdb::IOStatus> Run(Task task) {
    std::future<rocksdb::IOStatus> result = task.get_future();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (idle_ > tasks_.size() || Start()) {
        tasks_.push_back(std::move(task));
        changed_.notify_one();
        return result;
      }
    }
    task();
    return result;
  }

 private:
  // Whether there is one more, or one that will come to it.
  bool Start() {
    try {
      std::thread([this] { Serve(); }).detach();
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

  void Serve() {
    constexpr auto kPatience = std::chrono::seconds(1);
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      ++idle_;
      const bool more = changed_.wait_for(lock, kPatience,
                                          [this] { return !tasks_.empty(); });
      --idle_;
      if (!more) return;
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  size_t idle_ = 0;
};

// Never destroyed, as its threads are detached.
Threads& SharedThreads() {
  static auto* const kThreads = new Threads();
  return *kThreads;
}

}  // namespace

std::future<rocksdb::IOStatus> RunBeside(
    std::function<rocksdb::IOStatus()> work) {
  return SharedThreads().Run(Task(std::move(work)));
}

}  // namespace ckptdb::internal
