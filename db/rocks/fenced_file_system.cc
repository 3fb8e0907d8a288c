// SPDX-License-Identifier: Apache-2.0
#include "db/rocks/fenced_file_system.h"

#include <utility>

#include "db/quirks/file_names.h"

namespace ckptdb::internal {
namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

bool IsManifest(const std::string& path) {
  return ManifestNumber(FileName(path)).has_value();
}

// RocksDB expects I/O errors from a file system, and stops using the database
// after one.
IOStatus CheckLock(const OwnerLock& lock, const std::string& path) {
  const absl::Status status = lock.Check();
  if (status.ok()) return IOStatus::OK();
  return IOStatus::IOError(path, std::string(status.message()));
}

// A MANIFEST, which checks the lock again before each record.
class FencedFile : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FencedFile(std::unique_ptr<rocksdb::FSWritableFile> file, std::string path,
             std::shared_ptr<const OwnerLock> lock)
      : FSWritableFileOwnerWrapper(std::move(file)),
        path_(std::move(path)),
        lock_(std::move(lock)) {}

  IOStatus Append(const rocksdb::Slice& bytes, const IOOptions& options,
                  IODebugContext* debug) override {
    IOStatus status = CheckLock(*lock_, path_);
    return status.ok() ? target()->Append(bytes, options, debug) : status;
  }
  IOStatus Append(const rocksdb::Slice& bytes, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& verification,
                  IODebugContext* debug) override {
    IOStatus status = CheckLock(*lock_, path_);
    if (!status.ok()) return status;
    return target()->Append(bytes, options, verification, debug);
  }

 private:
  const std::string path_;
  const std::shared_ptr<const OwnerLock> lock_;
};

}  // namespace

IOStatus FencedFileSystem::NewWritableFile(
    const std::string& path, const FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* debug) {
  IOStatus status = CheckLock(*lock_, path);
  if (!status.ok()) return status;
  status = target()->NewWritableFile(path, options, result, debug);
  // Only a MANIFEST is checked before each record. The next owner's logs and
  // tables have other names, so writes to this owner's do no harm, and a check
  // of each would cost a read.
  if (!status.ok() || !IsManifest(path)) return status;
  *result = std::make_unique<FencedFile>(std::move(*result), path, lock_);
  const absl::Status created = lock_->manifest()->Created(path);
  if (created.ok()) return status;
  return IOStatus::IOError(path, std::string(created.message()));
}

IOStatus FencedFileSystem::ReopenWritableFile(
    const std::string& path, const FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* debug) {
  IOStatus status = CheckLock(*lock_, path);
  if (!status.ok()) return status;
  return target()->ReopenWritableFile(path, options, result, debug);
}

IOStatus FencedFileSystem::ReuseWritableFile(
    const std::string& path, const std::string& old_path,
    const FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* debug) {
  IOStatus status = CheckLock(*lock_, path);
  if (!status.ok()) return status;
  return target()->ReuseWritableFile(path, old_path, options, result, debug);
}

IOStatus FencedFileSystem::NewRandomRWFile(
    const std::string& path, const FileOptions& options,
    std::unique_ptr<rocksdb::FSRandomRWFile>* result, IODebugContext* debug) {
  IOStatus status = CheckLock(*lock_, path);
  if (!status.ok()) return status;
  return target()->NewRandomRWFile(path, options, result, debug);
}

IOStatus FencedFileSystem::DeleteFile(const std::string& path,
                                      const IOOptions& options,
                                      IODebugContext* debug) {
  IOStatus status = CheckLock(*lock_, path);
  if (!status.ok()) return status;
  if (IsManifest(path)) lock_->manifest()->Removing(path);
  return target()->DeleteFile(path, options, debug);
}

IOStatus FencedFileSystem::Truncate(const std::string& path, size_t bytes,
                                    const IOOptions& options,
                                    IODebugContext* debug) {
  IOStatus status = CheckLock(*lock_, path);
  return status.ok() ? target()->Truncate(path, bytes, options, debug) : status;
}

IOStatus FencedFileSystem::CreateDir(const std::string& path,
                                     const IOOptions& options,
                                     IODebugContext* debug) {
  IOStatus status = CheckLock(*lock_, path);
  return status.ok() ? target()->CreateDir(path, options, debug) : status;
}

IOStatus FencedFileSystem::CreateDirIfMissing(const std::string& path,
                                              const IOOptions& options,
                                              IODebugContext* debug) {
  IOStatus status = CheckLock(*lock_, path);
  if (!status.ok()) return status;
  return target()->CreateDirIfMissing(path, options, debug);
}

IOStatus FencedFileSystem::DeleteDir(const std::string& path,
                                     const IOOptions& options,
                                     IODebugContext* debug) {
  IOStatus status = CheckLock(*lock_, path);
  return status.ok() ? target()->DeleteDir(path, options, debug) : status;
}

IOStatus FencedFileSystem::RenameFile(const std::string& from,
                                      const std::string& to,
                                      const IOOptions& options,
                                      IODebugContext* debug) {
  IOStatus status = CheckLock(*lock_, to);
  if (status.ok()) status = target()->RenameFile(from, to, options, debug);
  if (status.ok() && FileName(to) == "CURRENT") lock_->manifest()->Named();
  return status;
}

IOStatus FencedFileSystem::LinkFile(const std::string& from,
                                    const std::string& to,
                                    const IOOptions& options,
                                    IODebugContext* debug) {
  IOStatus status = CheckLock(*lock_, to);
  return status.ok() ? target()->LinkFile(from, to, options, debug) : status;
}

}  // namespace ckptdb::internal
