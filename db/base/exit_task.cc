#include "ckptdb/db/base/exit_task.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace ckptdb::internal {
namespace {

std::atomic<bool> exiting = false;
std::atomic<int> child_status = 0;  // that a forked child gave to exit()

// The next to be destroyed are RocksDB's static objects, which would wait for
// ever for threads of the parent.
void EndChild() {
  std::fflush(nullptr);
  _exit(child_status);
}

}  // namespace

// Those of the process.
class ExitTasks {
 public:
  void Add(ExitTask* task) {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(task);
  }

  void Remove(ExitTask* task) {
    std::unique_lock<std::mutex> lock(mutex_);
    std::erase(tasks_, task);
    if (runner_ == std::this_thread::get_id()) return;
    changed_.wait(lock, [&] { return running_ != task; });
  }

  void RunAll() {
    exiting = true;
    if (getpid() != process_) EndChild();
    std::unique_lock<std::mutex> lock(mutex_);
    runner_ = std::this_thread::get_id();
    while (!tasks_.empty()) {
      running_ = tasks_.back();
      tasks_.pop_back();
      lock.unlock();
      running_->task_();
      lock.lock();
      running_ = nullptr;
      changed_.notify_all();
    }
  }

 private:
  const pid_t process_ = getpid();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ExitTask*> tasks_;
  ExitTask* running_ = nullptr;
  std::thread::id runner_;
};

namespace {

// Never destroyed, as objects that go later look at it.
ExitTasks& AllTasks() {
  static auto* const kTasks = new ExitTasks();
  return *kTasks;
}

// Destroyed before RocksDB's static objects, as it is made after them.
struct Hook {
  Hook() {
    pthread_atfork(nullptr, nullptr, [] {
      on_exit([](int status, void*) { child_status = status; }, nullptr);
    });
  }
  ~Hook() { AllTasks().RunAll(); }
};

}  // namespace

ExitTask::ExitTask(std::function<void()> task) : task_(std::move(task)) {
  AllTasks().Add(this);
  static const Hook kHook;
}

ExitTask::~ExitTask() { AllTasks().Remove(this); }

bool IsExiting() { return exiting; }

}  // namespace ckptdb::internal
