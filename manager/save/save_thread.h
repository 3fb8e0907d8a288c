// SPDX-License-Identifier: Apache-2.0
// The thread that a manager's saves run on in the background; internal to
// manager/.
//
// A thread for each save would cost memory as well as time: the C library gives
// each new thread another arena, and keeps the memory freed by a save in it.
#ifndef CKPTDB_MANAGER_SAVE_SAVE_THREAD_H_
#define CKPTDB_MANAGER_SAVE_SAVE_THREAD_H_

#include <chrono>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "db/base/mutex.h"

namespace ckptdb::internal {

// Runs one function at a time. Not thread-safe.
class SaveThread {
 public:
  SaveThread() = default;
  ~SaveThread() { Stop(); }
  SaveThread(const SaveThread&) = delete;
  SaveThread& operator=(const SaveThread&) = delete;

  // Runs `work` on the thread, which the first call starts. The previous work
  // must have been waited for. Throws the exception of std::thread if no thread
  // can be created; then `work` does not run.
  void Run(std::function<void()> work);
  // Waits until the work has ended. Returns at once if called by the work
  // itself, which happens when that calls exit().
  void Wait();
  // The same, for at most `time`. Returns whether the work has ended.
  bool WaitFor(std::chrono::milliseconds time);
  // Waits, and ends the thread; the next Run starts another.
  void Stop();

 private:
  // Returns the next work; null if the thread is to end.
  std::function<void()> AwaitWork();
  void Serve();
  bool IsCurrent() const;

  Mutex mutex_;
  ConditionVariable changed_;
  // The work that waits or runs; null when idle.
  std::function<void()> work_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_SAVE_SAVE_THREAD_H_
