// SPDX-License-Identifier: Apache-2.0
#include "bench/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/status.h"

namespace ckptdb::bench {
namespace {

namespace fs = std::filesystem;

// Calls `visit` for each file below `folder`; files that vanish meanwhile are
// left out.
void ForEachFile(const std::string& folder,
                 const std::function<void(const std::string& path,
                                          const struct stat& file)>& visit) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end;
       !error && at != end; at.increment(error)) {
    struct stat file {};
    if (lstat(at->path().c_str(), &file) == 0 && S_ISREG(file.st_mode)) {
      visit(at->path().string(), file);
    }
  }
}

uint64_t BytesOnDisk(const struct stat& file) {
  constexpr uint64_t kBlockBytes = 512;  // the unit of st_blocks
  return static_cast<uint64_t>(file.st_blocks) * kBlockBytes;
}

// Returns the bytes of files that this process has open and that have no name
// any more.
uint64_t UnlinkedOpenBytes() {
  std::error_code error;
  std::set<ino_t> seen;
  uint64_t bytes = 0;
  for (fs::directory_iterator at("/proc/self/fd", error), end;
       !error && at != end; at.increment(error)) {
    struct stat file {};
    if (stat(at->path().c_str(), &file) == 0 && S_ISREG(file.st_mode) &&
        file.st_nlink == 0 && seen.insert(file.st_ino).second) {
      bytes += BytesOnDisk(file);
    }
  }
  return bytes;
}

// Needs root.
void DropWholeCache() {
  OpenFile("/proc/sys/vm/drop_caches", O_WRONLY).Append("3").IgnoreError();
}

absl::Status ReadWholeFile(const std::string& path, std::vector<char>* buffer) {
  const OpenFile file(path, O_RDONLY);
  CKPTDB_RETURN_IF_ERROR(file.opened());
  ssize_t got = 1;
  while (got > 0) got = read(file.fd(), buffer->data(), buffer->size());
  return got < 0 ? ErrnoError("read", path) : absl::OkStatus();
}

}  // namespace

absl::Status ErrnoError(absl::string_view call, const std::string& path) {
  return absl::UnavailableError(
      absl::StrCat(call, " ", path, ": ", std::strerror(errno)));
}

OpenFile::OpenFile(std::string path, int flags)
    : path_(std::move(path)),
      fd_(open(path_.c_str(), flags | O_CLOEXEC, 0600)) {}

OpenFile::~OpenFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status OpenFile::opened() const {
  return fd_ < 0 ? ErrnoError("open", path_) : absl::OkStatus();
}

absl::Status OpenFile::Append(absl::string_view bytes) const {
  const ssize_t written = write(fd_, bytes.data(), bytes.size());
  return written == static_cast<ssize_t>(bytes.size())
             ? absl::OkStatus()
             : ErrnoError("write", path_);
}

absl::Status OpenFile::Sync() const {
  return fsync(fd_) == 0 ? absl::OkStatus() : ErrnoError("fsync", path_);
}

absl::StatusOr<std::unique_ptr<Workspace>> Workspace::Make(
    const std::string& dir, uint64_t needed_bytes) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot make folder ", dir, ": ", error.message()));
  }
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t free_bytes, FreeBytes(dir));
  if (free_bytes < needed_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the benchmark needs ", needed_bytes, " bytes in ", dir,
                     ", which has ", free_bytes, " free"));
  }
  std::string path = (fs::path(dir) / "ckptdb_bench.XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) return ErrnoError("mkdtemp", path);
  return std::unique_ptr<Workspace>(new Workspace(std::move(path)));
}

Workspace::Workspace(std::string path) : path_(std::move(path)) {}

Workspace::~Workspace() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string Workspace::Path(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

absl::Status MakeEmptyFolder(const std::string& path) {
  CKPTDB_RETURN_IF_ERROR(Remove(path));
  if (mkdir(path.c_str(), 0700) != 0) return ErrnoError("mkdir", path);
  return absl::OkStatus();
}

absl::Status Remove(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("remove ", path, ": ", error.message()));
}

absl::Status SyncFileSystem(const std::string& path) {
  const OpenFile file(path, O_RDONLY);
  CKPTDB_RETURN_IF_ERROR(file.opened());
  return syncfs(file.fd()) == 0 ? absl::OkStatus() : ErrnoError("syncfs", path);
}

absl::Status MakeCold(const std::string& folder) {
  CKPTDB_RETURN_IF_ERROR(SyncFileSystem(folder));
  ForEachFile(folder, [](const std::string& path, const struct stat&) {
    posix_fadvise(OpenFile(path, O_RDONLY).fd(), 0, 0, POSIX_FADV_DONTNEED);
  });
  DropWholeCache();
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> FreeBytes(const std::string& path) {
  struct statvfs disk {};
  if (statvfs(path.c_str(), &disk) != 0) return ErrnoError("statvfs", path);
  return uint64_t{disk.f_bavail} * disk.f_frsize;
}

uint64_t AllocatedBytes(const std::string& folder) {
  std::set<ino_t> seen;
  uint64_t bytes = UnlinkedOpenBytes();
  ForEachFile(folder, [&](const std::string&, const struct stat& file) {
    if (seen.insert(file.st_ino).second) bytes += BytesOnDisk(file);
  });
  return bytes;
}

uint64_t FileBytes(const std::string& folder) {
  uint64_t bytes = 0;
  ForEachFile(folder, [&](const std::string&, const struct stat& file) {
    bytes += static_cast<uint64_t>(file.st_size);
  });
  return bytes;
}

absl::Status ReadAllFiles(const std::string& folder) {
  constexpr size_t kReadBytes = size_t{1} << 20;
  std::vector<char> buffer(kReadBytes);
  absl::Status status;
  ForEachFile(folder, [&](const std::string& path, const struct stat&) {
    if (status.ok()) status = ReadWholeFile(path, &buffer);
  });
  return status;
}

}  // namespace ckptdb::bench
