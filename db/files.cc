#include "ckptdb/db/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/rocks_status.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

using rocksdb::FileSystem;
using rocksdb::IOOptions;

absl::Status WriteFile(FileSystem* files, const std::string& path,
                       absl::string_view bytes, bool sync) {
  std::unique_ptr<rocksdb::FSWritableFile> file;
  rocksdb::IOStatus status =
      files->NewWritableFile(path, rocksdb::FileOptions(), &file, nullptr);
  if (status.ok()) status = file->Append(ToSlice(bytes), IOOptions(), nullptr);
  if (status.ok()) status = file->Flush(IOOptions(), nullptr);
  if (status.ok() && sync) status = file->Sync(IOOptions(), nullptr);
  if (status.ok()) status = file->Close(IOOptions(), nullptr);
  return FromRocks(status, absl::StrCat("writing \"", path, "\""));
}

absl::Status SyncFolder(FileSystem* files, const std::string& path) {
  std::unique_ptr<rocksdb::FSDirectory> folder;
  rocksdb::IOStatus status =
      files->NewDirectory(path, IOOptions(), &folder, nullptr);
  if (status.ok()) {
    status = folder->FsyncWithDirOptions(IOOptions(), nullptr,
                                         rocksdb::DirFsyncOptions());
  }
  return FromRocks(status, absl::StrCat("syncing \"", path, "\""));
}

absl::StatusOr<bool> IsFolder(FileSystem* files, const std::string& path) {
  bool folder = false;
  CKPTDB_RETURN_IF_ERROR(
      FromRocks(files->IsDirectory(path, IOOptions(), &folder, nullptr),
                absl::StrCat("looking at \"", path, "\"")));
  return folder;
}

}  // namespace

absl::StatusOr<std::string> ReadFile(FileSystem* files,
                                     const std::string& path) {
  std::unique_ptr<rocksdb::FSSequentialFile> file;
  rocksdb::IOStatus status =
      files->NewSequentialFile(path, rocksdb::FileOptions(), &file, nullptr);
  std::string bytes;
  std::string scratch(size_t{64} << 10, '\0');
  while (status.ok()) {
    rocksdb::Slice part;
    status =
        file->Read(scratch.size(), IOOptions(), &part, scratch.data(), nullptr);
    if (status.ok() && part.empty()) return bytes;
    bytes.append(part.data(), part.size());
  }
  return FromRocks(status, absl::StrCat("reading \"", path, "\""));
}

absl::Status ReplaceFile(FileSystem* files, const std::string& path,
                         absl::string_view bytes, bool sync) {
  const std::string temporary = absl::StrCat(path, ".tmp");
  CKPTDB_RETURN_IF_ERROR(WriteFile(files, temporary, bytes, sync));
  CKPTDB_RETURN_IF_ERROR(
      FromRocks(files->RenameFile(temporary, path, IOOptions(), nullptr),
                absl::StrCat("renaming to \"", path, "\"")));
  if (!sync) return absl::OkStatus();
  return SyncFolder(files, ParentFolder(path));
}

absl::StatusOr<bool> Exists(FileSystem* files, const std::string& path) {
  const rocksdb::IOStatus status =
      files->FileExists(path, IOOptions(), nullptr);
  if (status.ok()) return true;
  // RocksDB says so too of what it may not see, and of what is below a file.
  uint64_t bytes = 0;
  const rocksdb::IOStatus looked =
      files->GetFileSize(path, IOOptions(), &bytes, nullptr);
  if (looked.IsNotFound() || looked.IsPathNotFound()) return false;
  CKPTDB_RETURN_IF_ERROR(FromRocks(looked.ok() ? status : looked,
                                   absl::StrCat("looking for \"", path, "\"")));
  return true;
}

absl::StatusOr<std::vector<std::string>> ListFolder(FileSystem* files,
                                                    const std::string& path) {
  std::vector<std::string> names;
  const rocksdb::IOStatus status =
      files->GetChildren(path, IOOptions(), &names, nullptr);
  if (status.IsNotFound() || status.IsPathNotFound()) {
    // RocksDB says so too of what it may not read, and of a file.
    CKPTDB_ASSIGN_OR_RETURN(const bool exists, Exists(files, path));
    if (!exists) return std::vector<std::string>();
    CKPTDB_ASSIGN_OR_RETURN(const bool folder, IsFolder(files, path));
    const std::string text = absl::StrCat("listing \"", path, "\": ");
    if (folder) {
      return absl::PermissionDeniedError(text + std::strerror(EACCES));
    }
    return absl::FailedPreconditionError(text + std::strerror(ENOTDIR));
  }
  CKPTDB_RETURN_IF_ERROR(
      FromRocks(status, absl::StrCat("listing \"", path, "\"")));
  std::erase_if(names, [](const std::string& name) {
    return name == "." || name == "..";
  });
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status MakeFolders(FileSystem* files, const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string above = path.substr(0, slash);
    CKPTDB_ASSIGN_OR_RETURN(const bool exists, Exists(files, above));
    if (exists) continue;
    CKPTDB_RETURN_IF_ERROR(
        FromRocks(files->CreateDirIfMissing(above, IOOptions(), nullptr),
                  absl::StrCat("making folder \"", above, "\"")));
  }
  return FromRocks(files->CreateDirIfMissing(path, IOOptions(), nullptr),
                   absl::StrCat("making folder \"", path, "\""));
}

absl::Status RemoveFile(FileSystem* files, const std::string& path) {
  const rocksdb::IOStatus status =
      files->DeleteFile(path, IOOptions(), nullptr);
  if (status.IsNotFound() || status.IsPathNotFound()) return absl::OkStatus();
  return FromRocks(status, absl::StrCat("removing \"", path, "\""));
}

absl::Status RemoveTree(FileSystem* files, const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(const bool exists, Exists(files, path));
  if (!exists) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(const auto names, ListFolder(files, path));
  for (const std::string& name : names) {
    const std::string child = absl::StrCat(path, "/", name);
    // Others may be removing the same: a commit what it staged, and the sweep.
    const absl::StatusOr<bool> folder = IsFolder(files, child);
    if (absl::IsNotFound(folder.status())) continue;
    CKPTDB_RETURN_IF_ERROR(folder.status());
    CKPTDB_RETURN_IF_ERROR(*folder ? RemoveTree(files, child)
                                   : RemoveFile(files, child));
  }
  const absl::Status removed =
      FromRocks(files->DeleteDir(path, IOOptions(), nullptr),
                absl::StrCat("removing folder \"", path, "\""));
  return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
}

absl::StatusOr<uint64_t> TreeBytes(FileSystem* files, const std::string& path) {
  uint64_t bytes = 0;
  CKPTDB_ASSIGN_OR_RETURN(const auto names, ListFolder(files, path));
  for (const std::string& name : names) {
    const std::string child = absl::StrCat(path, "/", name);
    // What is gone by now, in a live store, takes no space.
    const absl::StatusOr<bool> folder = IsFolder(files, child);
    if (absl::IsNotFound(folder.status())) continue;
    CKPTDB_RETURN_IF_ERROR(folder.status());
    uint64_t size = 0;
    if (*folder) {
      CKPTDB_ASSIGN_OR_RETURN(size, TreeBytes(files, child));
    } else if (const auto status =
                   files->GetFileSize(child, IOOptions(), &size, nullptr);
               !status.ok() && !status.IsPathNotFound() &&
               !status.IsNotFound()) {
      return FromRocks(status, absl::StrCat("size of \"", child, "\""));
    }
    bytes += size;
  }
  return bytes;
}

absl::StatusOr<uint64_t> FreeBytes(FileSystem* files, const std::string& path) {
  uint64_t free = 0;
  CKPTDB_RETURN_IF_ERROR(
      FromRocks(files->GetFreeSpace(path, IOOptions(), &free, nullptr),
                absl::StrCat("free space at \"", path, "\"")));
  return free;
}

absl::Status CheckFreeBytes(FileSystem* files, const std::string& path,
                            uint64_t needed, uint64_t reserve) {
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t free, FreeBytes(files, path));
  if (free >= reserve && free - reserve >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("\"", path, "\" needs ", needed, " bytes and a reserve of ",
                   reserve, "; ", free, " are free"));
}

}  // namespace ckptdb::internal
