// SPDX-License-Identifier: Apache-2.0
// Prepares a data file for RocksDB to ingest; internal to db/.
//
// RocksDB reads the first and the last key of such a file, and does not expect
// these reads to fail: if the first one fails, it assumes unknown bounds and
// never finds the file's entries again; if the last one fails, it aborts the
// process. So the data of these reads is read in advance and kept.
#ifndef CKPTDB_DB_QUIRKS_INGEST_FILE_H_
#define CKPTDB_DB_QUIRKS_INGEST_FILE_H_

#include <rocksdb/file_system.h>
#include <rocksdb/options.h>

#include <memory>
#include <string>

namespace ckptdb::internal {

// Reads and checks the ends of the table at `path`, and opens the file so that
// reading them again does not access the disk. `table` has the options with
// which the table was written. Two blocks and the index stay in memory until
// the file is closed.
rocksdb::IOStatus OpenIngestFile(
    const std::shared_ptr<rocksdb::FileSystem>& files, const std::string& path,
    const rocksdb::Options& table, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
    rocksdb::IODebugContext* debug);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_QUIRKS_INGEST_FILE_H_
