// SPDX-License-Identifier: Apache-2.0
// Opens paths of the machine's file system without following links; internal to
// db/.
#ifndef CKPTDB_DB_DISK_DISK_FOLDER_H_
#define CKPTDB_DB_DISK_DISK_FOLDER_H_

#include <rocksdb/io_status.h>

#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// The end of each error text about an entry that a store cannot contain: a
// link, a FIFO, or a file in place of a folder. FromRocks converts such errors
// to FailedPrecondition.
inline constexpr char kNotAStoreEntry[] =
    "a store contains only regular files and folders";

// Returns an error like RocksDB's: NoSpace for a full disk or quota,
// PathNotFound for a missing path, and otherwise IOError with the words of
// `error`.
rocksdb::IOStatus DiskError(absl::string_view doing, absl::string_view path,
                            int error);
// Returns the error for a path that is `what`, such as "a symbolic link".
rocksdb::IOStatus NotAStoreEntry(absl::string_view path,
                                 absl::string_view what);

// A file descriptor, closed with the object.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

// Opens a folder to access its entries, but not to list them. Returns an error
// naming the first link in the path.
rocksdb::IOStatus OpenFolder(const std::string& path, Descriptor* folder);
// The same for kernels without openat2: opens one component at a time.
rocksdb::IOStatus OpenFolderByParts(const std::string& path,
                                    Descriptor* folder);

// A name in an open folder.
struct DiskPlace {
  Descriptor folder;
  std::string name;
};
rocksdb::IOStatus OpenPlace(const std::string& path, DiskPlace* place);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_DISK_FOLDER_H_
