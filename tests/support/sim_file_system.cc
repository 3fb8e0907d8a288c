// SPDX-License-Identifier: Apache-2.0
#include "tests/support/sim_file_system.h"

#include <cstdarg>
#include <utility>

#include "tests/support/sim_files.h"

namespace ckptdb::testing {
namespace {

using rocksdb::IOStatus;
using Handle = SimVolume::Handle;

struct Lock : public rocksdb::FileLock {
  explicit Lock(std::string locked) : path(std::move(locked)) {}
  std::string path;
};

class SilentLogger : public rocksdb::Logger {
 public:
  ~SilentLogger() override { Close().PermitUncheckedError(); }
  using rocksdb::Logger::Logv;
  size_t GetLogFileSize() const override { return 0; }
  void Logv(const char*, va_list) override {}

 protected:
  rocksdb::Status CloseImpl() override { return rocksdb::Status::OK(); }
};

}  // namespace

SimFileSystem::SimFileSystem(SimFileSystemOptions options)
    : SimFileSystem(
          std::make_shared<SimVolume>(SimDisk(options.durable_mkdir))) {}

SimFileSystem::SimFileSystem(std::shared_ptr<SimVolume> volume)
    : volume_(std::move(volume)) {}

std::shared_ptr<SimFileSystem> SimFileSystem::CrashAfter(
    size_t k, PowerLoss variant) const {
  return std::make_shared<SimFileSystem>(volume_->CrashAfter(k, variant));
}

bool SimFileSystem::FlipBit(const std::string& path, uint64_t byte, int bit) {
  std::optional<std::string> bytes = ReadAll(path);
  if (!bytes.has_value() || byte >= bytes->size()) return false;
  (*bytes)[byte] = static_cast<char>((*bytes)[byte] ^ (1 << (bit & 7)));
  return WriteAll(path, *std::move(bytes));
}

IOStatus SimFileSystem::NewSequentialFile(
    const std::string& path, const FileOptions& options,
    std::unique_ptr<rocksdb::FSSequentialFile>* result, IODebugContext*) {
  Handle handle;
  IOStatus status = volume_->OpenForRead(path, &handle);
  if (!status.ok()) return status;
  *result = NewSimSequentialFile(volume_, handle, options.use_direct_reads);
  return status;
}

IOStatus SimFileSystem::NewRandomAccessFile(
    const std::string& path, const FileOptions& options,
    std::unique_ptr<rocksdb::FSRandomAccessFile>* result, IODebugContext*) {
  Handle handle;
  IOStatus status = volume_->OpenForRead(path, &handle);
  if (!status.ok()) return status;
  *result = NewSimRandomAccessFile(volume_, handle, options.use_direct_reads);
  return status;
}

IOStatus SimFileSystem::NewWritableFile(
    const std::string& path, const FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext*) {
  Handle handle;
  IOStatus status = volume_->OpenForWrite(path, /*truncate=*/true, &handle);
  if (!status.ok()) return status;
  *result = NewSimWritableFile(volume_, handle, options, /*position=*/0);
  return status;
}

IOStatus SimFileSystem::ReopenWritableFile(
    const std::string& path, const FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext*) {
  Handle handle;
  IOStatus status = volume_->OpenForWrite(path, /*truncate=*/false, &handle);
  if (!status.ok()) return status;
  *result = NewSimWritableFile(volume_, handle, options, handle.size_bytes);
  return status;
}

IOStatus SimFileSystem::ReuseWritableFile(
    const std::string& path, const std::string& old_path,
    const FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext*) {
  IOStatus status = volume_->Rename(old_path, path);
  if (!status.ok()) return status;
  Handle handle;
  status = volume_->OpenForWrite(path, /*truncate=*/false, &handle);
  if (!status.ok()) return status;
  *result = NewSimWritableFile(volume_, handle, options, /*position=*/0);
  return status;
}

IOStatus SimFileSystem::NewRandomRWFile(
    const std::string& path, const FileOptions&,
    std::unique_ptr<rocksdb::FSRandomRWFile>* result, IODebugContext*) {
  // Like POSIX: the file must exist.
  Handle handle;
  IOStatus status = volume_->OpenForRead(path, &handle);
  if (!status.ok()) return status;
  *result = NewSimRandomRWFile(volume_, handle);
  return status;
}

IOStatus SimFileSystem::NewDirectory(
    const std::string& path, const IOOptions&,
    std::unique_ptr<rocksdb::FSDirectory>* result, IODebugContext*) {
  Handle handle;
  IOStatus status = volume_->OpenFolder(path, &handle);
  if (!status.ok()) return status;
  *result = NewSimDirectory(volume_, handle);
  return status;
}

IOStatus SimFileSystem::FileExists(const std::string& path, const IOOptions&,
                                   IODebugContext*) {
  SimVolume::Stat stat;
  IOStatus status = volume_->GetStat(path, &stat);
  return status.IsPathNotFound() ? IOStatus::NotFound(path) : status;
}

IOStatus SimFileSystem::GetChildren(const std::string& path, const IOOptions&,
                                    std::vector<std::string>* result,
                                    IODebugContext*) {
  return volume_->List(path, result);
}

IOStatus SimFileSystem::DeleteFile(const std::string& path, const IOOptions&,
                                   IODebugContext*) {
  return volume_->Remove(path);
}

IOStatus SimFileSystem::Truncate(const std::string& path, size_t size,
                                 const IOOptions&, IODebugContext*) {
  Handle handle;
  IOStatus status = volume_->OpenForRead(path, &handle);
  if (!status.ok()) return status;
  const SimHandle closer(volume_, handle);
  return volume_->Truncate(handle, size);
}

IOStatus SimFileSystem::CreateDir(const std::string& path, const IOOptions&,
                                  IODebugContext*) {
  return volume_->MakeFolder(path, /*existing_is_ok=*/false);
}

IOStatus SimFileSystem::CreateDirIfMissing(const std::string& path,
                                           const IOOptions&, IODebugContext*) {
  return volume_->MakeFolder(path, /*existing_is_ok=*/true);
}

IOStatus SimFileSystem::DeleteDir(const std::string& path, const IOOptions&,
                                  IODebugContext*) {
  return volume_->RemoveFolder(path);
}

IOStatus SimFileSystem::GetFileSize(const std::string& path, const IOOptions&,
                                    uint64_t* size, IODebugContext*) {
  SimVolume::Stat stat;
  IOStatus status = volume_->GetStat(path, &stat);
  *size = stat.size_bytes;
  return status;
}

IOStatus SimFileSystem::GetFileModificationTime(const std::string& path,
                                                const IOOptions&,
                                                uint64_t* time_s,
                                                IODebugContext*) {
  SimVolume::Stat stat;
  IOStatus status = volume_->GetStat(path, &stat);
  *time_s = stat.time_s;
  return status;
}

IOStatus SimFileSystem::RenameFile(const std::string& from,
                                   const std::string& to, const IOOptions&,
                                   IODebugContext*) {
  return volume_->Rename(from, to);
}

IOStatus SimFileSystem::LinkFile(const std::string& from, const std::string& to,
                                 const IOOptions&, IODebugContext*) {
  return volume_->Link(from, to);
}

IOStatus SimFileSystem::NumFileLinks(const std::string& path, const IOOptions&,
                                     uint64_t* count, IODebugContext*) {
  SimVolume::Stat stat;
  IOStatus status = volume_->GetStat(path, &stat);
  *count = stat.links;
  return status;
}

IOStatus SimFileSystem::AreFilesSame(const std::string& first,
                                     const std::string& second,
                                     const IOOptions&, bool* same,
                                     IODebugContext*) {
  SimVolume::Stat a;
  SimVolume::Stat b;
  IOStatus status = volume_->GetStat(first, &a);
  if (status.ok()) status = volume_->GetStat(second, &b);
  *same = status.ok() && a.inode == b.inode;
  return status;
}

IOStatus SimFileSystem::LockFile(const std::string& path, const IOOptions&,
                                 rocksdb::FileLock** lock, IODebugContext*) {
  *lock = nullptr;
  IOStatus status = volume_->Lock(path);
  if (status.ok()) *lock = new Lock(path);
  return status;
}

IOStatus SimFileSystem::UnlockFile(rocksdb::FileLock* lock, const IOOptions&,
                                   IODebugContext*) {
  const std::unique_ptr<Lock> held(static_cast<Lock*>(lock));
  volume_->Unlock(held->path);
  return IOStatus::OK();
}

IOStatus SimFileSystem::GetTestDirectory(const IOOptions&, std::string* path,
                                         IODebugContext*) {
  *path = "/test";
  return volume_->MakeFolder(*path, /*existing_is_ok=*/true);
}

IOStatus SimFileSystem::NewLogger(const std::string&, const IOOptions&,
                                  std::shared_ptr<rocksdb::Logger>* result,
                                  IODebugContext*) {
  *result = std::make_shared<SilentLogger>();
  return IOStatus::OK();
}

IOStatus SimFileSystem::GetAbsolutePath(const std::string& path,
                                        const IOOptions&, std::string* absolute,
                                        IODebugContext*) {
  *absolute = !path.empty() && path[0] == '/' ? path : "/" + path;
  return IOStatus::OK();
}

IOStatus SimFileSystem::GetFreeSpace(const std::string&, const IOOptions&,
                                     uint64_t* bytes, IODebugContext*) {
  return volume_->FreeSpace(bytes);
}

IOStatus SimFileSystem::IsDirectory(const std::string& path, const IOOptions&,
                                    bool* is_folder, IODebugContext*) {
  SimVolume::Stat stat;
  IOStatus status = volume_->GetStat(path, &stat);
  *is_folder = stat.is_folder;
  return status;
}

}  // namespace ckptdb::testing
