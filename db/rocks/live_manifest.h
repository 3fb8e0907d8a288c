// SPDX-License-Identifier: Apache-2.0
// Detects that the files of an open database were removed or replaced; internal
// to db/.
//
// A process can write to an open file after the file was removed, or after its
// folder was replaced by a copy. The data is then lost, or divided between two
// folders, neither of which can be opened.
#ifndef CKPTDB_DB_ROCKS_LIVE_MANIFEST_H_
#define CKPTDB_DB_ROCKS_LIVE_MANIFEST_H_

#include <rocksdb/file_system.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "db/base/mutex.h"

namespace ckptdb::internal {

// The MANIFEST that an owner writes, and CURRENT. Thread-safe. Checks nothing
// on file systems other than the machine's, whose files have no inodes.
class LiveManifest {
 public:
  LiveManifest(std::shared_ptr<rocksdb::FileSystem> files, std::string store);

  // Reports that the owner has created the MANIFEST at `path`.
  absl::Status Created(const std::string& path);
  // Reports that the owner is about to remove the MANIFEST at `path`.
  void Removing(const std::string& path);
  // Reports that CURRENT exists.
  void Named();

  // Returns FailedPrecondition, with the path and the remedy, if CURRENT is
  // missing or the newest MANIFEST is not the created file. Returns OK if the
  // store's folder is missing: it can be moved back, and calls that need it
  // report it.
  absl::Status Check() const;

 private:
  absl::Status CheckAll() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<rocksdb::FileSystem> files_;
  const std::string store_;
  const bool on_disk_;
  // Held while files are examined, so that none is removed meanwhile.
  mutable Mutex mutex_;
  std::string path_ ABSL_GUARDED_BY(mutex_);  // empty: no MANIFEST
  // A file keeps its inode while it is open. The device is not compared: it
  // changes if a network file system is mounted again.
  uint64_t inode_ ABSL_GUARDED_BY(mutex_) = 0;
  bool named_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_LIVE_MANIFEST_H_
