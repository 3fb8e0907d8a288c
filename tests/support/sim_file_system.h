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

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rocksdb/file_system.h"
#include "tests/support/sim_disk.h"
#include "tests/support/sim_volume.h"

namespace ckptdb::testing {

struct SimFileSystemOptions {
  // A new folder's name survives a power loss without a sync of its parent.
  // RocksDB never syncs the parent of a folder it makes.
  // Default: true
  bool durable_mkdir = true;
};

class SimFileSystem : public rocksdb::FileSystem {
 public:
  using IOStatus = rocksdb::IOStatus;
  using FileOptions = rocksdb::FileOptions;
  using IOOptions = rocksdb::IOOptions;
  using IODebugContext = rocksdb::IODebugContext;

  explicit SimFileSystem(SimFileSystemOptions options = {});
  explicit SimFileSystem(std::shared_ptr<SimVolume> volume);

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
  // locks, faults, capacity or hook, and its journal starts empty. Cheap if
  // called with the same or increasing `k`.
  std::shared_ptr<SimFileSystem> CrashAfter(size_t k, PowerLoss variant) const;
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
  // Sets a function that is called after each call that added to the journal,
  // with the value of operations(), on the calling thread and without a lock.
  void SetOperationHook(std::function<void(size_t k)> hook) {
    volume_->SetOperationHook(std::move(hook));
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
  [[nodiscard]] bool FlipBit(const std::string& path, uint64_t byte, int bit);
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

  const char* Name() const override { return "SimFileSystem"; }
  IOStatus NewSequentialFile(const std::string& path,
                             const FileOptions& options,
                             std::unique_ptr<rocksdb::FSSequentialFile>* result,
                             IODebugContext* dbg) override;
  IOStatus NewRandomAccessFile(
      const std::string& path, const FileOptions& options,
      std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
      IODebugContext* dbg) override;
  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           IODebugContext* dbg) override;
  IOStatus ReopenWritableFile(const std::string& path,
                              const FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* result,
                              IODebugContext* dbg) override;
  // Renames `old_path` and writes over its bytes from the start, as POSIX does.
  IOStatus ReuseWritableFile(const std::string& path,
                             const std::string& old_path,
                             const FileOptions& options,
                             std::unique_ptr<rocksdb::FSWritableFile>* result,
                             IODebugContext* dbg) override;
  IOStatus NewRandomRWFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSRandomRWFile>* result,
                           IODebugContext* dbg) override;
  IOStatus NewDirectory(const std::string& path, const IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* result,
                        IODebugContext* dbg) override;
  IOStatus FileExists(const std::string& path, const IOOptions& options,
                      IODebugContext* dbg) override;
  IOStatus GetChildren(const std::string& path, const IOOptions& options,
                       std::vector<std::string>* result,
                       IODebugContext* dbg) override;
  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* dbg) override;
  IOStatus Truncate(const std::string& path, size_t size,
                    const IOOptions& options, IODebugContext* dbg) override;
  IOStatus CreateDir(const std::string& path, const IOOptions& options,
                     IODebugContext* dbg) override;
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions& options,
                              IODebugContext* dbg) override;
  IOStatus DeleteDir(const std::string& path, const IOOptions& options,
                     IODebugContext* dbg) override;
  IOStatus GetFileSize(const std::string& path, const IOOptions& options,
                       uint64_t* size, IODebugContext* dbg) override;
  IOStatus GetFileModificationTime(const std::string& path,
                                   const IOOptions& options, uint64_t* time_s,
                                   IODebugContext* dbg) override;
  IOStatus RenameFile(const std::string& from, const std::string& to,
                      const IOOptions& options, IODebugContext* dbg) override;
  IOStatus LinkFile(const std::string& from, const std::string& to,
                    const IOOptions& options, IODebugContext* dbg) override;
  IOStatus NumFileLinks(const std::string& path, const IOOptions& options,
                        uint64_t* count, IODebugContext* dbg) override;
  IOStatus AreFilesSame(const std::string& first, const std::string& second,
                        const IOOptions& options, bool* same,
                        IODebugContext* dbg) override;
  // Locking a path again fails until it is unlocked.
  IOStatus LockFile(const std::string& path, const IOOptions& options,
                    rocksdb::FileLock** lock, IODebugContext* dbg) override;
  IOStatus UnlockFile(rocksdb::FileLock* lock, const IOOptions& options,
                      IODebugContext* dbg) override;
  IOStatus GetTestDirectory(const IOOptions& options, std::string* path,
                            IODebugContext* dbg) override;
  IOStatus NewLogger(const std::string& path, const IOOptions& options,
                     std::shared_ptr<rocksdb::Logger>* result,
                     IODebugContext* dbg) override;
  IOStatus GetAbsolutePath(const std::string& path, const IOOptions& options,
                           std::string* absolute, IODebugContext* dbg) override;
  IOStatus GetFreeSpace(const std::string& path, const IOOptions& options,
                        uint64_t* bytes, IODebugContext* dbg) override;
  IOStatus IsDirectory(const std::string& path, const IOOptions& options,
                       bool* is_folder, IODebugContext* dbg) override;

 private:
  std::shared_ptr<SimVolume> volume_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_SIM_FILE_SYSTEM_H_
