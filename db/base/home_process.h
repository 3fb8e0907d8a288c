// The process that an object was made in, and what becomes of it after a
// fork(); internal to the library.
//
// A forked child has a copy of its parent's memory and none of its threads:
// locks that another thread held stay locked, a database has no one who writes
// for it, and what is destroyed would remove the parent's leases and files. So
// a child uses nothing that its parent has opened, and destroys nothing of it.
#ifndef CKPTDB_DB_BASE_HOME_PROCESS_H_
#define CKPTDB_DB_BASE_HOME_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// Thread-safe.
class HomeProcess {
 public:
  HomeProcess();

  // Returns whether the calling process is another one.
  bool IsForked() const;

  // Returns FailedPrecondition naming both processes in a forked child. `what`
  // is the name of the call.
  absl::Status Check(absl::string_view what) const;

  // Returns the error of Check, and FailedPrecondition at the end of the
  // process: see CheckNotExited. It is for calls that use a database.
  absl::Status CheckAlive(absl::string_view what) const;

  // Gives up what is not this process's to destroy.
  template <typename Object>
  void KeepInChild(std::unique_ptr<Object>* object) const {
    if (IsForked()) static_cast<void>(object->release());
  }

 private:
  const pid_t process_;
  const uint64_t forks_;
};

// Must be called before a store is opened or staged into. Returns
// FailedPrecondition in a process that was forked from one that has done so, as
// the threads and locks of RocksDB belong to that process, and at the end of
// the process.
absl::Status EnterLibrary(absl::string_view what);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_HOME_PROCESS_H_
