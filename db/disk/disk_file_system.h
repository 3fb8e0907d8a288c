// SPDX-License-Identifier: Apache-2.0
// The machine's file system, restricted for a store; internal to db/.
//
// Symbolic links are not followed, neither at the end of a path nor within it,
// so that nothing in a store's folder leads out of it: callers pass the
// canonical path of the store (see db/disk/store_path.h). A path is opened
// folder by folder, and files are created, renamed and removed by name in the
// open folder. Only regular files are read and written: a FIFO or a device,
// which could block, is an error instead.
//
//   reading a file, or passing a folder, that is a link   error naming the link
//   creating a file at a link                             replaces the link
//   creating a file at one of several names of a file     removes this name
//
// RocksDB's own classes read and write large files, and open them by path after
// the check here. Whoever changes the folder in between can still make them
// follow a link: docs/security.md.
#ifndef CKPTDB_DB_DISK_DISK_FILE_SYSTEM_H_
#define CKPTDB_DB_DISK_DISK_FILE_SYSTEM_H_

#include <rocksdb/file_system.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ckptdb::internal {

enum class EntryKind {
  kFile,
  kFolder,
  kMountPoint,  // a folder at which another file system begins
  kLink,
  kOther,  // a FIFO, a socket, a device
};

// The entry at a path.
struct Entry {
  EntryKind kind = EntryKind::kFile;
  uint64_t bytes = 0;  // 0 for all but files
  int64_t modified_s = 0;
  // All names of a file have the same device and inode.
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t links = 1;
};

// Returns words for an error, such as "a symbolic link".
const char* EntryKindName(EntryKind kind);

// Thread-safe.
class DiskFileSystem : public rocksdb::FileSystemWrapper {
 public:
  using IOStatus = rocksdb::IOStatus;
  using IOOptions = rocksdb::IOOptions;
  using FileOptions = rocksdb::FileOptions;
  using IODebugContext = rocksdb::IODebugContext;

  // `posix` is RocksDB's file system for the machine.
  explicit DiskFileSystem(const std::shared_ptr<rocksdb::FileSystem>& posix);

  // NOLINTNEXTLINE(readability-identifier-naming): RocksDB's name for it
  static const char* kClassName() { return "ckptdb.DiskFileSystem"; }
  const char* Name() const override { return kClassName(); }

  // Sets `entry` to the entry at the path. Returns PathNotFound if there is
  // none.
  static IOStatus LookAt(const std::string& path, Entry* entry);

  // Like GetChildren, but stops after `limit` names.
  static IOStatus List(const std::string& path, size_t limit,
                       std::vector<std::string>* names);

  IOStatus NewSequentialFile(const std::string& path,
                             const FileOptions& options,
                             std::unique_ptr<rocksdb::FSSequentialFile>* result,
                             IODebugContext* debug) override;
  IOStatus NewRandomAccessFile(
      const std::string& path, const FileOptions& options,
      std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
      IODebugContext* debug) override;
  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           IODebugContext* debug) override;
  IOStatus ReopenWritableFile(const std::string& path,
                              const FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* result,
                              IODebugContext* debug) override;
  IOStatus ReuseWritableFile(const std::string& path,
                             const std::string& old_path,
                             const FileOptions& options,
                             std::unique_ptr<rocksdb::FSWritableFile>* result,
                             IODebugContext* debug) override;
  IOStatus NewRandomRWFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSRandomRWFile>* result,
                           IODebugContext* debug) override;
  IOStatus NewMemoryMappedFileBuffer(
      const std::string& path,
      std::unique_ptr<rocksdb::MemoryMappedFileBuffer>* result) override;
  IOStatus NewDirectory(const std::string& path, const IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* result,
                        IODebugContext* debug) override;
  IOStatus NewLogger(const std::string& path, const IOOptions& options,
                     std::shared_ptr<rocksdb::Logger>* result,
                     IODebugContext* debug) override;

  // Returns OK for a link, too, whatever its target.
  IOStatus FileExists(const std::string& path, const IOOptions& options,
                      IODebugContext* debug) override;
  // Sets false for a link, whatever its target.
  IOStatus IsDirectory(const std::string& path, const IOOptions& options,
                       bool* is_folder, IODebugContext* debug) override;
  IOStatus GetChildren(const std::string& path, const IOOptions& options,
                       std::vector<std::string>* names,
                       IODebugContext* debug) override;
  IOStatus GetChildrenFileAttributes(
      const std::string& path, const IOOptions& options,
      std::vector<rocksdb::FileAttributes>* files,
      IODebugContext* debug) override;
  IOStatus GetFileSize(const std::string& path, const IOOptions& options,
                       uint64_t* bytes, IODebugContext* debug) override;
  IOStatus GetFileModificationTime(const std::string& path,
                                   const IOOptions& options, uint64_t* time_s,
                                   IODebugContext* debug) override;
  IOStatus NumFileLinks(const std::string& path, const IOOptions& options,
                        uint64_t* count, IODebugContext* debug) override;
  IOStatus AreFilesSame(const std::string& first, const std::string& second,
                        const IOOptions& options, bool* same,
                        IODebugContext* debug) override;
  // Returns the space available to unprivileged users, even if called by root.
  IOStatus GetFreeSpace(const std::string& path, const IOOptions& options,
                        uint64_t* bytes, IODebugContext* debug) override;

  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* debug) override;
  IOStatus CreateDir(const std::string& path, const IOOptions& options,
                     IODebugContext* debug) override;
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions& options,
                              IODebugContext* debug) override;
  IOStatus DeleteDir(const std::string& path, const IOOptions& options,
                     IODebugContext* debug) override;
  IOStatus RenameFile(const std::string& from, const std::string& to,
                      const IOOptions& options, IODebugContext* debug) override;
  IOStatus LinkFile(const std::string& from, const std::string& to,
                    const IOOptions& options, IODebugContext* debug) override;
  IOStatus Truncate(const std::string& path, size_t bytes,
                    const IOOptions& options, IODebugContext* debug) override;
  // See db/disk/file_lock.h. A link named LOCK is an error, and stays: two
  // owners that both removed it could each create a separate LOCK.
  IOStatus LockFile(const std::string& path, const IOOptions& options,
                    rocksdb::FileLock** lock, IODebugContext* debug) override;
  IOStatus UnlockFile(rocksdb::FileLock* lock, const IOOptions& options,
                      IODebugContext* debug) override;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_DISK_FILE_SYSTEM_H_
