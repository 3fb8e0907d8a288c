// SPDX-License-Identifier: Apache-2.0
// A file system in memory; internal to db/.
#ifndef CKPTDB_DB_DISK_MEMORY_FILE_SYSTEM_H_
#define CKPTDB_DB_DISK_MEMORY_FILE_SYSTEM_H_

#include <rocksdb/file_system.h>

#include <memory>

namespace ckptdb::internal {

// Returns an empty file system, whose files end with it. No process sees those
// of another, and none remain after a crash.
std::shared_ptr<rocksdb::FileSystem> NewMemoryFileSystem();

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_MEMORY_FILE_SYSTEM_H_
