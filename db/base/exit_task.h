// SPDX-License-Identifier: Apache-2.0
// Tasks that run before a process destroys its static objects; internal to the
// library.
//
// RocksDB's own static objects are created when the first database is opened.
// exit() destroys them before any object that existed earlier, such as a store
// in a global variable, and while threads of objects that are never destroyed
// still run. So everything that is open when exit() is called is closed first.
#ifndef CKPTDB_DB_BASE_EXIT_TASK_H_
#define CKPTDB_DB_BASE_EXIT_TASK_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// Registers a task for exit() while this object exists. The thread that calls
// exit() runs each task once, the newest first. A forked child runs no task,
// because the threads that it would wait for are its parent's. For the same
// reason such a process ends there: it flushes its streams, and skips its older
// exit handlers and static objects.
class ExitTask {
 public:
  // Registers a task. The process must already have opened its first database.
  explicit ExitTask(std::function<void()> task);
  // Waits if another thread is running the task.
  ~ExitTask();
  ExitTask(const ExitTask&) = delete;
  ExitTask& operator=(const ExitTask&) = delete;

 private:
  friend class ExitTasks;
  const std::function<void()> task_;
};

// Returns whether exit() has begun: from then on only a task can close a
// database.
bool IsExiting();

// Must be called after a process has used RocksDB but may have no task, such as
// one that stages for another: see CheckNotExited.
void WatchExit();

// Returns FailedPrecondition once the tasks have run: exit handlers and objects
// that are older than RocksDB's static objects run after these are destroyed,
// and must not use RocksDB. `what` names the call.
absl::Status CheckNotExited(absl::string_view what);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_EXIT_TASK_H_
