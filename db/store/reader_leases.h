// SPDX-License-Identifier: Apache-2.0
// Takes, renews and drops the leases of a reader outside the owner's process;
// internal to db/.
#ifndef CKPTDB_DB_STORE_READER_LEASES_H_
#define CKPTDB_DB_STORE_READER_LEASES_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/base/exit_task.h"
#include "db/base/mutex.h"
#include "db/disk/environment.h"
#include "db/meta/lease.h"
#include "db/options.h"
#include "db/rocks/guarded_file_system.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Thread-safe. Must outlive the leases taken from it.
class ReaderLeases {
 public:
  // A lease, or the reason why none could be written. The last copy of `lease`
  // drops it; it is null if the step is read without one.
  struct Taken {
    std::shared_ptr<void> lease;
    absl::Status no_lease;
  };

  ReaderLeases(std::string store, const StoreOptions& options,
               std::shared_ptr<Environment> environment);
  ReaderLeases(const ReaderLeases&) = delete;
  ReaderLeases& operator=(const ReaderLeases&) = delete;
  ~ReaderLeases();

  // Stops the thread when the process exits. Called once, after the process has
  // opened its first database: see ExitTask.
  void StopAtExit();

  // Takes a lease on these versions for `step`. Returns PermissionDenied if the
  // lease cannot be written and the options require one.
  absl::StatusOr<Taken> Take(int64_t step,
                             const std::vector<Version>& versions);

  // Returns when the leases of all readers on a version end, ascending.
  absl::StatusOr<std::vector<int64_t>> EndsFor(const Version& version) const;

  // Returns the file system that writes with the modes of leases, so that an
  // owner that runs as another user can read them.
  rocksdb::FileSystem* files() const { return files_.get(); }

 private:
  absl::Status StartRenewing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Stops the thread. Leases taken later are not renewed.
  void StopRenewing();
  void Renew();
  // Pauses, then returns whether leases are to be renewed: false after
  // StopRenewing.
  bool WaitToRenew(std::chrono::milliseconds pause)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(const std::string& uuid);
  int64_t NextExpiry() const;

  const std::string store_;
  const StoreOptions::LeaseMode mode_;
  const int64_t lease_ms_;
  const std::shared_ptr<Environment> environment_;
  const std::shared_ptr<GuardedFileSystem> files_;

  Mutex mutex_;
  ConditionVariable wakes_;
  std::map<std::string, Lease> leases_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread renewer_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ExitTask> exit_task_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_READER_LEASES_H_
