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
  // Unavailable naming the holder's pid and host, also as
  // kHolderPayload, when there is one.
  static absl::StatusOr<std::unique_ptr<OwnerLock>> Acquire(
      const std::shared_ptr<rocksdb::FileSystem>& files,
      const std::string& store);
  ~OwnerLock();
  OwnerLock(const OwnerLock&) = delete;
  OwnerLock& operator=(const OwnerLock&) = delete;

  // FailedPrecondition naming another owner that has come since, which a file
  // system that grants every lock lets in.
  absl::Status Check() const;

 private:
  OwnerLock(std::shared_ptr<rocksdb::FileSystem> files, std::string store,
            rocksdb::FileLock* lock);

  const std::shared_ptr<rocksdb::FileSystem> files_;
  const std::string store_;
  const std::string note_;  // what OWNER has while this is the owner
  rocksdb::FileLock* const lock_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_OWNER_LOCK_H_
