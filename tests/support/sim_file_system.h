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
// The fault model is in sim_disk.h, the codes of errors in sim_volume.h. Info
// logs (NewLogger) go nowhere, so they add no operations. Renaming a folder
// into another folder is not supported. RangeSync and Flush promise nothing.
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

#include "ckptdb/tests/support/sim_disk.h"
#include "ckptdb/tests/support/sim_volume.h"
#include "rocksdb/file_system.h"

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

  // How many there are: create, write, truncate, file sync, link, rename,
  // remove, mkdir, rmdir, folder sync.
  size_t operations() const { return volume_->operations(); }
  // Operation `k` for people, from 0.
  std::string OperationText(size_t k) const {
    return volume_->OperationText(k);
  }
  // A new, independent file system: what is there when power is lost after the
  // first `k` operations (all of them, if there are fewer). Locks, faults,
  // capacity and hook are not carried over; its journal starts empty. Cheap
  // when called with the same or a growing `k`.
  std::shared_ptr<SimFileSystem> CrashAfter(size_t k, PowerLoss variant) const;
  // XXH3 based hash of all visible paths and bytes.
  uint64_t ImageDigest() const { return volume_->ImageDigest(); }

  // --- Faults.

  // Calls so far that can fail: all but close and unlock. Each read, write,
  // open, stat and so on is one.
  uint64_t calls() const { return volume_->calls(); }
  // How many calls FailOperation made fail.
  uint64_t failed_calls() const { return volume_->failed_calls(); }
  // Fails the call made when calls() is `k` with `error`, before it does
  // anything. `sticky`: all later calls that change the disk, or sync or open
  // for writing, fail too. Replaces an earlier fault.
  void FailOperation(uint64_t k, IOStatus error, bool sticky) {
    volume_->FailOperation(k, std::move(error), sticky);
  }
  // As FailOperation, for the k-th write or sync from now on of a file whose
  // path has `part`, whichever call that is.
  void FailWrite(std::string part, uint64_t k, IOStatus error, bool sticky) {
    volume_->FailWrite(std::move(part), k, std::move(error), sticky);
  }
  void ClearFault() { volume_->ClearFault(); }

  // Writes that would make TotalBytes() exceed it write what fits and fail with
  // NoSpace. None: unlimited.
  void SetCapacity(std::optional<uint64_t> bytes) {
    volume_->SetCapacity(bytes);
  }
  // What GetFreeSpace says instead of the truth. None: the truth.
  void SetReportedFreeSpace(std::optional<uint64_t> bytes) {
    volume_->SetReportedFreeSpace(bytes);
  }
  // Called after each call that added to the journal, with operations() as of
  // then, on the thread of the call, without a lock held.
  void SetOperationHook(std::function<void(size_t k)> hook) {
    volume_->SetOperationHook(std::move(hook));
  }

  // --- Direct access: not counted, never failed, journaled, durable at once.
  // They sync the whole file and its whole folder. None or false: no such file.

  std::optional<std::string> ReadAll(const std::string& path) const {
    return volume_->ReadAll(path);
  }
  // Creates or replaces.
  [[nodiscard]] bool WriteAll(const std::string& path, std::string bytes) {
    return volume_->WriteAll(path, std::move(bytes));
  }
  // Also false when `byte` is beyond the end.
  [[nodiscard]] bool FlipBit(const std::string& path, uint64_t byte, int bit);
  // Cuts, or extends with zeros.
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
  // A second lock of a path fails until the first is unlocked.
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
