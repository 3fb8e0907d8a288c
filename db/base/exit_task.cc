#include "ckptdb/db/base/exit_task.h"

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
#include "ckptdb/db/base/mutex.h"

namespace ckptdb::internal {
namespace {

std::atomic<bool> exiting = false;
std::atomic<bool> has_exited = false;
std::atomic<bool> has_tasks = false;  // these have the last word
std::atomic<int> child_status = 0;    // that a forked child gave to exit()

// The next to be destroyed are RocksDB's static objects, which would wait for
// ever for threads of the parent.
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
    // A task may destroy the object that registered it; waiting for itself
    // would never end.
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
  // Returns the next task to run; null when there is none.
  ExitTask* Begin() {
    const MutexLock lock(&mutex_);
    runner_ = std::this_thread::get_id();
    if (tasks_.empty()) return nullptr;
    // The task that was added last runs first, as static objects are destroyed.
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

// It is never destroyed, as objects that go later use it.
ExitTasks& AllTasks() {
  static auto* const kTasks = new ExitTasks();
  return *kTasks;
}

// It is destroyed before RocksDB's static objects, as it is made after them.
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

// Notes the exit of a process that has staged and opened no store: it has no
// exit tasks.
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
      ": the process is ending, and exit() has closed what was open; call it "
      "before exit(), or in an exit handler that is registered after the first "
      "store was opened"));
}

}  // namespace ckptdb::internal
