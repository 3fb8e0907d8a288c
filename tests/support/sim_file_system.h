// SPDX-License-Identifier: Apache-2.0
// An in-memory rocksdb::FileSystem for crash, fault and corruption tests.
//
//   auto fs = std::make_shared<SimFileSystem>();
//   std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(fs);
//   ... run a workload on env ...
//   for (size_t k = 0; k <= fs->operations(); ++k) {
//     auto image = fs->CrashAfter(k, PowerLoss::kDropBoth);
//     if (!seen.insert(image->ImageDigest()).second) continue;
//     ... reopen on image, check ...
//   }
//
// sim_disk.h describes the fault model, and sim_volume.h the error codes. Info
// logs (NewLogger) are discarded, so they add no operations. Moving a folder
// into another folder is not supported. RangeSync and Flush guarantee nothing.
//
// Threads: all functions may be called from any thread. Open files stay valid
// after the file system object is gone.
#ifndef CKPTDB_TESTS_SUPPORT_SIM_FILE_SYSTEM_H_
#define CKPTDB_TESTS_SUPPORT_SIM_FILE_SYSTEM_H_

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rocksdb/file_system.h"
#include "tests/support/sim_disk.h"
#include "tests/support/sim_files.h"
#include "tests/support/sim_volume.h"

namespace ckptdb::testing {

class SimFileSystem : public rocksdb::FileSystem {
 public:
  using IOStatus = rocksdb::IOStatus;
  using FileOptions = rocksdb::FileOptions;
  using IOOptions = rocksdb::IOOptions;

  SimFileSystem() : SimFileSystem(std::make_shared<SimVolume>(SimDisk())) {}
  explicit SimFileSystem(std::shared_ptr<SimVolume> volume)
      : volume_(std::move(volume)) {}

  // --- Journal: every change since this object was made, in order.

  // The number of operations: create, write, truncate, file sync, link, rename,
  // remove, mkdir, rmdir, folder sync.
  size_t operations() const { return volume_->operations(); }
  // Returns a description of operation `k`, from 0.
  std::string OperationText(size_t k) const {
    return volume_->OperationText(k);
  }
  // Returns a new, independent file system with the state after a power loss
  // that follows the first `k` operations (all, if there are fewer). It has no
  // locks, faults or capacity, and its journal starts empty. Cheap if
  // called with the same or increasing `k`.
  std::shared_ptr<SimFileSystem> CrashAfter(size_t k, PowerLoss variant) const {
    return std::make_shared<SimFileSystem>(volume_->CrashAfter(k, variant));
  }
  // Returns an XXH3-based hash of all visible paths and bytes.
  uint64_t ImageDigest() const { return volume_->ImageDigest(); }

  // --- Faults.

  // The number of calls so far that can fail: reads, writes, opens, stats and
  // so on, but not close and unlock.
  uint64_t calls() const { return volume_->calls(); }
  // The number of calls that FailOperation made fail.
  uint64_t failed_calls() const { return volume_->failed_calls(); }
  // Makes the call at which calls() is `k` fail with `error`, without effect.
  // If `sticky`, all later calls that change the disk, sync, or open for
  // writing fail too. Replaces an earlier fault.
  void FailOperation(uint64_t k, IOStatus error, bool sticky) {
    volume_->FailOperation(k, std::move(error), sticky);
  }
  // Like FailOperation, for the k-th write or sync from now on of a file whose
  // path contains `part`.
  void FailWrite(std::string part, uint64_t k, IOStatus error, bool sticky) {
    volume_->FailWrite(std::move(part), k, std::move(error), sticky);
  }
  void ClearFault() { volume_->ClearFault(); }

  // A write that would make TotalBytes() exceed the capacity writes what fits
  // and fails with NoSpace. nullopt: unlimited.
  void SetCapacity(std::optional<uint64_t> bytes) {
    volume_->SetCapacity(bytes);
  }
  // Overrides the result of GetFreeSpace. nullopt: the real value.
  void SetReportedFreeSpace(std::optional<uint64_t> bytes) {
    volume_->SetReportedFreeSpace(bytes);
  }

  // --- Direct access: not counted, cannot fail, journaled, durable at once.
  // Syncs the whole file and folder. nullopt or false: the file does not exist.

  std::optional<std::string> ReadAll(const std::string& path) const {
    return volume_->ReadAll(path);
  }
  // Creates or replaces a file.
  [[nodiscard]] bool WriteAll(const std::string& path, std::string bytes) {
    return volume_->WriteAll(path, std::move(bytes));
  }
  // Also returns false if `byte` is beyond the end.
  [[nodiscard]] bool FlipBit(const std::string& path, uint64_t byte, int bit) {
    std::optional<std::string> bytes = ReadAll(path);
    if (!bytes.has_value() || byte >= bytes->size()) return false;
    (*bytes)[byte] = static_cast<char>((*bytes)[byte] ^ (1 << (bit & 7)));
    return WriteAll(path, *std::move(bytes));
  }
  // Truncates, or extends with zeros.
  [[nodiscard]] bool TruncateTo(const std::string& path, uint64_t size) {
    return volume_->TruncateTo(path, size);
  }
  [[nodiscard]] bool Remove(const std::string& path) {
    return volume_->RemoveNow(path);
  }
  // All files below `root`, sorted by path; a hard link counts as a file.
  std::vector<SimPathSize> ListFiles(const std::string& root) const {
    return volume_->ListFiles(root);
  }
  // Sizes of all files with a name or an open handle, each once.
  uint64_t TotalBytes() const { return volume_->TotalBytes(); }

  // --- rocksdb::FileSystem.

  using Path = const std::string&;
  using Debug = rocksdb::IODebugContext;

  const char* Name() const override { return "SimFileSystem"; }
  IOStatus NewSequentialFile(Path path, const FileOptions& options,
                             std::unique_ptr<rocksdb::FSSequentialFile>* result,
                             Debug*) override {
    return Open<SimSequentialFile>(path, result, options.use_direct_reads);
  }
  IOStatus NewRandomAccessFile(
      Path path, const FileOptions& options,
      std::unique_ptr<rocksdb::FSRandomAccessFile>* result, Debug*) override {
    return Open<SimRandomAccessFile>(path, result, options.use_direct_reads);
  }
  IOStatus NewWritableFile(Path path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           Debug*) override {
    return OpenForWrite(path, options, /*truncate=*/true, result);
  }
  IOStatus ReopenWritableFile(Path path, const FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* result,
                              Debug*) override {
    return OpenForWrite(path, options, /*truncate=*/false, result);
  }
  IOStatus NewDirectory(Path path, const IOOptions&,
                        std::unique_ptr<rocksdb::FSDirectory>* result,
                        Debug*) override {
    SimVolume::Handle handle;
    IOStatus status = volume_->OpenFolder(path, &handle);
    if (status.ok()) *result = std::make_unique<SimDirectory>(volume_, handle);
    return status;
  }
  IOStatus FileExists(Path path, const IOOptions&, Debug*) override {
    SimVolume::Stat stat;
    IOStatus status = volume_->GetStat(path, &stat);
    return status.IsPathNotFound() ? IOStatus::NotFound(path) : status;
  }
  IOStatus GetChildren(Path path, const IOOptions&,
                       std::vector<std::string>* result, Debug*) override {
    return volume_->List(path, result);
  }
  IOStatus DeleteFile(Path path, const IOOptions&, Debug*) override {
    return volume_->Remove(path);
  }
  IOStatus Truncate(Path path, size_t size, const IOOptions&, Debug*) override {
    SimVolume::Handle handle;
    IOStatus status = volume_->OpenForRead(path, &handle);
    if (!status.ok()) return status;
    return SimHandle(volume_, handle).Truncate(size);
  }
  IOStatus CreateDir(Path path, const IOOptions&, Debug*) override {
    return volume_->MakeFolder(path, /*existing_is_ok=*/false);
  }
  IOStatus CreateDirIfMissing(Path path, const IOOptions&, Debug*) override {
    return volume_->MakeFolder(path, /*existing_is_ok=*/true);
  }
  IOStatus DeleteDir(Path path, const IOOptions&, Debug*) override {
    return volume_->RemoveFolder(path);
  }
  IOStatus GetFileSize(Path path, const IOOptions&, uint64_t* size,
                       Debug*) override {
    return Field(path, &SimVolume::Stat::size_bytes, size);
  }
  IOStatus GetFileModificationTime(Path path, const IOOptions&,
                                   uint64_t* time_s, Debug*) override {
    return Field(path, &SimVolume::Stat::time_s, time_s);
  }
  IOStatus NumFileLinks(Path path, const IOOptions&, uint64_t* count,
                        Debug*) override {
    return Field(path, &SimVolume::Stat::links, count);
  }
  IOStatus IsDirectory(Path path, const IOOptions&, bool* is_folder,
                       Debug*) override {
    return Field(path, &SimVolume::Stat::is_folder, is_folder);
  }
  IOStatus RenameFile(Path from, Path to, const IOOptions&, Debug*) override {
    return volume_->Rename(from, to);
  }
  IOStatus LinkFile(Path from, Path to, const IOOptions&, Debug*) override {
    return volume_->Link(from, to);
  }
  // Locking a path again fails until it is unlocked.
  IOStatus LockFile(Path path, const IOOptions&, rocksdb::FileLock** lock,
                    Debug*) override {
    IOStatus status = volume_->Lock(path);
    *lock = status.ok() ? new FileLock(path) : nullptr;
    return status;
  }
  IOStatus UnlockFile(rocksdb::FileLock* lock, const IOOptions&,
                      Debug*) override {
    const std::unique_ptr<FileLock> held(static_cast<FileLock*>(lock));
    volume_->Unlock(held->path);
    return IOStatus::OK();
  }
  IOStatus GetTestDirectory(const IOOptions&, std::string* path,
                            Debug*) override {
    *path = "/test";
    return volume_->MakeFolder(*path, /*existing_is_ok=*/true);
  }
  IOStatus NewLogger(Path, const IOOptions&,
                     std::shared_ptr<rocksdb::Logger>* result,
                     Debug*) override {
    *result = std::make_shared<SilentLogger>();
    return IOStatus::OK();
  }
  IOStatus GetAbsolutePath(Path path, const IOOptions&, std::string* absolute,
                           Debug*) override {
    *absolute = path.rfind('/', 0) == 0 ? path : "/" + path;
    return IOStatus::OK();
  }
  IOStatus GetFreeSpace(Path, const IOOptions&, uint64_t* bytes,
                        Debug*) override {
    return volume_->FreeSpace(bytes);
  }

 private:
  struct FileLock : public rocksdb::FileLock {
    explicit FileLock(std::string locked) : path(std::move(locked)) {}
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

  template <typename File, typename Result, typename... Arguments>
  IOStatus Open(Path path, Result* result, Arguments... arguments) {
    SimVolume::Handle handle;
    IOStatus status = volume_->OpenForRead(path, &handle);
    if (status.ok()) {
      *result = std::make_unique<File>(volume_, handle, arguments...);
    }
    return status;
  }
  IOStatus OpenForWrite(Path path, const FileOptions& options, bool truncate,
                        std::unique_ptr<rocksdb::FSWritableFile>* result) {
    SimVolume::Handle handle;
    IOStatus status = volume_->OpenForWrite(path, truncate, &handle);
    if (status.ok()) {
      *result = std::make_unique<SimWritableFile>(
          volume_, handle, options.use_direct_writes, handle.size_bytes);
    }
    return status;
  }
  template <typename Member, typename Value>
  IOStatus Field(Path path, Member SimVolume::Stat::*member, Value* value) {
    SimVolume::Stat stat;
    IOStatus status = volume_->GetStat(path, &stat);
    *value = stat.*member;
    return status;
  }

  std::shared_ptr<SimVolume> volume_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_SIM_FILE_SYSTEM_H_
