// SPDX-License-Identifier: Apache-2.0
// The file system of an owner, which refuses changes once another owner has
// taken over, or the database's files were removed or replaced; internal to
// db/.
//
// RocksDB deletes files when it closes a database, and its compactions write
// and delete at any time. On a file system that grants every lock, an owner
// that was superseded would delete its successor's files.
#ifndef CKPTDB_DB_ROCKS_FENCED_FILE_SYSTEM_H_
#define CKPTDB_DB_ROCKS_FENCED_FILE_SYSTEM_H_

#include <rocksdb/file_system.h>

#include <memory>
#include <string>
#include <utility>

#include "db/rocks/owner_lock.h"

namespace ckptdb::internal {

// Once OwnerLock::Check fails, each call that creates, removes or renames
// anything, and each write to a MANIFEST, returns IOError without effect. Other
// existing files may still be written to: nobody reads the added data, because
// the next owner has begun new files.
class FencedFileSystem : public rocksdb::FileSystemWrapper {
 public:
  FencedFileSystem(const std::shared_ptr<rocksdb::FileSystem>& base,
                   std::shared_ptr<const OwnerLock> lock)
      : FileSystemWrapper(base), lock_(std::move(lock)) {}

  const char* Name() const override { return "ckptdb.FencedFileSystem"; }

  rocksdb::IOStatus NewWritableFile(
      const std::string& path, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSWritableFile>* result,
      rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus ReopenWritableFile(
      const std::string& path, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSWritableFile>* result,
      rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus ReuseWritableFile(
      const std::string& path, const std::string& old_path,
      const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSWritableFile>* result,
      rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewRandomRWFile(
      const std::string& path, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSRandomRWFile>* result,
      rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteFile(const std::string& path,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus Truncate(const std::string& path, size_t bytes,
                             const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus CreateDir(const std::string& path,
                              const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus CreateDirIfMissing(const std::string& path,
                                       const rocksdb::IOOptions& options,
                                       rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteDir(const std::string& path,
                              const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus LinkFile(const std::string& from, const std::string& to,
                             const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override;

 private:
  const std::shared_ptr<const OwnerLock> lock_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_FENCED_FILE_SYSTEM_H_
