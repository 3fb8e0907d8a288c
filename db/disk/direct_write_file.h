// SPDX-License-Identifier: Apache-2.0
// Files that bypass the page cache and are written from memory in huge pages;
// internal to db/.
//
// RocksDB supports direct I/O, but from memory that is unfit for it: see
// db/base/huge_page.h. To RocksDB these files look like ordinary ones.
#ifndef CKPTDB_DB_DISK_DIRECT_WRITE_FILE_H_
#define CKPTDB_DB_DISK_DIRECT_WRITE_FILE_H_

#include <rocksdb/file_system.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ckptdb::internal {

// The size of RocksDB's buffer for a file of NewDirectWriteFile. Larger blocks
// are passed on without being copied to it.
inline constexpr size_t kGatheredBytes = size_t{64} << 10;

// Returns a new append-only file. `direct` was opened for direct writes, and
// receives whole huge pages until a sync or the close. Returns null, and leaves
// `direct` unchanged, if there is no memory.
std::unique_ptr<rocksdb::FSWritableFile> NewDirectWriteFile(
    std::unique_ptr<rocksdb::FSWritableFile>* direct);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_DIRECT_WRITE_FILE_H_
