// SPDX-License-Identifier: Apache-2.0
// A simulated disk with system calls: paths, handles, locks, a journal of all
// changes, faults and a capacity. SimFileSystem implements RocksDB's interface
// on top of it.
//
// Errors have the codes of RocksDB's POSIX file system: PathNotFound for a
// missing file, NotFound for a missing folder to list, NoSpace for a full disk,
// each with the path. Paths are absolute or relative to the root; empty parts
// and "." are skipped.
//
// Threads: all functions may be called from any thread.
#ifndef CKPTDB_TESTS_SUPPORT_SIM_VOLUME_H_
#define CKPTDB_TESTS_SUPPORT_SIM_VOLUME_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rocksdb/io_status.h"
#include "rocksdb/slice.h"
#include "tests/support/sim_disk.h"

namespace ckptdb::testing {

struct SimPathSize {
  std::string path;
  uint64_t size_bytes = 0;
  bool operator==(const SimPathSize&) const = default;
};

class SimVolume {
 public:
  using IOStatus = rocksdb::IOStatus;

  // An open file or folder. It stays readable after its last name is removed.
  struct Handle {
    uint64_t inode = 0;
    uint64_t size_bytes = 0;  // when it was opened
    std::string path;
  };

  explicit SimVolume(SimDisk disk);
  SimVolume(const SimVolume&) = delete;
  SimVolume& operator=(const SimVolume&) = delete;

  // --- System calls. Each is counted in calls() and can be made to fail.
  IOStatus OpenForRead(const std::string& path, Handle* handle);
  // Creates a missing file. `truncate` empties an existing one.
  IOStatus OpenForWrite(const std::string& path, bool truncate, Handle* handle);
  IOStatus OpenFolder(const std::string& path, Handle* handle);
  // `result` points into `scratch`; shorter than `n` only at the end.
  IOStatus Read(const Handle& handle, uint64_t offset, size_t n,
                rocksdb::Slice* result, char* scratch);
  // On NoSpace, writes the bytes that fit.
  IOStatus Write(const Handle& handle, uint64_t offset,
                 const rocksdb::Slice& bytes);
  IOStatus Truncate(const Handle& handle, uint64_t size);
  IOStatus Sync(const Handle& handle);
  IOStatus SyncFolder(const Handle& handle);
  IOStatus Rename(const std::string& from, const std::string& to);
  IOStatus Link(const std::string& from, const std::string& to);
  IOStatus Remove(const std::string& path);
  IOStatus MakeFolder(const std::string& path, bool existing_is_ok);
  IOStatus RemoveFolder(const std::string& path);
  IOStatus List(const std::string& path, std::vector<std::string>* names);
  // A copy of the inode without its bytes and names, but with the size.
  struct Stat {
    uint64_t inode = 0;
    bool is_folder = false;
    uint64_t size_bytes = 0;
    uint64_t time_s = 0;
    uint32_t links = 0;
  };
  IOStatus GetStat(const std::string& path, Stat* stat);
  IOStatus Lock(const std::string& path);
  IOStatus FreeSpace(uint64_t* bytes);

  // --- Not counted, cannot fail.
  void Close(const Handle& handle);
  void Unlock(const std::string& path);

  // --- Journal.
  size_t operations() const {
    const Guard lock(mutex_);
    return journal_.size();
  }
  std::string OperationText(size_t k) const;
  std::shared_ptr<SimVolume> CrashAfter(size_t k, PowerLoss variant) const;
  uint64_t ImageDigest() const {
    const Guard lock(mutex_);
    return disk_.Digest();
  }

  // --- Faults.
  uint64_t calls() const { return Get(calls_); }
  uint64_t failed_calls() const { return Get(failed_calls_); }
  void FailOperation(uint64_t k, IOStatus error, bool sticky);
  void FailWrite(std::string part, uint64_t k, IOStatus error, bool sticky);
  void ClearFault() { FailOperation(~uint64_t{0}, IOStatus::OK(), false); }
  void SetCapacity(std::optional<uint64_t> bytes) { Set(bytes, &capacity_); }
  void SetReportedFreeSpace(std::optional<uint64_t> bytes) {
    Set(bytes, &reported_free_);
  }

  // --- For tests: not counted, cannot fail, journaled, durable at once.
  std::optional<std::string> ReadAll(const std::string& path) const;
  bool WriteAll(const std::string& path, std::string bytes);
  bool TruncateTo(const std::string& path, uint64_t size);
  bool RemoveNow(const std::string& path);
  std::vector<SimPathSize> ListFiles(const std::string& root) const;
  uint64_t TotalBytes() const {
    const Guard lock(mutex_);
    return disk_.TotalBytes();
  }

 private:
  using Guard = std::lock_guard<std::mutex>;
  using Kind = SimOperation::Kind;
  // The result of a path lookup: folder, last name, and inode, 0 if missing.
  struct Place {
    uint64_t folder = 0;
    std::string name;
    uint64_t inode = 0;
    bool is_folder = false;
  };

  Place Resolve(const std::string& path) const;
  const SimInode& InodeOf(const Place& place) const;
  IOStatus FindFile(const std::string& path, Place* place) const;
  IOStatus CreateFile(const std::string& path, Place* place);
  // Counts a system call, and returns the error with which it must fail.
  // `written`: the file, for a write or sync.
  IOStatus StartCall(bool mutates, const std::string& written = "");
  uint64_t Room(const SimInode& file, uint64_t end) const;
  template <typename T>
  T Get(const T& member) const {
    const Guard lock(mutex_);
    return member;
  }
  template <typename T>
  void Set(T value, T* member) {
    const Guard lock(mutex_);
    *member = std::move(value);
  }
  // Each applies an operation, and returns OK.
  IOStatus Record(SimOperation operation);
  IOStatus RecordOf(Kind kind, uint64_t inode, const std::string& path,
                    uint64_t offset = 0);
  IOStatus RecordAt(Kind kind, const Place& place, uint64_t inode,
                    const std::string& path);

  mutable std::mutex mutex_;
  const SimDisk base_;
  SimDisk disk_;
  std::deque<SimOperation> journal_;
  std::set<std::string> locks_;

  // The disk after the first replayed_ operations, for CrashAfter.
  mutable std::optional<SimDisk> replay_;
  mutable size_t replayed_ = 0;

  uint64_t calls_ = 0;
  uint64_t failed_calls_ = 0;
  std::optional<uint64_t> fail_at_;
  std::string fail_part_;  // for FailWrite, which then sets fail_at_
  uint64_t fail_after_ = 0;
  IOStatus fail_with_;
  bool fail_sticky_ = false;
  std::optional<uint64_t> capacity_;
  std::optional<uint64_t> reported_free_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_SIM_VOLUME_H_
