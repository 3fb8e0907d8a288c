// SPDX-License-Identifier: Apache-2.0
#include "db/rocks/guarded_file_system.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "db/disk/direct_write_file.h"
#include "db/quirks/file_names.h"
#include "db/quirks/ingest_file.h"
#include "db/quirks/read_window.h"
#include "db/quirks/table_tail.h"
#include "db/rocks/rocks_options.h"

namespace ckptdb::internal {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

// Returns whether the file is a table, which a MANIFEST may name, or a
// MANIFEST.
bool IsTableOrManifest(const std::string& path) {
  return IsTable(path) || ManifestNumber(FileName(path)).has_value();
}

// A file that stays open when this object is destroyed.
class KeptFile : public rocksdb::FSRandomAccessFileWrapper {
 public:
  explicit KeptFile(std::shared_ptr<rocksdb::FSRandomAccessFile> file)
      : FSRandomAccessFileWrapper(file.get()), file_(std::move(file)) {}

 private:
  const std::shared_ptr<rocksdb::FSRandomAccessFile> file_;
};

}  // namespace

GuardedFileSystem::GuardedFileSystem(std::shared_ptr<rocksdb::FileSystem> base,
                                     FileModes modes)
    : FileSystemWrapper(base),
      base_(std::move(base)),
      modes_(modes),
      manifest_(std::make_shared<ManifestWatch>()) {}

IOStatus GuardedFileSystem::SetMode(const std::string& path,
                                    uint32_t mode) const {
  if (!modes_.apply) return IOStatus::OK();
  // Another user of the group may own the file, and only the file's owner may
  // call chmod, even for the same mode.
  constexpr mode_t kModeBits = 07777;
  struct stat found {};
  const bool known = ::lstat(path.c_str(), &found) == 0;
  if (known && (found.st_mode & kModeBits) == mode) return IOStatus::OK();
  // The mode is set after the file was created, because the umask reduces the
  // mode of a new file.
  if (::chmod(path.c_str(), mode) == 0) return IOStatus::OK();
  return IOStatus::IOError("chmod " + path, std::strerror(errno));
}

std::unique_ptr<rocksdb::FSRandomAccessFile> GuardedFileSystem::Pool(
    const std::string& path, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSRandomAccessFile> open) const {
  return pool_->Add(
      std::move(open),
      [files = base_, path,
       options](std::unique_ptr<rocksdb::FSRandomAccessFile>* opened) {
        return files->NewRandomAccessFile(path, options, opened, nullptr);
      });
}

IOStatus GuardedFileSystem::OpenTable(
    const std::string& path, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
    IODebugContext* debug) {
  {
    const MutexLock lock(&mutex_);
    const auto kept = kept_.find(path);
    if (kept != kept_.end()) {
      *result = std::make_unique<KeptFile>(kept->second);
      return IOStatus::OK();
    }
  }
  IOStatus status = target()->NewRandomAccessFile(path, options, result, debug);
  if (status.ok() && pooling_) {
    *result = Pool(path, options, std::move(*result));
  }
  return status;
}

IOStatus GuardedFileSystem::KeepTableOpen(const std::string& path) {
  std::unique_ptr<rocksdb::FSRandomAccessFile> file;
  IOStatus status = target()->NewRandomAccessFile(path, rocksdb::FileOptions(),
                                                  &file, nullptr);
  uint64_t bytes = 0;
  if (status.ok()) {
    status = target()->GetFileSize(path, IOOptions(), &bytes, nullptr);
  }
  if (status.ok()) status = CheckTableTail(path, *file, bytes);
  if (!status.ok()) return status;
  const MutexLock lock(&mutex_);
  kept_.emplace(path, std::move(file));
  return status;
}

// Returns null if the file system does not support direct reads.
std::unique_ptr<rocksdb::FSRandomAccessFile> GuardedFileSystem::OpenDirect(
    const std::string& path, rocksdb::FileOptions options) const {
  options.use_direct_reads = true;
  std::unique_ptr<rocksdb::FSRandomAccessFile> direct;
  const IOStatus status =
      base_->NewRandomAccessFile(path, options, &direct, nullptr);
  if (!status.ok()) return nullptr;
  return Pool(path, options, std::move(direct));
}

IOStatus GuardedFileSystem::NewRandomAccessFile(
    const std::string& path, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
    IODebugContext* debug) {
  // The parts of a staged file that an ingestion reads are read in advance,
  // because an error in RocksDB's own read would lose entries (line 21 of
  // docs/rocksdb.md).
  if (!staging_.empty() && absl::StartsWith(path, staging_)) {
    return OpenIngestFile(base_, path, FileWriterOptions(/*env=*/nullptr),
                          options, result, debug);
  }
  // The error names the missing table, not the older name that RocksDB looked
  // for next.
  const std::optional<std::string> missing = TableOfLevelDbName(path);
  if (missing.has_value()) {
    return IOStatus::PathNotFound(*missing, "no such file");
  }
  if (!IsTable(path)) {
    return target()->NewRandomAccessFile(path, options, result, debug);
  }
  IOStatus status = OpenTable(path, options, result, debug);
  if (!status.ok()) return status;
  uint64_t bytes = 0;
  // RocksDB requests the size as well, and reports the error.
  if (!target()->GetFileSize(path, IOOptions(), &bytes, debug).ok()) {
    return status;
  }
  // The checks precede RocksDB's reads of the file, because some damage of the
  // properties would end the process (line 10 of docs/rocksdb.md).
  status = CheckTableTail(path, **result, bytes);
  if (!status.ok()) return status;
  DirectOpener direct;
  if (direct_reads_) {
    direct = [this, path, options] { return OpenDirect(path, options); };
  }
  *result = NewWindowedFile(std::move(*result), std::move(direct));
  // The size is compared in the outermost wrapper, which receives the Prefetch
  // with the expected size (line 11 of docs/rocksdb.md).
  *result = NewSizedTable(path, bytes, std::move(*result));
  return status;
}

IOStatus GuardedFileSystem::GetChildren(const std::string& path,
                                        const IOOptions& options,
                                        std::vector<std::string>* names,
                                        IODebugContext* debug) {
  IOStatus status = target()->GetChildren(path, options, names, debug);
  if (!status.ok() || path != corrupt_folder_) return status;
  // RocksDB does not open a database whose MANIFEST names a table that a
  // listing lacks (line 9 of docs/rocksdb.md).
  CorruptTables missing = corrupt_tables_;
  for (const std::string& name : *names) missing.erase(name);
  names->insert(names->end(), missing.begin(), missing.end());
  return status;
}

IOStatus GuardedFileSystem::NewWritableFile(
    const std::string& path, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* debug) {
  IOStatus status = target()->NewWritableFile(path, options, result, debug);
  if (status.ok()) status = SetMode(path, modes_.file);
  // The buffer size distinguishes the data files of saves from all other files,
  // which RocksDB writes unchanged (line 31 of docs/rocksdb.md). Without huge
  // pages they stay unchanged, too.
  if (status.ok() && options.use_direct_writes &&
      options.writable_file_max_buffer_size == kGatheredBytes) {
    auto file = NewDirectWriteFile(result);
    if (file != nullptr) *result = std::move(file);
  }
  const std::optional<uint64_t> number = ManifestNumber(FileName(path));
  if (status.ok() && number.has_value()) {
    *result = WatchManifest(std::move(*result), *number, manifest_);
  }
  return status;
}

IOStatus GuardedFileSystem::CreateDir(const std::string& path,
                                      const IOOptions& options,
                                      IODebugContext* debug) {
  IOStatus status = target()->CreateDir(path, options, debug);
  return status.ok() ? SetMode(path, modes_.directory) : status;
}

IOStatus GuardedFileSystem::CreateDirIfMissing(const std::string& path,
                                               const IOOptions& options,
                                               IODebugContext* debug) {
  // An existing folder keeps its mode, which its owner may have changed.
  const bool existed = target()->FileExists(path, options, debug).ok();
  IOStatus status = target()->CreateDirIfMissing(path, options, debug);
  if (existed || !status.ok()) return status;
  return SetMode(path, modes_.directory);
}

IOStatus GuardedFileSystem::DeleteFile(const std::string& path,
                                       const IOOptions& options,
                                       IODebugContext* debug) {
  // After a failed sync the record may still be on disk, and the next open
  // needs the files that it names (line 15 of docs/rocksdb.md).
  if (manifest_->failed() && IsTableOrManifest(path)) {
    return IOStatus::IOError(
        "the file is kept, because a MANIFEST that could not be written may "
        "need it",
        path);
  }
  return target()->DeleteFile(path, options, debug);
}

IOStatus GuardedFileSystem::LockFile(const std::string& path,
                                     const IOOptions& options,
                                     rocksdb::FileLock** lock,
                                     IODebugContext* debug) {
  IOStatus status = target()->LockFile(path, options, lock, debug);
  if (!status.ok()) return status;
  lock_ = *lock;
  // The file may have existed before, and its other names do not belong to the
  // store.
  uint64_t names = 0;
  if (!NumFileLinks(path, options, &names, debug).ok() || names != 1) {
    return status;
  }
  return SetMode(path, modes_.file);
}

IOStatus GuardedFileSystem::UnlockFile(rocksdb::FileLock* lock,
                                       const IOOptions& options,
                                       IODebugContext* debug) {
  lock_ = nullptr;
  return target()->UnlockFile(lock, options, debug);
}

void GuardedFileSystem::ReleaseLock() {
  rocksdb::FileLock* const lock = lock_.exchange(nullptr);
  if (lock == nullptr) return;
  target()->UnlockFile(lock, IOOptions(), nullptr).PermitUncheckedError();
}

IOStatus GuardedFileSystem::NewLogger(const std::string& path,
                                      const IOOptions& options,
                                      std::shared_ptr<rocksdb::Logger>* result,
                                      IODebugContext* debug) {
  IOStatus status = target()->NewLogger(path, options, result, debug);
  return status.ok() ? SetMode(path, modes_.file) : status;
}

}  // namespace ckptdb::internal
