// SPDX-License-Identifier: Apache-2.0
// The lock that makes one process the owner of a store; internal to db/.
#ifndef CKPTDB_DB_ROCKS_OWNER_LOCK_H_
#define CKPTDB_DB_ROCKS_OWNER_LOCK_H_

#include <rocksdb/file_system.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/base/mutex.h"
#include "db/rocks/live_manifest.h"

namespace ckptdb::internal {

// A lock that is held from Acquire until Release or destruction. The kernel
// releases it when the process dies.
class OwnerLock {
 public:
  // If the lock is held, returns Unavailable naming the holder's pid and host,
  // also as kHolderPayload.
  static absl::StatusOr<std::shared_ptr<OwnerLock>> Acquire(
      const std::shared_ptr<rocksdb::FileSystem>& files,
      const std::string& store);
  ~OwnerLock();
  OwnerLock(const OwnerLock&) = delete;
  OwnerLock& operator=(const OwnerLock&) = delete;

  // Releases the lock, once. Check keeps working.
  void Release();

  // Makes Check fail from now on, for a database that cannot be closed and so
  // must not change anything.
  void GiveUp() const;

  // Writes the lock's holder to OWNER. This fences off an earlier owner that is
  // still alive, which is possible on a file system that grants every lock.
  absl::Status Announce();

  // Returns FailedPrecondition naming another owner that has announced itself
  // since, or a file of the open database that was removed or replaced, and the
  // same from then on. Thread-safe.
  absl::Status Check() const;

  // Returns DataLoss naming a removed or replaced file if that is Check's
  // error.
  absl::Status CheckFiles() const;

  // The MANIFEST of the database that this owner has open.
  LiveManifest* manifest() const { return &manifest_; }

 private:
  OwnerLock(std::shared_ptr<rocksdb::FileSystem> files, std::string store,
            rocksdb::FileLock* lock);

  const std::shared_ptr<rocksdb::FileSystem> files_;
  const std::string store_;
  const std::string note_;   // the bytes of OWNER while this is the owner
  rocksdb::FileLock* lock_;  // null when it was released
  mutable LiveManifest manifest_;
  mutable Mutex mutex_;
  mutable bool given_up_ ABSL_GUARDED_BY(mutex_) = false;
  mutable bool superseded_ ABSL_GUARDED_BY(mutex_) = false;
  // OK until another owner, or a removed or replaced file, was seen.
  mutable absl::Status lost_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_OWNER_LOCK_H_
