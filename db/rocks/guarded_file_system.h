// SPDX-License-Identifier: Apache-2.0
// The file system under a store's database; internal to db/.
//
// Sets the modes of new files, and applies the workarounds in db/quirks/ to
// RocksDB's files. After a failed write or sync of a MANIFEST it refuses to
// delete SST and MANIFEST files: RocksDB unlinks an ingested file if the fsync
// of its MANIFEST record fails, although the record may be on disk; then the
// database would never open again.
#ifndef CKPTDB_DB_ROCKS_GUARDED_FILE_SYSTEM_H_
#define CKPTDB_DB_ROCKS_GUARDED_FILE_SYSTEM_H_

#include <rocksdb/file_system.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/base/mutex.h"
#include "db/disk/file_pool.h"
#include "db/quirks/lazy_tables.h"
#include "db/quirks/manifest_watch.h"

namespace ckptdb::internal {

struct FileModes {
  uint32_t directory = 0700;
  uint32_t file = 0600;
  bool apply = true;  // off for file systems that are not the machine's
};

class GuardedFileSystem : public rocksdb::FileSystemWrapper {
 public:
  GuardedFileSystem(std::shared_ptr<rocksdb::FileSystem> base, FileModes modes);

  // Tables below this folder are opened for ingestion: see
  // db/quirks/ingest_file.h. Must be called before the database is opened.
  // Default: none.
  void set_staging(std::string folder) { staging_ = std::move(folder) + "/"; }
  // Makes scans of tables bypass the page cache. Must be called before the
  // database is opened. Default: off.
  void set_direct_reads(bool direct) { direct_reads_ = direct; }
  // Makes listings of `folder` include these tables although they may be
  // missing. Must be called before the database is opened. Default: none.
  void set_corrupt_tables(std::string folder, CorruptTables names) {
    corrupt_folder_ = std::move(folder);
    corrupt_tables_ = std::move(names);
  }
  // Limits how many of the tables opened after PoolTables are open at a time.
  // Must be called before the database is opened.
  void set_most_pooled(size_t most_open) {
    pool_ = std::make_shared<FilePool>(most_open);
  }
  // Call once the database is open: tables that are already open stay open, and
  // those opened later may be closed while nothing reads them.
  void PoolTables() { pooling_ = true; }
  // Opens the table at `path` and keeps it open, so that it can be read after
  // it was removed. Returns Corruption like CheckTableTail.
  rocksdb::IOStatus KeepTableOpen(const std::string& path);
  // Returns the durable part of the MANIFEST.
  ManifestState manifest() const { return manifest_->Synced(); }
  // Call once the database is open, so that CURRENT names its MANIFEST.
  void NoteManifestNamed() { manifest_->Named(); }

  const char* Name() const override { return "ckptdb.GuardedFileSystem"; }

  rocksdb::IOStatus NewRandomAccessFile(
      const std::string& path, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
      rocksdb::IODebugContext* debug) override;

  rocksdb::IOStatus GetChildren(const std::string& path,
                                const rocksdb::IOOptions& options,
                                std::vector<std::string>* names,
                                rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewWritableFile(
      const std::string& path, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSWritableFile>* result,
      rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus CreateDir(const std::string& path,
                              const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus CreateDirIfMissing(const std::string& path,
                                       const rocksdb::IOOptions& options,
                                       rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteFile(const std::string& path,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus LockFile(const std::string& path,
                             const rocksdb::IOOptions& options,
                             rocksdb::FileLock** lock,
                             rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus UnlockFile(rocksdb::FileLock* lock,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  // Releases the lock of a database that is never closed.
  void ReleaseLock();
  rocksdb::IOStatus NewLogger(const std::string& path,
                              const rocksdb::IOOptions& options,
                              std::shared_ptr<rocksdb::Logger>* result,
                              rocksdb::IODebugContext* debug) override;

 private:
  rocksdb::IOStatus SetMode(const std::string& path, uint32_t mode) const;
  rocksdb::IOStatus OpenTable(
      const std::string& path, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
      rocksdb::IODebugContext* debug);
  std::unique_ptr<rocksdb::FSRandomAccessFile> Pool(
      const std::string& path, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSRandomAccessFile> open) const;
  std::unique_ptr<rocksdb::FSRandomAccessFile> OpenDirect(
      const std::string& path, rocksdb::FileOptions options) const;

  const std::shared_ptr<rocksdb::FileSystem> base_;
  const FileModes modes_;
  std::string staging_;
  bool direct_reads_ = false;
  std::shared_ptr<FilePool> pool_ = std::make_shared<FilePool>(1);
  std::atomic<bool> pooling_ = false;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<rocksdb::FSRandomAccessFile>> kept_
      ABSL_GUARDED_BY(mutex_);  // by path
  std::string corrupt_folder_;
  CorruptTables corrupt_tables_;
  std::atomic<rocksdb::FileLock*> lock_ = nullptr;  // the database's, if held
  // Shared with the open MANIFEST files.
  const std::shared_ptr<ManifestWatch> manifest_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_GUARDED_FILE_SYSTEM_H_
