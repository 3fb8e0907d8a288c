// SPDX-License-Identifier: Apache-2.0
#include "db/disk/spare_space.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ckptdb::internal {
namespace {

// Returns whether the file, which may be sparse, occupies `bytes` on disk.
bool Holds(const struct stat& file, uint64_t bytes) {
  constexpr uint64_t kBlock = 512;  // whatever the file system's is
  return S_ISREG(file.st_mode) &&
         static_cast<uint64_t>(file.st_blocks) * kBlock >= bytes;
}

// A journaling file system frees the blocks of a removed file only once the
// removal is durable.
void SyncFolderOf(const std::string& path) {
  const int fd = ::open(path.substr(0, path.rfind('/') + 1).c_str(),
                        O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

// Truncates the file. Blocks that are cut off are free once that is durable.
bool Cut(const std::string& path, uint64_t bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  const bool cut =
      ::ftruncate(fd, static_cast<off_t>(bytes)) == 0 && ::fsync(fd) == 0;
  ::close(fd);
  return cut;
}

}  // namespace

bool SpareSpace::IsSetAside() const {
  struct stat file {};
  return bytes_ == 0 ||
         (::lstat(path_.c_str(), &file) == 0 && Holds(file, bytes_));
}

void SpareSpace::SetAside(uint64_t free_bytes) const {
  const MutexLock lock(&mutex_);
  // An eighth more must be free, so that setting it aside does not itself fill
  // the disk.
  if (IsSetAside() || bytes_ > free_bytes - free_bytes / 9) return;
  ::unlink(path_.c_str());
  const int fd = ::open(path_.c_str(),
                        O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                        static_cast<mode_t>(mode_));
  if (fd < 0) return;
  // The mode is set again because the umask reduced it.
  const bool made = ::fchmod(fd, static_cast<mode_t>(mode_)) == 0 &&
                    ::posix_fallocate(fd, 0, static_cast<off_t>(bytes_)) == 0;
  ::close(fd);
  // A file that could not be filled reserves nothing, and only takes space.
  if (!made) ::unlink(path_.c_str());
}

bool SpareSpace::Release(uint64_t bytes) const {
  const MutexLock lock(&mutex_);
  struct stat file {};
  if (::lstat(path_.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) {
    return false;
  }
  constexpr uint64_t kMore = uint64_t{256} << 10;  // the file system's own
  const auto held = static_cast<uint64_t>(file.st_size);
  // Only the needed space is released, because whoever fills the disk may take
  // it. A file with another name is not truncated, because it may not be the
  // store's.
  if (held > bytes + kMore && file.st_nlink == 1) {
    return Cut(path_, held - bytes - kMore);
  }
  if (::unlink(path_.c_str()) != 0) return false;
  SyncFolderOf(path_);
  return true;
}

}  // namespace ckptdb::internal
