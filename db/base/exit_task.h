// Tasks that run before a process destroys its static objects; internal to the
// library.
//
// RocksDB keeps static objects of its own, made when the first database is
// opened. exit() destroys them before any object of the program's that was
// there by then, a store in a global variable, say, and while the threads of
// objects that are never destroyed still run. So what is open when exit() is
// called is closed first.
#ifndef CKPTDB_DB_BASE_EXIT_TASK_H_
#define CKPTDB_DB_BASE_EXIT_TASK_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// A task for exit(), as long as the object lives: run once, by the thread that
// calls exit(), the task made last first. In a process that was forked off no
// task is run: the threads that it would wait for are its parent's. For the
// same reason such a process ends there, with what it has written to its
// streams, and without its older exit handlers and static objects.
class ExitTask {
 public:
  // Makes a task. It must be made after the first database of the process was
  // opened.
  explicit ExitTask(std::function<void()> task);
  // Waits for the task when another thread runs it.
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

// Must be called after RocksDB was used in a process that may have no task, as
// one that stages for another: see CheckNotExited.
void WatchExit();

// Returns FailedPrecondition once the tasks have run: exit handlers and objects
// that are older than RocksDB's static objects come after these, and must not
// use RocksDB any more. `what` is the name of the call.
absl::Status CheckNotExited(absl::string_view what);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_EXIT_TASK_H_
