// A data file as RocksDB reads it when it ingests it; internal to db/.
//
// RocksDB looks for the first and the last key of such a file, and does not
// expect that reading them fails: at the first one it takes the file for one of
// unknown bounds, whose entries are never found again, and at the last one it
// aborts the process. So all that it reads is read before, and kept.
#ifndef CKPTDB_DB_QUIRKS_INGEST_FILE_H_
#define CKPTDB_DB_QUIRKS_INGEST_FILE_H_

#include <rocksdb/file_system.h>
#include <rocksdb/options.h>

#include <memory>
#include <string>

namespace ckptdb::internal {

// Reads the ends of the table at `path`, checks them, and opens the file so
// that reading them again does not touch the disk. `table` has the options that
// the table was written with. Two blocks and the index stay in memory until the
// file is closed.
rocksdb::IOStatus OpenIngestFile(
    const std::shared_ptr<rocksdb::FileSystem>& files, const std::string& path,
    const rocksdb::Options& table, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
    rocksdb::IODebugContext* debug);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_QUIRKS_INGEST_FILE_H_
