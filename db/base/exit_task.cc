// SPDX-License-Identifier: Apache-2.0
#include "db/base/exit_task.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "db/base/mutex.h"

namespace ckptdb::internal {
namespace {

std::atomic<bool> exiting = false;
std::atomic<bool> has_exited = false;
std::atomic<bool> has_tasks = false;  // then Hook sets has_exited
std::atomic<int> child_status = 0;    // what a forked child passed to exit()

// RocksDB's static objects are destroyed next, which would wait forever for the
// parent's threads.
void EndChild() {
  std::fflush(nullptr);
  _exit(child_status);
}

}  // namespace

// The exit tasks of the process.
class ExitTasks {
 public:
  void Add(ExitTask* task) {
    const MutexLock lock(&mutex_);
    tasks_.push_back(task);
  }

  void Remove(ExitTask* task) {
    const MutexLock lock(&mutex_);
    std::erase(tasks_, task);
    // A task may destroy the object that registered it, which must not wait for
    // itself.
    if (runner_ == std::this_thread::get_id()) return;
    // The object must outlive its task, which runs without the mutex.
    while (running_ == task) ended_.Wait(&mutex_);
  }

  void RunAll() {
    exiting = true;
    if (getpid() != process_) EndChild();
    while (ExitTask* const task = Begin()) {
      task->task_();
      End();
    }
  }

 private:
  // Returns the next task to run; null if none is left.
  ExitTask* Begin() {
    const MutexLock lock(&mutex_);
    runner_ = std::this_thread::get_id();
    if (tasks_.empty()) return nullptr;
    // The newest task runs first, like destructors of static objects.
    running_ = tasks_.back();
    tasks_.pop_back();
    return running_;
  }
  void End() {
    const MutexLock lock(&mutex_);
    running_ = nullptr;
    ended_.NotifyAll();
  }

  const pid_t process_ = getpid();
  Mutex mutex_;
  ConditionVariable ended_;
  std::vector<ExitTask*> tasks_ ABSL_GUARDED_BY(mutex_);
  ExitTask* running_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread::id runner_ ABSL_GUARDED_BY(mutex_);
};

namespace {

// Never destroyed, because objects that are destroyed later use it.
ExitTasks& AllTasks() {
  static auto* const kTasks = new ExitTasks();
  return *kTasks;
}

// Created after RocksDB's static objects and therefore destroyed before them.
struct Hook {
  Hook() {
    pthread_atfork(nullptr, nullptr, [] {
      on_exit([](int status, void*) { child_status = status; }, nullptr);
    });
  }
  ~Hook() {
    AllTasks().RunAll();
    has_exited = true;
  }
};

// Records the exit of a process that has staged but opened no store, and so has
// no exit tasks.
struct LateHook {
  ~LateHook() {
    if (!has_tasks) has_exited = true;
  }
};

}  // namespace

ExitTask::ExitTask(std::function<void()> task) : task_(std::move(task)) {
  AllTasks().Add(this);
  has_tasks = true;
  static const Hook kHook;
}

ExitTask::~ExitTask() { AllTasks().Remove(this); }

bool IsExiting() { return exiting; }

void WatchExit() { static const LateHook kHook; }

absl::Status CheckNotExited(absl::string_view what) {
  if (!has_exited) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      what,
      ": the process is exiting, and its stores are closed; call it before "
      "exit(), or in an exit handler that is registered after the first store "
      "was opened"));
}

}  // namespace ckptdb::internal
