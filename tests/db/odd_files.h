// SPDX-License-Identifier: Apache-2.0
// File systems of the machine that are not as a store would like them.
#ifndef CKPTDB_TESTS_DB_ODD_FILES_H_
#define CKPTDB_TESTS_DB_ODD_FILES_H_

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <cerrno>

#include "tests/db/store_fixture.h"

namespace ckptdb::testing {

// Not coherent between hosts: it shows what another host has replaced or
// removed meanwhile. The next `stale_opens` openings of the file `stale_name`
// are ESTALE, and the next `stale_listings` listings of the database have a log
// that is gone.
class StaleFiles : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "StaleFiles"; }
  rocksdb::IOStatus NewSequentialFile(
      const std::string& path, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSSequentialFile>* file,
      rocksdb::IODebugContext* debug) override {
    if (absl::EndsWith(path, stale_name) && stale_opens > 0) {
      --stale_opens;
      return rocksdb::IOStatus::IOError(path, std::strerror(ESTALE));
    }
    return FileSystemWrapper::NewSequentialFile(path, options, file, debug);
  }
  rocksdb::IOStatus GetChildren(const std::string& path,
                                const rocksdb::IOOptions& options,
                                std::vector<std::string>* names,
                                rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status =
        FileSystemWrapper::GetChildren(path, options, names, debug);
    if (absl::EndsWith(path, "/db") && stale_listings > 0) {
      --stale_listings;
      names->push_back("999999.log");
    }
    return status;
  }
  std::string stale_name = "/WATERMARK";
  std::atomic<int> stale_opens = 0;
  std::atomic<int> stale_listings = 0;
};

// Each lock of a file is granted, as some network file systems do.
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
  return EnvironmentOf(OnDisk<GrantsEveryLock>());
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_DB_ODD_FILES_H_
