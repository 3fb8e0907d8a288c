// Paths of the machine's file system, opened without following links; internal
// to db/.
#ifndef CKPTDB_DB_DISK_DISK_FOLDER_H_
#define CKPTDB_DB_DISK_DISK_FOLDER_H_

#include <rocksdb/io_status.h>

#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// The end of the text of each error about an entry that a store cannot have: a
// link, a FIFO, a file where a folder must be. FromRocks makes
// FailedPrecondition of it.
inline constexpr char kNotOfAStore[] =
    "a store has regular files and folders only";

// Returns an error like RocksDB's own: NoSpace for a full disk or quota,
// PathNotFound for what is not there, and IOError with the words of `error` for
// anything else.
rocksdb::IOStatus DiskError(absl::string_view doing, absl::string_view path,
                            int error);
// Returns the error for a path that is `what`, such as "a symbolic link".
rocksdb::IOStatus NotOfAStore(absl::string_view path, absl::string_view what);

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

// Opens a folder for what is in it, and not to be listed. Returns an error that
// names the first link on the way.
rocksdb::IOStatus OpenFolder(const std::string& path, Descriptor* folder);
// The same for kernels without openat2: one component at a time.
rocksdb::IOStatus OpenFolderByParts(const std::string& path,
                                    Descriptor* folder);

// A name in a folder that is open.
struct DiskPlace {
  Descriptor folder;
  std::string name;
};
rocksdb::IOStatus OpenPlace(const std::string& path, DiskPlace* place);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_DISK_FOLDER_H_
