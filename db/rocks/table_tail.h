// A look at the end of a table file before RocksDB opens it; internal to db/.
#ifndef CKPTDB_DB_ROCKS_TABLE_TAIL_H_
#define CKPTDB_DB_ROCKS_TABLE_TAIL_H_

#include <rocksdb/file_system.h>

#include <cstdint>
#include <memory>
#include <string>

namespace ckptdb::internal {

// RocksDB 7.8 parses the block of a table's properties before it compares the
// block's checksum, and a flipped bit there ends the process by an assertion;
// and it blames its MANIFEST for a footer that is none of a table's. This looks
// at both first. Corruption naming the file; all other damage is left to
// RocksDB, which finds it in time.
rocksdb::IOStatus CheckTableTail(const std::string& path,
                                 const rocksdb::FSRandomAccessFile& file,
                                 uint64_t file_bytes);

// A table of another size than its MANIFEST has it is one that another table
// has taken the place of, and RocksDB would look for a footer in the midst of
// it. It reads the end of a table first: all reads are Corruption when that is
// not the end of the file.
std::unique_ptr<rocksdb::FSRandomAccessFile> NewSizedTable(
    const std::string& path, uint64_t file_bytes,
    std::unique_ptr<rocksdb::FSRandomAccessFile> file);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_TABLE_TAIL_H_
