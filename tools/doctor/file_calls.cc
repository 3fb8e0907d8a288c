// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/file_calls.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "schema/status.h"

namespace ckptdb::tool {
namespace {

constexpr mode_t kFileMode = 0600;

// ESTALE and ECANCELED are ordinary errors of a file system. They must not
// become Aborted and Cancelled, which end all checks.
absl::Status Failure(absl::string_view what) {
  absl::Status status = absl::ErrnoToStatus(errno, what);
  if (!absl::IsAborted(status) && !absl::IsCancelled(status)) return status;
  return absl::InternalError(status.message());
}

absl::Status Outcome(int result, absl::string_view what) {
  return result == 0 ? absl::OkStatus() : Failure(what);
}

}  // namespace

absl::StatusOr<int> FileCalls::Open(const std::string& name, int flags) {
  const int file = ::openat(folder_, name.c_str(),
                            flags | O_CLOEXEC | O_NOFOLLOW, kFileMode);
  if (file < 0) return Failure(absl::StrCat("open ", name));
  return file;
}

void FileCalls::Close(int file) { ::close(file); }

absl::Status FileCalls::Write(int file, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failure("write");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FileCalls::ReadAt(int file, uint64_t offset,
                                              size_t bytes) {
  std::string all(bytes, '\0');
  size_t done = 0;
  while (done < bytes) {
    const ssize_t found = ::pread(file, all.data() + done, bytes - done,
                                  static_cast<off_t>(offset + done));
    if (found < 0 && errno == EINTR) continue;
    if (found < 0) return Failure("read");
    if (found == 0) break;
    done += static_cast<size_t>(found);
  }
  all.resize(done);
  return all;
}

absl::Status FileCalls::Sync(int file) {
  return Outcome(::fsync(file), "fsync");
}

absl::Status FileCalls::SyncFolder() {
  const int folder = ::openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return Failure("open the folder");
  absl::Status status = Outcome(::fsync(folder), "fsync of the folder");
  ::close(folder);
  return status;
}

absl::Status FileCalls::Link(const std::string& from, const std::string& to) {
  return Outcome(::linkat(folder_, from.c_str(), folder_, to.c_str(), 0),
                 "link");
}

absl::Status FileCalls::Rename(const std::string& from, const std::string& to) {
  return Outcome(::renameat(folder_, from.c_str(), folder_, to.c_str()),
                 "rename");
}

absl::Status FileCalls::Unlink(const std::string& name) {
  return Outcome(::unlinkat(folder_, name.c_str(), 0), "unlink");
}

absl::StatusOr<std::vector<std::string>> FileCalls::List() {
  const int folder = ::openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return Failure("open the folder");
  DIR* const entries = ::fdopendir(folder);
  if (entries == nullptr) {
    ::close(folder);
    return Failure("list the folder");
  }
  std::vector<std::string> names;
  // readdir returns null both at the end and after an error; only errno
  // distinguishes them.
  errno = 0;
  while (const dirent* entry = ::readdir(entries)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  absl::Status status = Outcome(errno, "list the folder");
  ::closedir(entries);
  CKPTDB_RETURN_IF_ERROR(status);
  return names;
}

// Locks the open file description, as the store does: a process would be
// granted its own lock twice, and would lose it when any descriptor of the file
// is closed. A lock held by another description fails with either errno.
absl::StatusOr<bool> FileCalls::Lock(int file) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(file, F_OFD_SETLK, &whole) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  return Failure("lock");
}

absl::Status FileCalls::Allocate(int file, uint64_t bytes) {
  return Outcome(::fallocate(file, 0, 0, static_cast<off_t>(bytes)),
                 "fallocate");
}

absl::StatusOr<FileCalls::Entry> FileCalls::Look(const std::string& name) {
  struct stat found {};
  if (::fstatat(folder_, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) {
    return Failure(absl::StrCat("stat ", name));
  }
  constexpr mode_t kPermissions = 0777;
  return Entry{found.st_ino, found.st_nlink,
               static_cast<uint64_t>(found.st_size),
               found.st_mode & kPermissions};
}

absl::StatusOr<FileCalls::Space> FileCalls::GetSpace() {
  struct statvfs found {};
  if (::fstatvfs(folder_, &found) != 0) return Failure("statvfs");
  return Space{found.f_blocks * found.f_frsize,
               found.f_bavail * found.f_frsize};
}

void FileCalls::DropCache(int file) {
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
}

absl::StatusOr<OpenFile> Open(FileCalls* files, const std::string& name,
                              int flags) {
  CKPTDB_ASSIGN_OR_RETURN(const int file, files->Open(name, flags));
  return OpenFile(files, file);
}

absl::Status WriteFile(FileCalls* files, const std::string& name,
                       absl::string_view bytes, bool sync) {
  CKPTDB_ASSIGN_OR_RETURN(const OpenFile file,
                          Open(files, name, O_WRONLY | O_CREAT | O_TRUNC));
  CKPTDB_RETURN_IF_ERROR(files->Write(file.get(), bytes));
  return sync ? files->Sync(file.get()) : absl::OkStatus();
}

absl::Status ReplaceFile(FileCalls* files, const std::string& name,
                         absl::string_view bytes) {
  const std::string temporary = absl::StrCat(name, ".new");
  CKPTDB_RETURN_IF_ERROR(WriteFile(files, temporary, bytes, /*sync=*/true));
  CKPTDB_RETURN_IF_ERROR(files->Rename(temporary, name));
  // The new name is durable once the folder is synced.
  return files->SyncFolder();
}

absl::StatusOr<std::string> ReadAll(FileCalls* files, int file) {
  constexpr size_t kBlock = size_t{1} << 20;
  std::string all;
  while (true) {
    CKPTDB_ASSIGN_OR_RETURN(const std::string block,
                            files->ReadAt(file, all.size(), kBlock));
    all += block;
    if (block.size() < kBlock) return all;
  }
}

absl::StatusOr<std::string> ReadFile(FileCalls* files,
                                     const std::string& name) {
  CKPTDB_ASSIGN_OR_RETURN(const OpenFile file, Open(files, name, O_RDONLY));
  return ReadAll(files, file.get());
}

}  // namespace ckptdb::tool
