#include "ckptdb/db/rocks/guarded_file_system.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ckptdb/db/disk/direct_write_file.h"
#include "ckptdb/db/disk/read_window.h"
#include "ckptdb/db/disk/rocks_status.h"
#include "ckptdb/db/rocks/ingest_file.h"
#include "ckptdb/db/rocks/table_tail.h"

namespace ckptdb::internal {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

std::optional<uint64_t> NumberOf(const std::string& path) {
  return ManifestNumber(absl::string_view(path).substr(path.rfind('/') + 1));
}

constexpr absl::string_view kTableSuffix = ".sst";
// Of tables of LevelDB, for which RocksDB looks when one of its own is gone.
constexpr absl::string_view kOldTableSuffix = ".ldb";

bool IsTable(const std::string& path) {
  return absl::EndsWith(path, kTableSuffix);
}

bool IsPrecious(const std::string& path) {
  return NumberOf(path).has_value() || IsTable(path);
}

// Where the file system cannot, the file is read as any other.
std::unique_ptr<rocksdb::FSRandomAccessFile> OpenDirect(
    rocksdb::FileSystem* files, const std::string& path,
    rocksdb::FileOptions options) {
  options.use_direct_reads = true;
  std::unique_ptr<rocksdb::FSRandomAccessFile> direct;
  const IOStatus status =
      files->NewRandomAccessFile(path, options, &direct, nullptr);
  return status.ok() ? std::move(direct) : nullptr;
}

// A MANIFEST that is followed as it is written.
class WatchedFile : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  WatchedFile(std::unique_ptr<rocksdb::FSWritableFile> file, uint64_t number,
              std::shared_ptr<ManifestWatch> watch)
      : FSWritableFileOwnerWrapper(std::move(file)),
        number_(number),
        watch_(std::move(watch)) {
    watch_->Start(number_);
  }

  IOStatus Append(const rocksdb::Slice& bytes, const IOOptions& options,
                  IODebugContext* debug) override {
    return Appended(bytes, target()->Append(bytes, options, debug));
  }
  IOStatus Append(const rocksdb::Slice& bytes, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& verification,
                  IODebugContext* debug) override {
    return Appended(bytes,
                    target()->Append(bytes, options, verification, debug));
  }
  IOStatus Flush(const IOOptions& options, IODebugContext* debug) override {
    return Watch(target()->Flush(options, debug));
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return Synced(target()->Sync(options, debug));
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Synced(target()->Fsync(options, debug));
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    return Watch(target()->Close(options, debug));
  }

 private:
  IOStatus Appended(const rocksdb::Slice& bytes, IOStatus status) {
    if (status.ok()) watch_->Append(number_, FromSlice(bytes));
    return Watch(std::move(status));
  }
  IOStatus Synced(IOStatus status) {
    if (status.ok()) watch_->Sync(number_);
    return Watch(std::move(status));
  }
  IOStatus Watch(IOStatus status) {
    if (!status.ok()) watch_->Fail();
    return status;
  }

  const uint64_t number_;
  const std::shared_ptr<ManifestWatch> watch_;
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
  if (!modes_.apply || ::chmod(path.c_str(), mode) == 0) return IOStatus::OK();
  return IOStatus::IOError("chmod " + path, std::strerror(errno));
}

IOStatus GuardedFileSystem::NewRandomAccessFile(
    const std::string& path, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
    IODebugContext* debug) {
  if (!staging_.empty() && absl::StartsWith(path, staging_)) {
    return OpenIngestFile(base_, path, options, result, debug);
  }
  if (absl::EndsWith(path, kOldTableSuffix)) {
    return IOStatus::PathNotFound(
        absl::StrCat(absl::StripSuffix(path, kOldTableSuffix), kTableSuffix),
        "no such file");
  }
  IOStatus status = target()->NewRandomAccessFile(path, options, result, debug);
  if (!status.ok() || !IsTable(path)) return status;
  uint64_t bytes = 0;
  // RocksDB asks for it as well, and reports what is wrong.
  if (!target()->GetFileSize(path, IOOptions(), &bytes, debug).ok()) {
    return status;
  }
  status = CheckTableTail(path, **result, bytes);
  if (!status.ok()) return status;
  DirectOpener direct;
  if (direct_reads_) {
    direct = [files = base_, path, options] {
      return OpenDirect(files.get(), path, options);
    };
  }
  *result = NewWindowedFile(std::move(*result), std::move(direct));
  *result = NewSizedTable(path, bytes, std::move(*result));
  return status;
}

IOStatus GuardedFileSystem::GetChildren(const std::string& path,
                                        const IOOptions& options,
                                        std::vector<std::string>* names,
                                        IODebugContext* debug) {
  IOStatus status = target()->GetChildren(path, options, names, debug);
  if (!status.ok() || path != lost_folder_) return status;
  BadTables lost = lost_tables_;
  for (const std::string& name : *names) lost.erase(name);
  names->insert(names->end(), lost.begin(), lost.end());
  return status;
}

IOStatus GuardedFileSystem::NewWritableFile(
    const std::string& path, const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* debug) {
  IOStatus status = target()->NewWritableFile(path, options, result, debug);
  if (status.ok()) status = SetMode(path, modes_.file);
  if (status.ok() && options.use_direct_writes &&
      options.writable_file_max_buffer_size == kGatheredBytes) {
    auto file = NewDirectWriteFile(result);
    if (file != nullptr) *result = std::move(file);
  }
  const std::optional<uint64_t> number = NumberOf(path);
  if (status.ok() && number.has_value()) {
    *result =
        std::make_unique<WatchedFile>(std::move(*result), *number, manifest_);
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
  const bool existed = target()->FileExists(path, options, debug).ok();
  IOStatus status = target()->CreateDirIfMissing(path, options, debug);
  if (existed || !status.ok()) return status;
  return SetMode(path, modes_.directory);
}

IOStatus GuardedFileSystem::DeleteFile(const std::string& path,
                                       const IOOptions& options,
                                       IODebugContext* debug) {
  if (manifest_->failed() && IsPrecious(path)) {
    return IOStatus::IOError("kept, as the MANIFEST may need it", path);
  }
  return target()->DeleteFile(path, options, debug);
}

IOStatus GuardedFileSystem::LockFile(const std::string& path,
                                     const IOOptions& options,
                                     rocksdb::FileLock** lock,
                                     IODebugContext* debug) {
  IOStatus status = target()->LockFile(path, options, lock, debug);
  if (!status.ok()) return status;
  // It may have been there, and its other name may be anybody's.
  uint64_t names = 0;
  if (!NumFileLinks(path, options, &names, debug).ok() || names != 1) {
    return status;
  }
  return SetMode(path, modes_.file);
}

IOStatus GuardedFileSystem::NewLogger(const std::string& path,
                                      const IOOptions& options,
                                      std::shared_ptr<rocksdb::Logger>* result,
                                      IODebugContext* debug) {
  IOStatus status = target()->NewLogger(path, options, result, debug);
  return status.ok() ? SetMode(path, modes_.file) : status;
}

}  // namespace ckptdb::internal
