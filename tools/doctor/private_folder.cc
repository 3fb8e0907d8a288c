// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/private_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "schema/status.h"

namespace ckptdb::tool {
namespace {

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
constexpr mode_t kFolderMode = 0700;
constexpr size_t kMaxSession = 64;

absl::Status Failure(absl::string_view what, absl::string_view path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": ", what));
}

std::string NameOf(const std::string& session) {
  return absl::StrCat(kPrivatePrefix, session);
}

// Opens the folder that the user named, following symbolic links.
absl::StatusOr<int> OpenParent(const std::string& parent) {
  const int folder = ::open(parent.c_str(), kFolderFlags);
  if (folder >= 0) return folder;
  if (errno == ENOTDIR) {
    return absl::InvalidArgumentError(
        absl::StrCat(parent,
                     ": not a folder; expected the folder in which "
                     "stores are or will be"));
  }
  return Failure("cannot be opened", parent);
}

}  // namespace

std::string NewSession() {
  std::random_device random;
  std::string name;
  for (int i = 0; i < 4; ++i) {
    absl::StrAppend(
        &name, absl::Hex(static_cast<uint32_t>(random()), absl::kZeroPad8));
  }
  return name;
}

bool IsSessionName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxSession &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  c == '-';
         });
}

absl::StatusOr<std::unique_ptr<PrivateFolder>> PrivateFolder::Make(
    const std::string& parent, const std::string& session) {
  CKPTDB_ASSIGN_OR_RETURN(const int outer, OpenParent(parent));
  const std::string name = NameOf(session);
  const std::string path = absl::StrCat(parent, "/", name);
  // Nobody else uses a folder that mkdir has created, so everything removed
  // from it later belongs to this program.
  int inner = -1;
  if (::mkdirat(outer, name.c_str(), kFolderMode) == 0) {
    inner = ::openat(outer, name.c_str(), kFolderFlags | O_NOFOLLOW);
  }
  if (inner < 0) {
    const absl::Status status = Failure("cannot be made", path);
    ::close(outer);
    return status;
  }
  return std::unique_ptr<PrivateFolder>(
      new PrivateFolder(path, outer, inner, /*made=*/true));
}

absl::StatusOr<std::unique_ptr<PrivateFolder>> PrivateFolder::Join(
    const std::string& parent, const std::string& session) {
  CKPTDB_ASSIGN_OR_RETURN(const int outer, OpenParent(parent));
  const std::string name = NameOf(session);
  const std::string path = absl::StrCat(parent, "/", name);
  const int inner = ::openat(outer, name.c_str(), kFolderFlags | O_NOFOLLOW);
  if (inner < 0) {
    const absl::Status status = Failure("cannot be opened", path);
    ::close(outer);
    return status;
  }
  auto joined = std::unique_ptr<PrivateFolder>(
      new PrivateFolder(path, outer, inner, /*made=*/false));
  struct stat found {};
  // The name can be guessed, so another user may have created the folder.
  // Rejects it if others can write to it.
  constexpr mode_t kOthersWrite = 022;
  if (::fstat(inner, &found) != 0 || (found.st_mode & kOthersWrite) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path,
        " can be written to by other users; give --session another "
        "name"));
  }
  return joined;
}

absl::Status PrivateFolder::Remove() {
  if (!made_) return absl::OkStatus();
  const std::string name = path_.substr(path_.rfind('/') + 1);
  constexpr int kTries = 20;  // a host that was asked to end may still write
  for (int i = 0; i < kTries && made_; ++i) {
    FileCalls files(folder_);
    CKPTDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List());
    // It contains no folders. A file that cannot be removed keeps the folder
    // from being removed, which is reported.
    for (const std::string& each : names) files.Unlink(each).IgnoreError();
    if (::unlinkat(parent_, name.c_str(), AT_REMOVEDIR) == 0) made_ = false;
  }
  if (!made_) return absl::OkStatus();
  return Failure("cannot be removed; remove it by hand", path_);
}

PrivateFolder::~PrivateFolder() {
  Remove().IgnoreError();
  ::close(folder_);
  ::close(parent_);
}

}  // namespace ckptdb::tool
