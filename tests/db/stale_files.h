// SPDX-License-Identifier: Apache-2.0
// A file system that is not coherent between hosts: it shows what another host
// has replaced or removed meanwhile.
#ifndef CKPTDB_TESTS_DB_STALE_FILES_H_
#define CKPTDB_TESTS_DB_STALE_FILES_H_

#include <rocksdb/file_system.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "db/disk/environment.h"

namespace ckptdb::testing {

// The next `stale_opens` openings of the file `stale_name` are ESTALE, and the
// next `stale_listings` listings of the database have a log that is gone.
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

inline std::shared_ptr<StaleFiles> StaleFilesOnDisk() {
  return std::make_shared<StaleFiles>(
      internal::Environment::Default()->file_system());
}

inline std::shared_ptr<internal::Environment> EnvironmentOf(
    std::shared_ptr<StaleFiles> files) {
  return std::make_shared<internal::Environment>(
      std::move(files),
      [] { return internal::Environment::Default()->NowMicros(); },
      /*on_disk=*/true);
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_DB_STALE_FILES_H_
