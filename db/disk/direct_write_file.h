// Files that are written around the page cache, from memory in huge pages;
// internal to db/.
//
// RocksDB can do direct I/O by itself, but from memory that is not fit for it:
// see db/base/huge_page.h. To RocksDB these files are ordinary ones.
#ifndef CKPTDB_DB_DISK_DIRECT_WRITE_FILE_H_
#define CKPTDB_DB_DISK_DIRECT_WRITE_FILE_H_

#include <rocksdb/file_system.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ckptdb::internal {

// The buffer that RocksDB has of a file which NewDirectWriteFile gathers.
// Larger blocks are passed on without being copied to it.
inline constexpr size_t kGatheredBytes = size_t{64} << 10;

// Returns a new file that is written at its end only. `direct` was opened for
// direct writes, and is given whole huge pages until a sync or the close.
// Returns null, and leaves `direct` as it is, when there is no memory.
std::unique_ptr<rocksdb::FSWritableFile> NewDirectWriteFile(
    std::unique_ptr<rocksdb::FSWritableFile>* direct);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_DIRECT_WRITE_FILE_H_
