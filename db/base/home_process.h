// SPDX-License-Identifier: Apache-2.0
// The process that created an object, and the consequences of a fork();
// internal to the library.
//
// A forked child has a copy of its parent's memory but none of its threads:
// locks that another thread held stay locked, no thread writes for a database,
// and destroying an object would remove the parent's leases and files. So a
// child neither uses nor destroys what its parent has opened.
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

  // Returns whether the calling process is a forked child.
  bool IsForked() const;

  // In a forked child, returns FailedPrecondition naming both processes. `what`
  // names the call.
  absl::Status Check(absl::string_view what) const;

  // Returns the error of Check, and FailedPrecondition when the process is
  // exiting: see CheckNotExited. For calls that use a database.
  absl::Status CheckAlive(absl::string_view what) const;

  // Releases, without destroying, an object that a forked child must not
  // destroy.
  template <typename Object>
  void KeepInChild(std::unique_ptr<Object>* object) const {
    if (IsForked()) static_cast<void>(object->release());
  }

 private:
  const pid_t process_;
  const uint64_t forks_;
};

// Must be called before opening a store or staging into one. Returns
// FailedPrecondition when the process is exiting, and in a process forked from
// one that has called it, because RocksDB's threads and locks belong to the
// parent.
absl::Status EnterLibrary(absl::string_view what);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_HOME_PROCESS_H_
