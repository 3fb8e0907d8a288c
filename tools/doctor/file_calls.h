// SPDX-License-Identifier: Apache-2.0
// The file system calls that the checks of `ckptdb doctor` make, on names in
// one folder. Tests replace single calls with ones that fail or misbehave.
#ifndef CKPTDB_TOOLS_DOCTOR_FILE_CALLS_H_
#define CKPTDB_TOOLS_DOCTOR_FILE_CALLS_H_

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb::tool {

class FileCalls {
 public:
  // `folder` is the descriptor of an open folder, which the caller owns.
  explicit FileCalls(int folder) : folder_(folder) {}
  virtual ~FileCalls() = default;
  FileCalls(const FileCalls&) = delete;
  FileCalls& operator=(const FileCalls&) = delete;

  // Errors name the call and have the code for errno: Unimplemented if the file
  // system lacks it.
  virtual absl::StatusOr<int> Open(const std::string& name, int flags);
  virtual void Close(int file);
  virtual absl::Status Write(int file, absl::string_view bytes);
  // Returns fewer bytes only at the end of the file.
  virtual absl::StatusOr<std::string> ReadAt(int file, uint64_t offset,
                                             size_t bytes);
  virtual absl::Status Sync(int file);
  virtual absl::Status SyncFolder();
  virtual absl::Status Link(const std::string& from, const std::string& to);
  virtual absl::Status Rename(const std::string& from, const std::string& to);
  virtual absl::Status Unlink(const std::string& name);
  virtual absl::StatusOr<std::vector<std::string>> List();
  // Locks the whole file for the open file description. Returns false if
  // another description holds the lock. Closing the file releases it.
  virtual absl::StatusOr<bool> Lock(int file);
  virtual absl::Status Allocate(int file, uint64_t bytes);

  struct Entry {
    uint64_t inode = 0;
    uint64_t links = 0;
    uint64_t bytes = 0;
    uint32_t mode = 0;  // the permissions
  };
  virtual absl::StatusOr<Entry> Look(const std::string& name);

  struct Space {
    uint64_t total_bytes = 0;
    uint64_t available_bytes = 0;
  };
  virtual absl::StatusOr<Space> GetSpace();

  // Drops the file's pages from this host's cache, if possible.
  virtual void DropCache(int file);

 private:
  const int folder_;
};

// Closes its file when destroyed.
class OpenFile {
 public:
  OpenFile() = default;
  OpenFile(FileCalls* files, int file) : files_(files), file_(file) {}
  OpenFile(OpenFile&& other) noexcept
      : files_(other.files_), file_(std::exchange(other.file_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(files_, other.files_);
    std::swap(file_, other.file_);
    return *this;
  }
  ~OpenFile() { Reset(); }

  int get() const { return file_; }
  bool is_open() const { return file_ >= 0; }
  void Reset() {
    if (file_ >= 0) files_->Close(std::exchange(file_, -1));
  }

 private:
  FileCalls* files_ = nullptr;
  int file_ = -1;
};

absl::StatusOr<OpenFile> Open(FileCalls* files, const std::string& name,
                              int flags);

// Creates or truncates a file, and writes it. Syncs it if `sync` is true.
absl::Status WriteFile(FileCalls* files, const std::string& name,
                       absl::string_view bytes, bool sync);

// Replaces a file as the store does: writes, syncs and renames a temporary
// file, and syncs the folder.
absl::Status ReplaceFile(FileCalls* files, const std::string& name,
                         absl::string_view bytes);

// Returns all bytes of an open file, or of a named file.
absl::StatusOr<std::string> ReadAll(FileCalls* files, int file);
absl::StatusOr<std::string> ReadFile(FileCalls* files, const std::string& name);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_DOCTOR_FILE_CALLS_H_
