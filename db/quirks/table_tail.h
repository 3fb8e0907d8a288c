// A look at the end of an SST file before RocksDB opens it; internal to db/.
#ifndef CKPTDB_DB_QUIRKS_TABLE_TAIL_H_
#define CKPTDB_DB_QUIRKS_TABLE_TAIL_H_

#include <rocksdb/file_system.h>
#include <rocksdb/table.h>

#include <cstdint>
#include <memory>
#include <string>

namespace ckptdb::internal {

// The format of the tables that this reads, and so of all that are written.
inline constexpr uint32_t kTableFormatVersion = 5;
inline constexpr rocksdb::ChecksumType kTableChecksum = rocksdb::kxxHash64;

// RocksDB parses the block of a table's properties before it compares the
// block's checksum, and a flipped bit there ends the process by an assertion.
// It also blames the MANIFEST for a damaged footer of a table. This looks at
// both first, and returns Corruption naming the file. All other damage is left
// to RocksDB, which finds it in time.
rocksdb::IOStatus CheckTableTail(const std::string& path,
                                 const rocksdb::FSRandomAccessFile& file,
                                 uint64_t file_bytes);

// A table whose size is not the one in the MANIFEST has taken the place of
// another one, and RocksDB would look for a footer in the midst of it. It reads
// the end of a table first. Returns `file` with all reads Corruption when what
// RocksDB takes for the end is not the end of the file.
std::unique_ptr<rocksdb::FSRandomAccessFile> NewSizedTable(
    const std::string& path, uint64_t file_bytes,
    std::unique_ptr<rocksdb::FSRandomAccessFile> file);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_QUIRKS_TABLE_TAIL_H_
