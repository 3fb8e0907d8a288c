// SPDX-License-Identifier: Apache-2.0
#include "db/disk/disk_file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "db/disk/disk_folder.h"
#include "db/disk/file_lock.h"
#include "db/quirks/file_names.h"

namespace ckptdb::internal {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

// The limit for files that RocksDB reads whole.
constexpr uint64_t kMaxNameFileBytes = 4096;

EntryKind KindOf(const struct statx& found, int folder) {
  if (S_ISREG(found.stx_mode)) return EntryKind::kFile;
  if (S_ISLNK(found.stx_mode)) return EntryKind::kLink;
  if (!S_ISDIR(found.stx_mode)) return EntryKind::kOther;
  if ((found.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0) {
    const bool root = (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
    return root ? EntryKind::kMountPoint : EntryKind::kFolder;
  }
  // An older kernel does not report mount points, but the device differs there.
  struct stat above {};
  const bool same =
      ::fstat(folder, &above) == 0 &&
      above.st_dev == makedev(found.stx_dev_major, found.stx_dev_minor);
  return same ? EntryKind::kFolder : EntryKind::kMountPoint;
}

// Examines an entry of an open folder, so that no folder above it can be
// exchanged meanwhile. Follows no links and triggers no automounts.
IOStatus LookIn(const DiskPlace& place, const std::string& path, Entry* entry) {
  struct statx found {};
  if (::statx(place.folder.get(), place.name.c_str(),
              AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS,
              &found) != 0) {
    return DiskError("looking at", path, errno);
  }
  entry->kind = KindOf(found, place.folder.get());
  entry->bytes = entry->kind == EntryKind::kFile ? found.stx_size : 0;
  entry->modified_s = found.stx_mtime.tv_sec;
  entry->device = makedev(found.stx_dev_major, found.stx_dev_minor);
  entry->inode = found.stx_ino;
  entry->links = found.stx_nlink;
  return IOStatus::OK();
}

// A store may lie on a mount point, and so may its folders.
bool IsFolder(const Entry& entry) {
  return entry.kind == EntryKind::kFolder ||
         entry.kind == EntryKind::kMountPoint;
}

// Checks that the path is a regular file. A link, a FIFO or a device does not
// belong to the store, and opening it may block or reach outside of the store
// (docs/security.md).
IOStatus CheckFile(const std::string& path) {
  Entry entry;
  IOStatus status = DiskFileSystem::LookAt(path, &entry);
  if (!status.ok() || entry.kind == EntryKind::kFile) return status;
  return NotAStoreEntry(path, EntryKindName(entry.kind));
}

// Checks that the path is a regular file or missing.
IOStatus CheckNoOther(const std::string& path) {
  IOStatus status = CheckFile(path);
  return status.IsPathNotFound() ? IOStatus::OK() : status;
}

// Checks that the path is a folder, and not a link to one.
IOStatus CheckFolder(const std::string& path) {
  Entry entry;
  IOStatus status = DiskFileSystem::LookAt(path, &entry);
  if (!status.ok() || IsFolder(entry)) return status;
  return NotAStoreEntry(path, EntryKindName(entry.kind));
}

// Creates an empty file if the path is missing. Replaces a link, or a file that
// has other names, so that nothing outside of the store is written to.
IOStatus MakeFile(const std::string& path) {
  constexpr mode_t kOwnerOnly = 0600;
  constexpr int kTries = 3;
  DiskPlace place;
  IOStatus status = OpenPlace(path, &place);
  for (int i = 0; status.ok() && i < kTries; ++i) {
    const int fd = ::openat(
        place.folder.get(), place.name.c_str(),
        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwnerOnly);
    if (fd >= 0) {
      const Descriptor made(fd);
      return status;
    }
    if (errno != EEXIST) return DiskError("making", path, errno);
    Entry entry;
    status = LookIn(place, path, &entry);
    if (status.IsPathNotFound()) {
      status = IOStatus::OK();
      continue;
    }
    // A folder is left alone: the caller's open reports it.
    if (!status.ok() || IsFolder(entry)) return status;
    if (entry.kind == EntryKind::kFile && entry.links == 1) return status;
    // Somebody may put the entry back before the next try, so the number of
    // tries is limited.
    if (::unlinkat(place.folder.get(), place.name.c_str(), 0) != 0 &&
        errno != ENOENT) {
      return DiskError("removing", path, errno);
    }
  }
  return status.ok() ? DiskError("making", path, EEXIST) : status;
}

// A file that is read sequentially, once.
class SequentialFile : public rocksdb::FSSequentialFile {
 public:
  SequentialFile(std::string path, Descriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  IOStatus Read(size_t n, const IOOptions&, rocksdb::Slice* result,
                char* scratch, IODebugContext*) override {
    size_t done = 0;
    // Continues after a short read, which is not the end of the file, and after
    // a signal.
    while (done < n) {
      const ssize_t got = ::read(file_.get(), scratch + done, n - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return DiskError("reading", path_, errno);
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    *result = rocksdb::Slice(scratch, done);
    return IOStatus::OK();
  }
  IOStatus Skip(uint64_t n) override {
    if (::lseek(file_.get(), static_cast<off_t>(n), SEEK_CUR) >= 0) {
      return IOStatus::OK();
    }
    return DiskError("reading", path_, errno);
  }

 private:
  const std::string path_;
  const Descriptor file_;
};

// Returns whether link() is unsupported here, as opposed to a disk error:
// between two file systems, on one without links (EPERM on VFAT, ENOSYS on a
// FUSE file system), for a file with too many links, or for another user's file
// that this user may only read.
bool HasNoLink(int error) {
  return error == EXDEV || error == ENOTSUP || error == EPERM ||
         error == ENOSYS || error == EMLINK;
}

}  // namespace

const char* EntryKindName(EntryKind kind) {
  switch (kind) {
    case EntryKind::kFile:
      return "a file";
    case EntryKind::kFolder:
      return "a folder";
    case EntryKind::kMountPoint:
      return "a mount point";
    case EntryKind::kLink:
      return "a symbolic link";
    case EntryKind::kOther:
      return "a FIFO, a socket or a device";
  }
  return "unknown";
}

DiskFileSystem::DiskFileSystem(
    const std::shared_ptr<rocksdb::FileSystem>& posix)
    : FileSystemWrapper(posix) {}

IOStatus DiskFileSystem::LookAt(const std::string& path, Entry* entry) {
  DiskPlace place;
  IOStatus status = OpenPlace(path, &place);
  return status.ok() ? LookIn(place, path, entry) : status;
}

IOStatus DiskFileSystem::NewSequentialFile(
    const std::string& path, const FileOptions&,
    std::unique_ptr<rocksdb::FSSequentialFile>* result, IODebugContext*) {
  DiskPlace place;
  IOStatus status = OpenPlace(path, &place);
  if (!status.ok()) return status;
  // Opening a FIFO would wait for a writer, and opening a device may have side
  // effects, so the entry is examined first.
  Entry entry;
  status = LookIn(place, path, &entry);
  if (!status.ok()) return status;
  if (entry.kind != EntryKind::kFile) {
    return NotAStoreEntry(path, EntryKindName(entry.kind));
  }
  if (IsReadWhole(place.name) && entry.bytes > kMaxNameFileBytes) {
    return DiskError(absl::StrCat("reading ", entry.bytes, " bytes, above ",
                                  kMaxNameFileBytes),
                     path, EFBIG);
  }
  // The entry may have been exchanged since. O_NONBLOCK keeps a FIFO from
  // blocking the open, and the open file is examined again.
  Descriptor file(::openat(place.folder.get(), place.name.c_str(),
                           O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) return DiskError("opening", path, errno);
  struct stat opened {};
  if (::fstat(file.get(), &opened) != 0) {
    return DiskError("looking at", path, errno);
  }
  if (!S_ISREG(opened.st_mode)) {
    return NotAStoreEntry(path, EntryKindName(EntryKind::kOther));
  }
  *result = std::make_unique<SequentialFile>(path, std::move(file));
  return status;
}

IOStatus DiskFileSystem::NewRandomAccessFile(
    const std::string& path, const FileOptions& options,
    std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
    IODebugContext* debug) {
  IOStatus status = CheckFile(path);
  if (!status.ok()) return status;
  return target()->NewRandomAccessFile(path, options, result, debug);
}

IOStatus DiskFileSystem::NewWritableFile(
    const std::string& path, const FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* debug) {
  IOStatus status = MakeFile(path);
  if (!status.ok()) return status;
  return target()->NewWritableFile(path, options, result, debug);
}

IOStatus DiskFileSystem::ReopenWritableFile(
    const std::string& path, const FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* debug) {
  IOStatus status = CheckNoOther(path);
  if (!status.ok()) return status;
  return target()->ReopenWritableFile(path, options, result, debug);
}

IOStatus DiskFileSystem::ReuseWritableFile(
    const std::string& path, const std::string& old_path,
    const FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* debug) {
  IOStatus status = CheckFile(old_path);
  if (status.ok()) status = CheckNoOther(path);
  if (!status.ok()) return status;
  return target()->ReuseWritableFile(path, old_path, options, result, debug);
}

IOStatus DiskFileSystem::NewRandomRWFile(
    const std::string& path, const FileOptions& options,
    std::unique_ptr<rocksdb::FSRandomRWFile>* result, IODebugContext* debug) {
  IOStatus status = CheckNoOther(path);
  if (!status.ok()) return status;
  return target()->NewRandomRWFile(path, options, result, debug);
}

IOStatus DiskFileSystem::NewMemoryMappedFileBuffer(
    const std::string& path,
    std::unique_ptr<rocksdb::MemoryMappedFileBuffer>* result) {
  IOStatus status = CheckFile(path);
  if (!status.ok()) return status;
  return target()->NewMemoryMappedFileBuffer(path, result);
}

IOStatus DiskFileSystem::NewDirectory(
    const std::string& path, const IOOptions& options,
    std::unique_ptr<rocksdb::FSDirectory>* result, IODebugContext* debug) {
  IOStatus status = CheckFolder(path);
  if (!status.ok()) return status;
  return target()->NewDirectory(path, options, result, debug);
}

IOStatus DiskFileSystem::NewLogger(const std::string& path,
                                   const IOOptions& options,
                                   std::shared_ptr<rocksdb::Logger>* result,
                                   IODebugContext* debug) {
  IOStatus status = MakeFile(path);
  if (!status.ok()) return status;
  return target()->NewLogger(path, options, result, debug);
}

IOStatus DiskFileSystem::FileExists(const std::string& path, const IOOptions&,
                                    IODebugContext*) {
  Entry entry;
  IOStatus status = LookAt(path, &entry);
  // RocksDB expects NotFound for a missing file, and treats any other error as
  // a failure.
  return status.IsPathNotFound() ? IOStatus::NotFound(path) : status;
}

IOStatus DiskFileSystem::IsDirectory(const std::string& path, const IOOptions&,
                                     bool* is_folder, IODebugContext*) {
  Entry entry;
  IOStatus status = LookAt(path, &entry);
  if (status.ok()) *is_folder = IsFolder(entry);
  return status;
}

IOStatus DiskFileSystem::GetChildren(const std::string& path, const IOOptions&,
                                     std::vector<std::string>* names,
                                     IODebugContext*) {
  return List(path, std::numeric_limits<size_t>::max(), names);
}

IOStatus DiskFileSystem::List(const std::string& path, size_t limit,
                              std::vector<std::string>* names) {
  names->clear();
  DiskPlace place;
  IOStatus status = OpenPlace(path, &place);
  if (!status.ok()) return status;
  const int fd =
      ::openat(place.folder.get(), place.name.c_str(),
               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  // A link fails with the same error as a file, so the entry is examined to
  // tell them apart.
  if (fd < 0) {
    const int error = errno;
    Entry entry;
    if (LookIn(place, path, &entry).ok() && entry.kind == EntryKind::kLink) {
      return NotAStoreEntry(path, EntryKindName(entry.kind));
    }
    return DiskError("listing", path, error);
  }
  // The stream owns the descriptor from here on, and closes it.
  DIR* const folder = ::fdopendir(fd);
  if (folder == nullptr) {
    const Descriptor closed(fd);
    return DiskError("listing", path, errno);
  }
  errno = 0;
  while (names->size() < limit) {
    const dirent* const found = ::readdir(folder);
    if (found == nullptr) break;
    names->emplace_back(found->d_name);
    errno = 0;
  }
  if (errno != 0) status = DiskError("listing", path, errno);
  ::closedir(folder);
  return status;
}

IOStatus DiskFileSystem::GetChildrenFileAttributes(
    const std::string& path, const IOOptions& options,
    std::vector<rocksdb::FileAttributes>* files, IODebugContext* debug) {
  // Calls the methods of this class for each file.
  // NOLINTNEXTLINE(bugprone-parent-virtual-call): not the target's
  return FileSystem::GetChildrenFileAttributes(path, options, files, debug);
}

IOStatus DiskFileSystem::GetFileSize(const std::string& path, const IOOptions&,
                                     uint64_t* bytes, IODebugContext*) {
  Entry entry;
  IOStatus status = LookAt(path, &entry);
  if (!status.ok()) return status;
  *bytes = entry.bytes;
  if (entry.kind == EntryKind::kFile || IsFolder(entry)) return status;
  return NotAStoreEntry(path, EntryKindName(entry.kind));
}

IOStatus DiskFileSystem::GetFileModificationTime(const std::string& path,
                                                 const IOOptions&,
                                                 uint64_t* time_s,
                                                 IODebugContext*) {
  Entry entry;
  IOStatus status = LookAt(path, &entry);
  if (status.ok()) *time_s = static_cast<uint64_t>(entry.modified_s);
  return status;
}

IOStatus DiskFileSystem::NumFileLinks(const std::string& path, const IOOptions&,
                                      uint64_t* count, IODebugContext*) {
  Entry entry;
  IOStatus status = LookAt(path, &entry);
  if (status.ok()) *count = entry.links;
  return status;
}

IOStatus DiskFileSystem::AreFilesSame(const std::string& first,
                                      const std::string& second,
                                      const IOOptions&, bool* same,
                                      IODebugContext*) {
  Entry one;
  Entry other;
  IOStatus status = LookAt(first, &one);
  if (status.ok()) status = LookAt(second, &other);
  *same = status.ok() && one.device == other.device && one.inode == other.inode;
  return status;
}

IOStatus DiskFileSystem::GetFreeSpace(const std::string& path, const IOOptions&,
                                      uint64_t* bytes, IODebugContext*) {
  Descriptor folder;
  IOStatus status = OpenFolder(path, &folder);
  if (!status.ok()) return status;
  struct statvfs volume {};
  if (::fstatvfs(folder.get(), &volume) != 0) {
    return DiskError("asking for free space", path, errno);
  }
  // f_bavail excludes the blocks that are reserved for root.
  *bytes = static_cast<uint64_t>(volume.f_frsize) * volume.f_bavail;
  return status;
}

IOStatus DiskFileSystem::DeleteFile(const std::string& path, const IOOptions&,
                                    IODebugContext*) {
  DiskPlace place;
  IOStatus status = OpenPlace(path, &place);
  if (!status.ok()) return status;
  if (::unlinkat(place.folder.get(), place.name.c_str(), 0) == 0) return status;
  return DiskError("removing", path, errno);
}

IOStatus DiskFileSystem::CreateDir(const std::string& path, const IOOptions&,
                                   IODebugContext*) {
  // GuardedFileSystem sets the store's mode afterwards.
  constexpr mode_t kMode = 0755;
  DiskPlace place;
  IOStatus status = OpenPlace(path, &place);
  if (!status.ok()) return status;
  if (::mkdirat(place.folder.get(), place.name.c_str(), kMode) == 0) {
    return status;
  }
  return DiskError("making folder", path, errno);
}

IOStatus DiskFileSystem::CreateDirIfMissing(const std::string& path,
                                            const IOOptions& options,
                                            IODebugContext* debug) {
  Entry entry;
  IOStatus status = LookAt(path, &entry);
  if (status.ok()) {
    if (IsFolder(entry)) return status;
    return entry.kind == EntryKind::kFile
               ? DiskError("making folder", path, ENOTDIR)
               : NotAStoreEntry(path, EntryKindName(entry.kind));
  }
  if (!status.IsPathNotFound()) return status;
  status = CreateDir(path, options, debug);
  if (status.ok()) return status;
  // Another thread may have created it meanwhile.
  return LookAt(path, &entry).ok() && IsFolder(entry) ? IOStatus::OK() : status;
}

IOStatus DiskFileSystem::DeleteDir(const std::string& path, const IOOptions&,
                                   IODebugContext*) {
  DiskPlace place;
  IOStatus status = OpenPlace(path, &place);
  if (!status.ok()) return status;
  if (::unlinkat(place.folder.get(), place.name.c_str(), AT_REMOVEDIR) == 0) {
    return status;
  }
  return DiskError("removing folder", path, errno);
}

IOStatus DiskFileSystem::RenameFile(const std::string& from,
                                    const std::string& to, const IOOptions&,
                                    IODebugContext*) {
  DiskPlace old_place;
  DiskPlace new_place;
  IOStatus status = OpenPlace(from, &old_place);
  if (status.ok()) status = OpenPlace(to, &new_place);
  if (!status.ok()) return status;
  if (::renameat(old_place.folder.get(), old_place.name.c_str(),
                 new_place.folder.get(), new_place.name.c_str()) == 0) {
    return status;
  }
  return DiskError("renaming", absl::StrCat(from, " to ", to), errno);
}

IOStatus DiskFileSystem::LinkFile(const std::string& from,
                                  const std::string& to, const IOOptions&,
                                  IODebugContext*) {
  DiskPlace old_place;
  DiskPlace new_place;
  IOStatus status = CheckFile(from);
  if (status.ok()) status = OpenPlace(from, &old_place);
  if (status.ok()) status = OpenPlace(to, &new_place);
  if (!status.ok()) return status;
  if (::linkat(old_place.folder.get(), old_place.name.c_str(),
               new_place.folder.get(), new_place.name.c_str(), 0) == 0) {
    return status;
  }
  // RocksDB then copies the file.
  if (HasNoLink(errno)) {
    return IOStatus::NotSupported("the file cannot be linked", from);
  }
  return DiskError("linking", absl::StrCat(from, " as ", to), errno);
}

IOStatus DiskFileSystem::Truncate(const std::string& path, size_t bytes,
                                  const IOOptions& options,
                                  IODebugContext* debug) {
  IOStatus status = CheckFile(path);
  if (!status.ok()) return status;
  return target()->Truncate(path, bytes, options, debug);
}

IOStatus DiskFileSystem::LockFile(const std::string& path, const IOOptions&,
                                  rocksdb::FileLock** lock, IODebugContext*) {
  Entry entry;
  IOStatus status = LookAt(path, &entry);
  if (status.ok() &&
      (entry.kind == EntryKind::kLink || entry.kind == EntryKind::kOther)) {
    return NotAStoreEntry(path, EntryKindName(entry.kind));
  }
  if (!status.ok() && !status.IsPathNotFound()) return status;
  return LockMachineFile(path, lock);
}

IOStatus DiskFileSystem::UnlockFile(rocksdb::FileLock* lock, const IOOptions&,
                                    IODebugContext*) {
  return UnlockMachineFile(lock);
}

}  // namespace ckptdb::internal
