// SPDX-License-Identifier: Apache-2.0
// The machine's file system, but each lock of a file is granted, as some
// network file systems do.
#ifndef CKPTDB_TESTS_DB_GRANTS_EVERY_LOCK_H_
#define CKPTDB_TESTS_DB_GRANTS_EVERY_LOCK_H_

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <memory>
#include <string>

#include "db/disk/environment.h"

namespace ckptdb::testing {

class GrantsEveryLock : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "GrantsEveryLock"; }
  rocksdb::IOStatus LockFile(const std::string& path, const rocksdb::IOOptions&,
                             rocksdb::FileLock** lock,
                             rocksdb::IODebugContext* debug) override {
    *lock = new Granted();
    std::unique_ptr<rocksdb::FSWritableFile> made;
    return ReopenWritableFile(path, rocksdb::FileOptions(), &made, debug);
  }
  rocksdb::IOStatus UnlockFile(rocksdb::FileLock* lock,
                               const rocksdb::IOOptions&,
                               rocksdb::IODebugContext*) override {
    delete lock;
    return rocksdb::IOStatus::OK();
  }

 private:
  class Granted : public rocksdb::FileLock {};
};

inline std::shared_ptr<internal::Environment> EnvironmentThatGrantsEveryLock() {
  const std::shared_ptr<internal::Environment> machine =
      internal::Environment::Default();
  return std::make_shared<internal::Environment>(
      std::make_shared<GrantsEveryLock>(machine->file_system()),
      [machine] { return machine->NowMicros(); }, /*on_disk=*/true);
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_DB_GRANTS_EVERY_LOCK_H_
