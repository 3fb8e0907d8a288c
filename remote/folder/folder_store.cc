// SPDX-License-Identifier: Apache-2.0
#include "remote/folder/folder_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "db/base/uuid.h"
#include "remote/folder/rate_limit.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr char kUploads[] = "~uploads";  // '~' is in no key
constexpr size_t kMaxTokenBytes = 64;
constexpr std::array<char, 8> kTrailerMagic = {'c', 'k', 'p', 't',
                                               'd', 'b', 'o', '1'};
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

// The end of the file of an object.
struct Trailer {
  std::array<char, kMaxTokenBytes> token = {};
  std::array<char, 8> magic = kTrailerMagic;
};
constexpr uint64_t kTrailerBytes = sizeof(Trailer);
static_assert(kTrailerBytes == 72);

absl::Status FileError(absl::string_view doing, const std::string& path) {
  const int error = errno;
  const std::string text =
      absl::StrCat(doing, " \"", path, "\": ", std::strerror(error));
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(text);
    case ENOTDIR:
    case ENAMETOOLONG:
    case EOPNOTSUPP:
    case EMLINK:
    case EXDEV:
      return absl::FailedPreconditionError(text);
    default:
      return absl::UnavailableError(text);
  }
}

// With O_NONBLOCK, a FIFO in the place of an object is opened at once. It has
// no effect on files.
class OpenedFile {
 public:
  OpenedFile(const std::string& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0600)) {}
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;
  ~OpenedFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }

 private:
  const int fd_;
};

absl::Status CheckObjectKey(absl::string_view key) {
  for (const absl::string_view part : absl::StrSplit(key, '/')) {
    const bool valid =
        !part.empty() && part[0] != '.' &&
        std::all_of(part.begin(), part.end(), [](char c) {
          return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
        });
    if (valid) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("\"", key,
                     "\" is not a key; parts have letters, digits, '.', '_' "
                     "and '-', and do not begin with '.'"));
  }
  return absl::OkStatus();
}

absl::Status SyncFolderAt(const std::string& path) {
  const OpenedFile folder(path, O_RDONLY | O_DIRECTORY);
  if (!folder.ok()) return FileError("opening", path);
  if (::fsync(folder.get()) == 0) return absl::OkStatus();
  return FileError("syncing", path);
}

std::string ParentOf(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

// Creates the folder and its missing parents, with durable names.
absl::Status MakeFolderAt(const std::string& path, mode_t mode) {
  struct stat found {};
  if (path.empty() || ::stat(path.c_str(), &found) == 0) {
    return absl::OkStatus();
  }
  CKPTDB_RETURN_IF_ERROR(MakeFolderAt(ParentOf(path), mode));
  const bool made = ::mkdir(path.c_str(), mode) == 0;
  if (!made && errno != EEXIST) return FileError("creating", path);
  // The umask has reduced the mode.
  if (made && ::chmod(path.c_str(), mode) != 0) {
    return FileError("setting the mode of", path);
  }
  const std::string parent = ParentOf(path);
  return SyncFolderAt(parent.empty() ? "/" : parent);
}

absl::Status WriteAll(int fd, const std::string& path,
                      absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError("writing", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

// Returns the number of bytes read, fewer than asked for at the file's end.
absl::StatusOr<size_t> ReadSome(int fd, const std::string& path,
                                uint64_t offset, absl::Span<char> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(fd, out.data() + done, out.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError("reading", path);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

absl::Time ModifiedOf(const struct stat& found) {
  return absl::TimeFromTimespec(found.st_mtim);
}

class FolderStore : public ObjectStore {
 public:
  FolderStore(std::string folder, mode_t mode, const RemoteOptions& options)
      : folder_(std::move(folder)), mode_(mode), limit_(options) {}

  std::string Name() const override { return absl::StrCat("file://", folder_); }
  absl::Status PutIfAbsent(absl::string_view key, absl::string_view bytes,
                           absl::string_view token) override;
  absl::Status PutFileIfAbsent(absl::string_view key, const std::string& path,
                               absl::string_view token) override;
  absl::Status Get(absl::string_view key, uint64_t offset,
                   absl::Span<char> out) override;
  absl::StatusOr<ObjectInfo> Head(absl::string_view key) override;
  absl::StatusOr<std::vector<ObjectInfo>> List(absl::string_view prefix,
                                               absl::string_view after,
                                               uint64_t limit) override;
  absl::Status Delete(absl::string_view key) override;
  absl::Status AbortUploads(absl::string_view prefix,
                            absl::Time before) override;

 private:
  using WriteBytes = std::function<absl::Status(int fd)>;
  std::string PathOf(absl::string_view key) const {
    return absl::StrCat(folder_, "/", key);
  }
  absl::Status Put(absl::string_view key, absl::string_view token,
                   const WriteBytes& write);
  absl::Status WriteUpload(const std::string& upload, absl::string_view token,
                           const WriteBytes& write) const;
  absl::Status LinkTo(const std::string& upload, absl::string_view key,
                      absl::string_view token);
  absl::Status CompareToken(absl::string_view key, absl::string_view token);
  absl::Status Collect(const std::string& folder,
                       std::vector<std::string>* keys) const;

  const std::string folder_;
  const mode_t mode_;  // of folders; files cannot be executed
  RateLimit limit_;
};

// A put that finds the object of an earlier one with the same token has been
// done by that one.
absl::Status FolderStore::CompareToken(absl::string_view key,
                                       absl::string_view token) {
  CKPTDB_ASSIGN_OR_RETURN(const ObjectInfo found, Head(key));
  if (found.token == token) return SyncFolderAt(ParentOf(PathOf(key)));
  return absl::AlreadyExistsError(absl::StrCat("\"", PathOf(key), "\" exists"));
}

absl::Status FolderStore::WriteUpload(const std::string& upload,
                                      absl::string_view token,
                                      const WriteBytes& write) const {
  const OpenedFile file(upload, O_CREAT | O_EXCL | O_WRONLY);
  if (!file.ok()) return FileError("creating", upload);
  constexpr mode_t kFileModes = 0666;
  if (::fchmod(file.get(), mode_ & kFileModes) != 0) {
    return FileError("setting the mode of", upload);
  }
  CKPTDB_RETURN_IF_ERROR(write(file.get()));
  Trailer trailer;
  token.copy(trailer.token.data(), trailer.token.size());
  CKPTDB_RETURN_IF_ERROR(
      WriteAll(file.get(), upload,
               absl::string_view(reinterpret_cast<const char*>(&trailer),
                                 sizeof(trailer))));
  return ::fsync(file.get()) == 0 ? absl::OkStatus()
                                  : FileError("syncing", upload);
}

absl::Status FolderStore::LinkTo(const std::string& upload,
                                 absl::string_view key,
                                 absl::string_view token) {
  const std::string path = PathOf(key);
  CKPTDB_RETURN_IF_ERROR(MakeFolderAt(ParentOf(path), mode_));
  if (::link(upload.c_str(), path.c_str()) == 0) {
    return SyncFolderAt(ParentOf(path));
  }
  if (errno == EEXIST) return CompareToken(key, token);
  if (errno != ENOENT) return FileError("linking", path);
  return absl::AbortedError(absl::StrCat(
      "\"", upload, "\" was removed before it was linked to \"", path,
      "\", as by a collection with a short grace; push again"));
}

absl::Status FolderStore::Put(absl::string_view key, absl::string_view token,
                              const WriteBytes& write) {
  CKPTDB_RETURN_IF_ERROR(CheckObjectKey(key));
  if (token.size() > kMaxTokenBytes || absl::StrContains(token, '\0')) {
    return absl::InvalidArgumentError(
        absl::StrCat("a token has ", token.size(), " bytes; the limit is ",
                     kMaxTokenBytes, ", without NUL"));
  }
  // Before the bytes are written, which may be many.
  absl::Status found = CompareToken(key, token);
  if (!absl::IsNotFound(found)) return found;
  const std::string uploads = absl::StrCat(folder_, "/", kUploads);
  CKPTDB_RETURN_IF_ERROR(MakeFolderAt(uploads, mode_));
  const std::string upload = absl::StrCat(
      uploads, "/", absl::StrReplaceAll(key, {{"/", "~"}}), "~", NewUuid());
  absl::Status status = WriteUpload(upload, token, write);
  if (status.ok()) status = LinkTo(upload, key, token);
  ::unlink(upload.c_str());  // otherwise AbortUploads does
  return status;
}

absl::Status FolderStore::PutIfAbsent(absl::string_view key,
                                      absl::string_view bytes,
                                      absl::string_view token) {
  return Put(key, token, [&](int fd) -> absl::Status {
    for (uint64_t at = 0; at < bytes.size(); at += kPieceBytes) {
      const absl::string_view piece = bytes.substr(at, kPieceBytes);
      CKPTDB_RETURN_IF_ERROR(limit_.Take(piece.size()));
      CKPTDB_RETURN_IF_ERROR(WriteAll(fd, PathOf(key), piece));
    }
    return absl::OkStatus();
  });
}

absl::Status FolderStore::PutFileIfAbsent(absl::string_view key,
                                          const std::string& path,
                                          absl::string_view token) {
  return Put(key, token, [&](int fd) -> absl::Status {
    const OpenedFile from(path, O_RDONLY);
    if (!from.ok()) return FileError("opening", path);
    std::vector<char> piece(kPieceBytes);
    for (uint64_t at = 0;; at += kPieceBytes) {
      CKPTDB_ASSIGN_OR_RETURN(
          const size_t got,
          ReadSome(from.get(), path, at, absl::MakeSpan(piece)));
      if (got == 0) return absl::OkStatus();
      CKPTDB_RETURN_IF_ERROR(limit_.Take(got));
      CKPTDB_RETURN_IF_ERROR(
          WriteAll(fd, PathOf(key), absl::string_view(piece.data(), got)));
    }
  });
}

absl::StatusOr<ObjectInfo> FolderStore::Head(absl::string_view key) {
  CKPTDB_RETURN_IF_ERROR(CheckObjectKey(key));
  const std::string path = PathOf(key);
  const OpenedFile file(path, O_RDONLY);
  if (!file.ok()) return FileError("opening", path);
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) return FileError("reading", path);
  const auto bytes = static_cast<uint64_t>(found.st_size);
  Trailer trailer;
  size_t got = 0;
  if (S_ISREG(found.st_mode) && bytes >= kTrailerBytes) {
    CKPTDB_ASSIGN_OR_RETURN(
        got, ReadSome(file.get(), path, bytes - kTrailerBytes,
                      absl::MakeSpan(reinterpret_cast<char*>(&trailer),
                                     sizeof(trailer))));
  }
  if (got != sizeof(trailer) || trailer.magic != kTrailerMagic) {
    return absl::DataLossError(absl::StrCat(
        "\"", path, "\" is not an object of ckptdb, or is truncated"));
  }
  const char* const token = trailer.token.data();
  return ObjectInfo{
      .key = std::string(key),
      .size = bytes - kTrailerBytes,
      .modified = ModifiedOf(found),
      .token = std::string(token, ::strnlen(token, kMaxTokenBytes))};
}

absl::Status FolderStore::Get(absl::string_view key, uint64_t offset,
                              absl::Span<char> out) {
  CKPTDB_ASSIGN_OR_RETURN(const ObjectInfo found, Head(key));
  const std::string path = PathOf(key);
  if (offset > found.size || out.size() > found.size - offset) {
    return absl::DataLossError(absl::StrCat("\"", path, "\" has ", found.size,
                                            " bytes; expected at least ",
                                            offset + out.size()));
  }
  const OpenedFile file(path, O_RDONLY);
  if (!file.ok()) return FileError("opening", path);
  for (uint64_t at = 0; at < out.size(); at += kPieceBytes) {
    const absl::Span<char> piece = out.subspan(at, kPieceBytes);
    CKPTDB_RETURN_IF_ERROR(limit_.Take(piece.size()));
    CKPTDB_ASSIGN_OR_RETURN(const size_t got,
                            ReadSome(file.get(), path, offset + at, piece));
    if (got != piece.size()) {
      return absl::DataLossError(absl::StrCat("\"", path, "\" is truncated"));
    }
  }
  return absl::OkStatus();
}

// Appends the keys of the objects below `folder`, which is relative to the
// store's, or of all.
absl::Status FolderStore::Collect(const std::string& folder,
                                  std::vector<std::string>* keys) const {
  const std::string path = absl::StrCat(folder_, "/", folder);
  DIR* const opened = ::opendir(path.c_str());
  if (opened == nullptr && errno == ENOENT) return absl::OkStatus();
  if (opened == nullptr) return FileError("listing", path);
  std::vector<std::string> names;
  while (const dirent* const entry = ::readdir(opened)) {
    names.emplace_back(entry->d_name);
  }
  ::closedir(opened);
  for (const std::string& name : names) {
    const std::string key =
        folder.empty() ? name : absl::StrCat(folder, "/", name);
    if (!CheckObjectKey(key).ok()) continue;
    struct stat found {};
    if (::lstat(PathOf(key).c_str(), &found) != 0) continue;  // removed
    if (S_ISREG(found.st_mode)) {
      keys->push_back(key);
    } else if (S_ISDIR(found.st_mode)) {
      CKPTDB_RETURN_IF_ERROR(Collect(key, keys));
    } else {
      return absl::DataLossError(absl::StrCat(
          "\"", PathOf(key),
          "\" is neither a file nor a folder; remove it, or put the object "
          "back in its place"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ObjectInfo>> FolderStore::List(
    absl::string_view prefix, absl::string_view after, uint64_t limit) {
  std::vector<std::string> keys;
  CKPTDB_RETURN_IF_ERROR(
      Collect(std::string(absl::StripSuffix(prefix, "/")), &keys));
  std::sort(keys.begin(), keys.end());
  std::vector<ObjectInfo> listed;
  for (const std::string& key : keys) {
    if (absl::string_view(key) <= after) continue;
    if (listed.size() >= limit) break;
    struct stat found {};
    if (::lstat(PathOf(key).c_str(), &found) != 0) continue;  // removed
    // A file shorter than a trailer is truncated, and fails when it is read.
    const uint64_t bytes =
        std::max(static_cast<uint64_t>(found.st_size), kTrailerBytes) -
        kTrailerBytes;
    listed.push_back({key, bytes, ModifiedOf(found), /*token=*/""});
  }
  return listed;
}

absl::Status FolderStore::Delete(absl::string_view key) {
  CKPTDB_RETURN_IF_ERROR(CheckObjectKey(key));
  const std::string path = PathOf(key);
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return FileError("deleting", path);
}

absl::Status FolderStore::AbortUploads(absl::string_view prefix,
                                       absl::Time before) {
  const std::string uploads = absl::StrCat(folder_, "/", kUploads);
  DIR* const opened = ::opendir(uploads.c_str());
  if (opened == nullptr && errno == ENOENT) return absl::OkStatus();
  if (opened == nullptr) return FileError("listing", uploads);
  std::vector<std::string> names;
  const std::string wanted = absl::StrReplaceAll(prefix, {{"/", "~"}});
  while (const dirent* const entry = ::readdir(opened)) {
    if (absl::StartsWith(entry->d_name, wanted)) {
      names.emplace_back(entry->d_name);
    }
  }
  ::closedir(opened);
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(uploads, "/", name);
    struct stat found {};
    if (::lstat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode) ||
        ModifiedOf(found) >= before) {
      continue;
    }
    if (::unlink(path.c_str()) == 0 || errno == ENOENT) continue;
    return FileError("removing", path);
  }
  return absl::OkStatus();
}

// A checkpoint store removes files that it does not know, so objects must not
// lie in its folder.
absl::Status CheckOutsideStores(const std::string& folder) {
  std::error_code error;
  std::filesystem::path at = std::filesystem::weakly_canonical(folder, error);
  if (error) at = std::filesystem::path(folder).lexically_normal();
  for (;;) {
    if (std::filesystem::exists(at / "db" / "CURRENT", error)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", at.string(), "\" is a checkpoint store, and \"", folder,
          "\" lies inside it; choose a folder outside of the store"));
    }
    if (!at.has_relative_path()) return absl::OkStatus();
    at = at.parent_path();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenFolderStore(
    const std::string& folder, const RemoteOptions& options) {
  CKPTDB_RETURN_IF_ERROR(CheckOutsideStores(folder));
  constexpr mode_t kModeBits = 0777;
  mode_t mode = 0700;
  struct stat found {};
  if (::stat(folder.c_str(), &found) == 0) {
    if (!S_ISDIR(found.st_mode)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", folder, "\" is not a folder"));
    }
    mode = found.st_mode & kModeBits;
  }
  return std::make_unique<FolderStore>(folder, mode, options);
}

}  // namespace ckptdb::internal
