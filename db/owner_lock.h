// The lock that makes one process the owner of a store; internal to db/.
#ifndef CKPTDB_DB_OWNER_LOCK_H_
#define CKPTDB_DB_OWNER_LOCK_H_

#include <rocksdb/file_system.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace ckptdb::internal {

// Held from Acquire to destruction, and given up by the kernel when the
// process dies.
class OwnerLock {
 public:
  // Unavailable naming the holder's pid, host and time when there is one.
  static absl::StatusOr<std::unique_ptr<OwnerLock>> Acquire(
      const std::shared_ptr<rocksdb::FileSystem>& files,
      const std::string& store);
  ~OwnerLock();
  OwnerLock(const OwnerLock&) = delete;
  OwnerLock& operator=(const OwnerLock&) = delete;

 private:
  OwnerLock(std::shared_ptr<rocksdb::FileSystem> files,
            rocksdb::FileLock* lock);

  const std::shared_ptr<rocksdb::FileSystem> files_;
  rocksdb::FileLock* const lock_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_OWNER_LOCK_H_
