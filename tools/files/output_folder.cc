// SPDX-License-Identifier: Apache-2.0
#include "tools/files/output_folder.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>  // NOLINT(modernize-deprecated-headers): renameat2
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "tools/files/file_error.h"

namespace ckptdb::tool {
namespace {

constexpr size_t kMaxFileNameBytes = 255;
constexpr absl::string_view kTemporarySuffix = ".ckptdb-part";

absl::Status SyncFolder(const std::string& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return FileError("open", path);
  absl::Status status;
  // Some file systems cannot sync folders.
  if (fsync(folder) != 0 && errno != EINVAL) status = FileError("sync", path);
  close(folder);
  return status;
}

absl::Status ExistsError(const std::string& path) {
  return absl::AlreadyExistsError(
      absl::StrCat("\"", path,
                   "\" exists; choose another folder, or pass --force to "
                   "replace it"));
}

// Removes the temporary files that a killed export left in a folder. Those that
// OpenNew would refuse stay.
void RemoveParts(const std::string& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!absl::StartsWith(name, ".") ||
        !absl::EndsWith(name, kTemporarySuffix)) {
      continue;
    }
    struct stat found {};
    const std::string path = entry->path().string();
    if (lstat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
        found.st_nlink == 1) {
      unlink(path.c_str());
    }
  }
}

bool Exists(const std::string& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0;
}

// Returns whether `from` took the name `to`, which was free. File systems
// without renameat2's flag check first.
bool RenameToFree(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                RENAME_NOREPLACE) == 0) {
    return true;
  }
  if (errno != EINVAL && errno != ENOSYS) return false;
  if (Exists(to)) {
    errno = EEXIST;
    return false;
  }
  return rename(from.c_str(), to.c_str()) == 0;
}

}  // namespace

OutputFile::~OutputFile() {
  if (file_ >= 0) close(file_);
}

// Where folders cannot be locked, a file of a killed export is reused.
absl::Status OutputFile::OpenNew() {
  constexpr mode_t kMode = 0666;  // as other programs' files: see umask
  file_ = open(path_.c_str(),
               O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, kMode);
  if (file_ < 0) return FileError("create", path_);
  struct stat found {};
  if (fstat(file_, &found) != 0) return FileError("create", path_);
  if (!S_ISREG(found.st_mode) || found.st_nlink != 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("\"", path_,
                     "\", a temporary file of exports, is not a regular file "
                     "with one link; remove it"));
  }
  created_ = true;
  if (ftruncate(file_, 0) != 0) return FileError("create", path_);
  if (bytes_ == OutputFolder::kUnknownBytes || bytes_ == 0) {
    return absl::OkStatus();
  }
  // A full disk is found here, before anything is read.
  if (fallocate(file_, 0, 0, static_cast<off_t>(bytes_)) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    return FileError("write", path_);
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Put(uint64_t at, absl::string_view bytes) {
  const uint64_t begin = at;
  const size_t all = bytes.size();
  while (!bytes.empty()) {
    const ssize_t written =
        pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError("write", path_);
    bytes.remove_prefix(static_cast<size_t>(written));
    at += static_cast<uint64_t>(written);
  }
  // Begins to write to the disk now, so that the sync at the end is short.
  constexpr size_t kLarge = size_t{1} << 20;
  if (all >= kLarge) {
    sync_file_range(file_, static_cast<off_t>(begin), static_cast<off_t>(all),
                    SYNC_FILE_RANGE_WRITE);
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Write(uint64_t at, absl::string_view bytes) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!created_) CKPTDB_RETURN_IF_ERROR(OpenNew());
  }
  CKPTDB_RETURN_IF_ERROR(Put(at, bytes));
  const std::lock_guard<std::mutex> lock(mutex_);
  written_ += bytes.size();
  return written_ == bytes_ ? Finish() : absl::OkStatus();
}

absl::Status OutputFile::Append(absl::string_view bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!created_) CKPTDB_RETURN_IF_ERROR(OpenNew());
  CKPTDB_RETURN_IF_ERROR(Put(written_, bytes));
  written_ += bytes.size();
  return absl::OkStatus();
}

absl::Status OutputFile::Finish() {
  if (fsync(file_) != 0) return FileError("sync", path_);
  done_ = true;
  const int closed = close(std::exchange(file_, -1));
  return closed == 0 ? absl::OkStatus() : FileError("close", path_);
}

absl::StatusOr<std::unique_ptr<OutputFolder>> OutputFolder::Open(
    const std::string& path, bool force) {
  std::unique_ptr<OutputFolder> folder(new OutputFolder(path, force));
  CKPTDB_RETURN_IF_ERROR(folder->MakeFolder(path));
  CKPTDB_RETURN_IF_ERROR(folder->Lock());
  return folder;
}

// Temporary names are the same for all exports, so only one may write. Some
// file systems cannot lock folders.
absl::Status OutputFolder::Lock() {
  lock_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) return FileError("open", path_);
  is_locked_ = flock(lock_, LOCK_EX | LOCK_NB) == 0;
  if (is_locked_) RemoveParts(path_);
  if (is_locked_ || errno != EWOULDBLOCK) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("another export is writing to \"", path_,
                   "\"; wait until it has ended, or choose another folder"));
}

absl::Status OutputFolder::MakeFolder(const std::string& path) {
  constexpr mode_t kMode = 0777;
  if (mkdir(path.c_str(), kMode) == 0) {
    made_folders_.push_back(path);
    return absl::OkStatus();
  }
  if (errno != EEXIST) return FileError("create the folder", path);
  struct stat found {};
  if (stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode)) {
    const bool is_ours = std::find(made_folders_.begin(), made_folders_.end(),
                                   path) != made_folders_.end();
    if (is_locked_ && !is_ours && cleaned_.insert(path).second) {
      RemoveParts(path);
    }
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", path, "\" is not a folder"));
}

OutputFolder::~OutputFolder() {
  if (!committed_) RemoveAll();
  if (lock_ >= 0) close(lock_);
}

void OutputFolder::RemoveAll() {
  for (const auto& file : files_) {
    if (file->created_) unlink(file->path_.c_str());
  }
  std::for_each(made_folders_.rbegin(), made_folders_.rend(),
                [](const std::string& path) { rmdir(path.c_str()); });
}

absl::StatusOr<OutputFile*> OutputFolder::Create(const std::string& name,
                                                 uint64_t bytes, bool replace) {
  const size_t slash = name.rfind('/');
  const std::string folder =
      slash == std::string::npos
          ? path_
          : absl::StrCat(path_, "/", name.substr(0, slash));
  const std::string base = name.substr(slash + 1);
  if (base.size() + kTemporarySuffix.size() + 1 > kMaxFileNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", name, "\" is too long for the name of a file: it has ",
        base.size(), " bytes, the limit is ",
        kMaxFileNameBytes - kTemporarySuffix.size() - 1,
        "; export it with --npz or --safetensors"));
  }
  if (slash != std::string::npos) CKPTDB_RETURN_IF_ERROR(MakeFolder(folder));
  const std::string path = absl::StrCat(path_, "/", name);
  replace = replace || force_;
  if (!replace && Exists(path)) return ExistsError(path);
  files_.emplace_back(
      new OutputFile(absl::StrCat(folder, "/.", base, kTemporarySuffix), name,
                     bytes, replace));
  return files_.back().get();
}

absl::Status OutputFolder::Rename(const OutputFile& file) {
  const std::string path = absl::StrCat(path_, "/", file.name_);
  const bool renamed = file.replace_
                           ? rename(file.path_.c_str(), path.c_str()) == 0
                           : RenameToFree(file.path_, path);
  if (renamed) return absl::OkStatus();
  return errno == EEXIST ? ExistsError(path) : FileError("rename to", path);
}

absl::Status OutputFolder::Commit() {
  for (const auto& file : files_) {
    const std::lock_guard<std::mutex> lock(file->mutex_);
    if (file->done_) continue;
    if (!file->created_) CKPTDB_RETURN_IF_ERROR(file->OpenNew());
    const bool whole =
        file->bytes_ == kUnknownBytes || file->bytes_ == file->written_;
    if (!whole) {
      return absl::InternalError(
          absl::StrCat("\"", file->name_, "\": ", file->written_, " of ",
                       file->bytes_, " bytes were written"));
    }
    CKPTDB_RETURN_IF_ERROR(file->Finish());
  }
  for (size_t i = 0; i < files_.size(); ++i) {
    absl::Status renamed = Rename(*files_[i]);
    if (!renamed.ok()) {
      // These names were free before.
      for (size_t k = 0; k < i; ++k) {
        if (files_[k]->replace_) continue;
        unlink(absl::StrCat(path_, "/", files_[k]->name_).c_str());
      }
      return renamed;
    }
    written_.push_back({files_[i]->name_, files_[i]->written_});
  }
  committed_ = true;
  CKPTDB_RETURN_IF_ERROR(SyncFolder(path_));
  for (const std::string& made : made_folders_) {
    CKPTDB_RETURN_IF_ERROR(SyncFolder(made));
    const std::string parent =
        std::filesystem::absolute(made).parent_path().string();
    CKPTDB_RETURN_IF_ERROR(SyncFolder(parent));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::tool
