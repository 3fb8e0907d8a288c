// SPDX-License-Identifier: Apache-2.0
#include "db/disk/files.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/disk/rocks_status.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr absl::string_view kTemporary = ".tmp";

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

absl::StatusOr<bool> IsFolder(FileSystem* files, const std::string& path) {
  bool folder = false;
  CKPTDB_RETURN_IF_ERROR(
      FromRocks(files->IsDirectory(path, IOOptions(), &folder, nullptr),
                absl::StrCat("looking at \"", path, "\"")));
  return folder;
}

}  // namespace

absl::StatusOr<Entry> LookAt(FileSystem* files, const std::string& path) {
  const std::string text = absl::StrCat("looking at \"", path, "\"");
  Entry entry;
  // The machine's file system returns everything in one call. Others, such as
  // those of tests, have only files and folders.
  if (files->CheckedCast<DiskFileSystem>() != nullptr) {
    CKPTDB_RETURN_IF_ERROR(
        FromRocks(DiskFileSystem::LookAt(path, &entry), text));
    return entry;
  }
  CKPTDB_ASSIGN_OR_RETURN(const bool folder, IsFolder(files, path));
  uint64_t modified_s = 0;
  rocksdb::IOStatus status =
      files->GetFileModificationTime(path, IOOptions(), &modified_s, nullptr);
  if (status.ok() && !folder) {
    status = files->GetFileSize(path, IOOptions(), &entry.bytes, nullptr);
  }
  CKPTDB_RETURN_IF_ERROR(FromRocks(status, text));
  entry.kind = folder ? EntryKind::kFolder : EntryKind::kFile;
  entry.modified_s = static_cast<int64_t>(modified_s);
  return entry;
}

absl::StatusOr<std::string> ReadFile(FileSystem* files, const std::string& path,
                                     uint64_t max_bytes) {
  // Most files have a few dozen bytes, and OWNER is read many times per save.
  constexpr size_t kAtOnce = size_t{4} << 10;
  std::unique_ptr<rocksdb::FSSequentialFile> file;
  rocksdb::IOStatus status =
      files->NewSequentialFile(path, rocksdb::FileOptions(), &file, nullptr);
  std::string bytes;
  std::string scratch(kAtOnce, '\0');
  while (status.ok()) {
    rocksdb::Slice part;
    status =
        file->Read(scratch.size(), IOOptions(), &part, scratch.data(), nullptr);
    if (status.ok() && part.empty()) return bytes;
    // The limit is checked before the bytes are kept, so a huge file takes no
    // memory.
    if (part.size() > max_bytes - bytes.size()) {
      return absl::FailedPreconditionError(
          absl::StrCat("\"", path, "\" has more than ", max_bytes, " bytes"));
    }
    bytes.append(part.data(), part.size());
  }
  return FromRocks(status, absl::StrCat("reading \"", path, "\""));
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

absl::Status ReplaceFile(FileSystem* files, const std::string& path,
                         absl::string_view bytes, bool sync) {
  std::random_device random;
  // A random name, so that two processes that replace the file concurrently do
  // not share a temporary file.
  const uint64_t number = (uint64_t{random()} << 32) | random();
  const std::string temporary =
      absl::StrCat(path, ".", absl::Hex(number, absl::kZeroPad16), kTemporary);
  // The bytes are durable before the name, so that no crash leaves the name
  // with other bytes.
  absl::Status status = WriteFile(files, temporary, bytes, sync);
  if (status.ok()) {
    status = FromRocks(files->RenameFile(temporary, path, IOOptions(), nullptr),
                       absl::StrCat("renaming to \"", path, "\""));
  }
  if (!status.ok()) {
    // A sweep removes a file that cannot be removed here.
    files->DeleteFile(temporary, IOOptions(), nullptr).PermitUncheckedError();
    return status;
  }
  return sync ? SyncFolder(files, ParentFolder(path)) : status;
}

bool IsTemporaryName(absl::string_view name) {
  return absl::EndsWith(name, kTemporary);
}

bool IsAbandoned(const Entry& entry, int64_t now_micros) {
  // A time far in the future counts as well, because it comes from a wrong
  // clock.
  return std::llabs(now_micros / 1'000'000 - entry.modified_s) >
         kTemporarySeconds;
}

absl::StatusOr<bool> Exists(FileSystem* files, const std::string& path) {
  const rocksdb::IOStatus status =
      files->FileExists(path, IOOptions(), nullptr);
  if (status.ok()) return true;
  // RocksDB also returns this for paths that are inaccessible or below a file.
  uint64_t bytes = 0;
  const rocksdb::IOStatus looked =
      files->GetFileSize(path, IOOptions(), &bytes, nullptr);
  if (looked.IsNotFound() || looked.IsPathNotFound()) return false;
  absl::Status failed =
      FromRocks(looked, absl::StrCat("looking for \"", path, "\""));
  if (absl::IsFailedPrecondition(failed)) {
    return absl::FailedPreconditionError(
        absl::StrCat(failed.message(),
                     "; a store and the folders above it must not be files"));
  }
  CKPTDB_RETURN_IF_ERROR(failed);
  return true;  // created between the two calls
}

absl::StatusOr<std::vector<std::string>> ListFolder(FileSystem* files,
                                                    const std::string& path,
                                                    size_t limit) {
  std::vector<std::string> names;
  // Only the machine's file system, which has a separate listing, has folders
  // of arbitrary size.
  const rocksdb::IOStatus status =
      files->CheckedCast<DiskFileSystem>() != nullptr && limit != kAllNames
          ? DiskFileSystem::List(path, limit, &names)
          : files->GetChildren(path, IOOptions(), &names, nullptr);
  // Checking the path again could not explain the error: the process that is
  // creating the store may create the folder meanwhile.
  if (status.IsNotFound() || status.IsPathNotFound()) {
    return std::vector<std::string>();
  }
  CKPTDB_RETURN_IF_ERROR(
      FromRocks(status, absl::StrCat("listing \"", path, "\"")));
  std::erase_if(names, [](const std::string& name) {
    return name == "." || name == "..";
  });
  std::sort(names.begin(), names.end());
  if (names.size() > limit) names.resize(limit);
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
  // A stager may be writing there, and a commit may be removing staged files.
  constexpr int kTries = 3;
  absl::Status removed;
  for (int i = 0; i < kTries; ++i) {
    const absl::StatusOr<Entry> entry = LookAt(files, path);
    if (absl::IsNotFound(entry.status())) return absl::OkStatus();
    CKPTDB_RETURN_IF_ERROR(entry.status());
    if (entry->kind == EntryKind::kMountPoint) {
      return absl::FailedPreconditionError(
          absl::StrCat("\"", path, "\" is a mount point"));
    }
    // A link is removed without following it, and a mount point is not crossed
    // (docs/security.md).
    if (entry->kind != EntryKind::kFolder) return RemoveFile(files, path);
    CKPTDB_ASSIGN_OR_RETURN(const auto names, ListFolder(files, path));
    for (const std::string& name : names) {
      removed.Update(RemoveTree(files, absl::StrCat(path, "/", name)));
    }
    CKPTDB_RETURN_IF_ERROR(removed);
    absl::Status last =
        FromRocks(files->DeleteDir(path, IOOptions(), nullptr),
                  absl::StrCat("removing folder \"", path, "\""));
    if (last.ok() || absl::IsNotFound(last)) return absl::OkStatus();
    // Somebody has created an entry meanwhile, so this tries again. If the
    // folder is empty and cannot be removed, that is the error.
    CKPTDB_ASSIGN_OR_RETURN(const auto left, ListFolder(files, path));
    if (left.empty()) return last;
  }
  return absl::UnavailableError(
      absl::StrCat("\"", path, "\" is still being written to"));
}

namespace {

void VisitBelow(FileSystem* files, const std::string& root,
                const std::string& below, const VisitEntry& visit) {
  const std::string path =
      below.empty() ? root : absl::StrCat(root, "/", below);
  const absl::StatusOr<std::vector<std::string>> names =
      ListFolder(files, path);
  if (!names.ok()) return visit(below, names.status());
  for (const std::string& name : *names) {
    const std::string child =
        below.empty() ? name : absl::StrCat(below, "/", name);
    const absl::StatusOr<Entry> entry =
        LookAt(files, absl::StrCat(root, "/", child));
    // It was removed after it was listed, such as by a concurrent sweep.
    if (absl::IsNotFound(entry.status())) continue;
    visit(child, entry);
    if (entry.ok() && (entry->kind == EntryKind::kFolder ||
                       entry->kind == EntryKind::kMountPoint)) {
      VisitBelow(files, root, child, visit);
    }
  }
}

}  // namespace

void VisitTree(FileSystem* files, const std::string& path,
               const VisitEntry& visit) {
  VisitBelow(files, path, "", visit);
}

absl::StatusOr<uint64_t> FreeBytes(FileSystem* files, const std::string& path) {
  uint64_t free = 0;
  absl::Status status =
      FromRocks(files->GetFreeSpace(path, IOOptions(), &free, nullptr),
                absl::StrCat("free space at \"", path, "\""));
  if (status.ok()) return free;
  if (!absl::IsNotFound(status)) return status;
  // NotFound would be mistaken for a missing step.
  return absl::FailedPreconditionError(absl::StrCat(
      "the folder \"", path,
      "\" was moved or removed while it was in use; move it back, or open the "
      "store where it is now"));
}

absl::Status CheckDiskSpace(FileSystem* files, const std::string& path,
                            uint64_t needed, uint64_t reserve) {
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t free, FreeBytes(files, path));
  // This form of the comparison cannot overflow.
  if (free >= reserve && free - reserve >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "\"", path, "\" needs ", needed, " bytes and a reserve of ", reserve,
      "; ", free, " are free; free some space",
      reserve > 0 ? ", or lower StoreOptions::reserve_bytes" : ""));
}

}  // namespace ckptdb::internal
