// A look at the end of a table file before RocksDB opens it; internal to db/.
#ifndef CKPTDB_DB_TABLE_TAIL_H_
#define CKPTDB_DB_TABLE_TAIL_H_

#include <rocksdb/file_system.h>

#include <string>

namespace ckptdb::internal {

// RocksDB 7.8 parses the block of a table's properties before it compares the
// block's checksum, and a flipped bit there ends the process by an assertion.
// This compares the checksum first. Corruption when it is wrong; all other
// damage is left to RocksDB, which finds it in time.
rocksdb::IOStatus CheckTableTail(const std::string& path,
                                 const rocksdb::FSRandomAccessFile& file,
                                 uint64_t file_bytes);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_TABLE_TAIL_H_
