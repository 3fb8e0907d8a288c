// SPDX-License-Identifier: Apache-2.0
#include "db/disk/disk_folder.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ckptdb::internal {
namespace {

using rocksdb::IOStatus;

// O_PATH needs no permission to read the folder, only to pass through it.
constexpr int kFolderFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;

// Distinguishes a link from other reasons why a folder could not be opened.
bool IsLink(int folder, const std::string& name) {
  struct stat found {};
  return ::fstatat(folder, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISLNK(found.st_mode);
}

}  // namespace

IOStatus DiskError(absl::string_view doing, absl::string_view path, int error) {
  const std::string what = absl::StrCat("While ", doing, ": ", path);
  // A quota is remedied like a full disk, and is freed in the same way.
  if (error == ENOSPC || error == EDQUOT) {
    IOStatus full = IOStatus::NoSpace(what, std::strerror(error));
    full.SetRetryable(true);
    return full;
  }
  if (error == ENOENT) {
    return IOStatus::PathNotFound(what, std::strerror(error));
  }
  return IOStatus::IOError(what, std::strerror(error));
}

IOStatus NotAStoreEntry(absl::string_view path, absl::string_view what) {
  return IOStatus::IOError(
      absl::StrCat("\"", path, "\" is ", what, "; ", kNotAStoreEntry));
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

// Opens each component from the one above, so that no link is followed. Serves
// kernels without openat2, and names the refused component after openat2 has
// failed.
IOStatus OpenFolderByParts(const std::string& path, Descriptor* folder) {
  // Component by component, a path of any length could be opened, but calls
  // that take a whole path would fail.
  if (path.size() >= PATH_MAX) {
    return DiskError("opening folder", path, ENAMETOOLONG);
  }
  const bool absolute = !path.empty() && path[0] == '/';
  Descriptor open(::open(absolute ? "/" : ".", kFolderFlags));
  if (open.get() < 0) return DiskError("opening folder", path, errno);
  size_t end = 0;
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    end += part.size() + 1;
    if (part.empty() || part == ".") continue;
    const std::string name(part);
    const int next =
        ::openat(open.get(), name.c_str(), kFolderFlags | O_NOFOLLOW);
    if (next < 0) {
      const int error = errno;
      const std::string reached = path.substr(0, end - 1);
      if (IsLink(open.get(), name)) {
        return NotAStoreEntry(reached, "a symbolic link");
      }
      return DiskError("opening folder", reached, error);
    }
    open = Descriptor(next);
  }
  *folder = std::move(open);
  return IOStatus::OK();
}

IOStatus OpenFolder(const std::string& path, Descriptor* folder) {
  struct open_how how {};
  how.flags = kFolderFlags;
  // One call for the whole path, which the kernel refuses if any component is a
  // link.
  how.resolve = RESOLVE_NO_SYMLINKS;
  const long fd =
      ::syscall(SYS_openat2, AT_FDCWD, path.empty() ? "." : path.c_str(), &how,
                sizeof(how));
  if (fd < 0) return OpenFolderByParts(path, folder);
  *folder = Descriptor(static_cast<int>(fd));
  return IOStatus::OK();
}

// Opens the folder of a path. Its last component is then accessed by name in
// that folder.
IOStatus OpenPlace(const std::string& path, DiskPlace* place) {
  const size_t last = path.find_last_not_of('/');
  if (last == std::string::npos) {  // "" or "/"
    place->name = ".";
    return OpenFolder(path, &place->folder);
  }
  const std::string whole = path.substr(0, last + 1);
  const size_t slash = whole.rfind('/');
  place->name = whole.substr(slash + 1);
  if (slash == std::string::npos) return OpenFolder(".", &place->folder);
  return OpenFolder(whole.substr(0, slash == 0 ? 1 : slash), &place->folder);
}

}  // namespace ckptdb::internal
