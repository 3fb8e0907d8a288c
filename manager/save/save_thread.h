// The thread that a manager's saves run on beside the training; internal to
// manager/.
//
// A thread for each save would cost memory, not only time: the C library gives
// each new one another arena, and keeps in each what a save has freed.
#ifndef CKPTDB_MANAGER_SAVE_SAVE_THREAD_H_
#define CKPTDB_MANAGER_SAVE_SAVE_THREAD_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "ckptdb/db/base/mutex.h"

namespace ckptdb::internal {

// Runs one piece of work at a time. Its calls come from one thread at a time.
class SaveThread {
 public:
  SaveThread() = default;
  ~SaveThread() { Stop(); }
  SaveThread(const SaveThread&) = delete;
  SaveThread& operator=(const SaveThread&) = delete;

  // Runs `work` on the thread, which the first call starts. What was run before
  // must have been waited for. Throws what std::thread does when the machine
  // has no thread to give: nothing is run then.
  void Run(std::function<void()> work);
  // Returns when what was run has ended. At once within that itself, which is
  // when it has called exit().
  void Wait();
  // Waits as well, and ends the thread; the next Run starts another one.
  void Stop();

 private:
  // Returns what is to be run; null when the thread is to end.
  std::function<void()> AwaitWork();
  void Serve();
  bool IsCurrent() const;

  Mutex mutex_;
  ConditionVariable changed_;
  // The work that is to be run, or is run now; null if there is none.
  std::function<void()> work_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_SAVE_SAVE_THREAD_H_
