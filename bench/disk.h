// SPDX-License-Identifier: Apache-2.0
// The folder that a benchmark works in, and the state of the disk under it.
#ifndef CKPTDB_BENCH_DISK_H_
#define CKPTDB_BENCH_DISK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb::bench {

// The status of a failed system call: what was done, the path, the errno.
absl::Status ErrnoError(absl::string_view call, const std::string& path);

// A file or folder that this process has open. The errors of its calls name it.
class OpenFile {
 public:
  OpenFile(std::string path, int flags);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  absl::Status opened() const;
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  // Writes all bytes at the end of what was written.
  absl::Status Append(absl::string_view bytes) const;
  absl::Status Sync() const;

 private:
  const std::string path_;
  const int fd_;
};

// A new folder, removed with all that is in it by the destructor.
class Workspace {
 public:
  // Makes a workspace below `dir`, which is created if missing. Returns
  // ResourceExhausted if its file system has less than `needed_bytes` free.
  static absl::StatusOr<std::unique_ptr<Workspace>> Make(const std::string& dir,
                                                         uint64_t needed_bytes);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  std::string Path(absl::string_view name) const;

 private:
  explicit Workspace(std::string path);
  const std::string path_;
};

// Removes a folder with all in it, if it is there, and makes it again.
absl::Status MakeEmptyFolder(const std::string& path);
// Removes a file or folder with all in it, if it is there.
absl::Status Remove(const std::string& path);

// Waits until the file system of `path` has nothing more to write.
absl::Status SyncFileSystem(const std::string& path);
// Syncs, and drops all files below `folder` from the page cache; as root the
// whole cache, with the names of files in it.
absl::Status MakeCold(const std::string& folder);

absl::StatusOr<uint64_t> FreeBytes(const std::string& path);
// Returns the bytes that the files below `folder` take on the disk, with hard
// links counted once, and with files without a name that this process still has
// open.
uint64_t AllocatedBytes(const std::string& folder);
// The sizes of all files below `folder`.
uint64_t FileBytes(const std::string& folder);
// Reads all files below `folder` once, one after the other.
absl::Status ReadAllFiles(const std::string& folder);

}  // namespace ckptdb::bench

#endif  // CKPTDB_BENCH_DISK_H_
