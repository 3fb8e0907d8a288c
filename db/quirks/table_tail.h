// SPDX-License-Identifier: Apache-2.0
// Checks the end of an SST file before RocksDB opens it; internal to db/.
#ifndef CKPTDB_DB_QUIRKS_TABLE_TAIL_H_
#define CKPTDB_DB_QUIRKS_TABLE_TAIL_H_

#include <rocksdb/file_system.h>
#include <rocksdb/table.h>

#include <cstdint>
#include <memory>
#include <string>

namespace ckptdb::internal {

// The table format that this reads, in which all tables are written.
inline constexpr uint32_t kTableFormatVersion = 5;
inline constexpr rocksdb::ChecksumType kTableChecksum = rocksdb::kxxHash64;

// RocksDB parses the properties block before comparing its checksum, and a
// flipped bit there ends the process with an assertion. It also blames the
// MANIFEST for a table's damaged footer. This checks both first, and returns
// Corruption naming the file. RocksDB detects all other damage in time.
rocksdb::IOStatus CheckTableTail(const std::string& path,
                                 const rocksdb::FSRandomAccessFile& file,
                                 uint64_t file_bytes);

// A table whose size is not the one in the MANIFEST has replaced another table,
// and RocksDB would look for a footer in its middle. RocksDB reads the end of a
// table first. Returns a wrapper of `file` whose reads fail with Corruption if
// the end that RocksDB assumes is not the file's.
std::unique_ptr<rocksdb::FSRandomAccessFile> NewSizedTable(
    const std::string& path, uint64_t file_bytes,
    std::unique_ptr<rocksdb::FSRandomAccessFile> file);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_QUIRKS_TABLE_TAIL_H_
