// SPDX-License-Identifier: Apache-2.0
#include "db/disk/copy_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>

#include "absl/strings/str_cat.h"
#include "db/disk/disk_folder.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

using rocksdb::FileSystem;
using rocksdb::IOOptions;

constexpr size_t kCopyBytes = size_t{1} << 20;

using HashState =
    std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)>;

// Reads up to `max_bytes` bytes and passes each part to `take`.
absl::StatusOr<CopiedBytes> ReadParts(
    FileSystem* files, const std::string& path, uint64_t max_bytes,
    const OnBytes& on_bytes,
    const std::function<rocksdb::IOStatus(const rocksdb::Slice&)>& take) {
  const std::string text = absl::StrCat("copying \"", path, "\"");
  std::unique_ptr<rocksdb::FSSequentialFile> file;
  CKPTDB_RETURN_IF_ERROR(FromRocks(
      files->NewSequentialFile(path, rocksdb::FileOptions(), &file, nullptr),
      text));
  const HashState state(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(state.get());
  const std::unique_ptr<char[]> scratch(new char[kCopyBytes]);
  CopiedBytes copied;
  while (copied.bytes < max_bytes) {
    const size_t wanted =
        std::min<uint64_t>(kCopyBytes, max_bytes - copied.bytes);
    rocksdb::Slice part;
    CKPTDB_RETURN_IF_ERROR(FromRocks(
        file->Read(wanted, IOOptions(), &part, scratch.get(), nullptr), text));
    if (part.empty()) break;
    XXH3_64bits_update(state.get(), part.data(), part.size());
    CKPTDB_RETURN_IF_ERROR(FromRocks(take(part), text));
    copied.bytes += part.size();
    CKPTDB_RETURN_IF_ERROR(on_bytes(part.size()));
  }
  copied.hash = XXH3_64bits_digest(state.get());
  return copied;
}

}  // namespace

absl::StatusOr<CopiedBytes> CopyFile(FileSystem* files, const std::string& from,
                                     const std::string& to, uint64_t max_bytes,
                                     const OnBytes& on_bytes, bool sync) {
  const std::string temporary = absl::StrCat(to, kCopyingSuffix);
  const std::string text = absl::StrCat("writing \"", to, "\"");
  std::unique_ptr<rocksdb::FSWritableFile> file;
  CKPTDB_RETURN_IF_ERROR(FromRocks(
      files->NewWritableFile(temporary, rocksdb::FileOptions(), &file, nullptr),
      text));
  absl::StatusOr<CopiedBytes> copied = ReadParts(
      files, from, max_bytes, on_bytes, [&](const rocksdb::Slice& part) {
        return file->Append(part, IOOptions(), nullptr);
      });
  rocksdb::IOStatus written = sync ? file->Fsync(IOOptions(), nullptr)
                                   : file->Flush(IOOptions(), nullptr);
  const rocksdb::IOStatus closed = file->Close(IOOptions(), nullptr);
  if (written.ok()) written = closed;
  if (written.ok() && copied.ok()) {
    written = files->RenameFile(temporary, to, IOOptions(), nullptr);
  }
  if (!written.ok() || !copied.ok()) {
    files->DeleteFile(temporary, IOOptions(), nullptr).PermitUncheckedError();
  }
  CKPTDB_RETURN_IF_ERROR(copied.status());
  CKPTDB_RETURN_IF_ERROR(FromRocks(written, text));
  return copied;
}

absl::Status SyncFile(FileSystem* files, const std::string& path) {
  const std::string text = absl::StrCat("syncing \"", path, "\"");
  std::unique_ptr<rocksdb::FSWritableFile> file;
  CKPTDB_RETURN_IF_ERROR(FromRocks(
      files->ReopenWritableFile(path, rocksdb::FileOptions(), &file, nullptr),
      text));
  CKPTDB_RETURN_IF_ERROR(FromRocks(file->Fsync(IOOptions(), nullptr), text));
  return FromRocks(file->Close(IOOptions(), nullptr), text);
}

absl::StatusOr<CopiedBytes> HashFile(FileSystem* files, const std::string& path,
                                     const OnBytes& on_bytes) {
  return ReadParts(files, path, kAllBytes, on_bytes, [](const rocksdb::Slice&) {
    return rocksdb::IOStatus::OK();
  });
}

absl::Status LinkFile(FileSystem* files, const std::string& from,
                      const std::string& to) {
  CKPTDB_RETURN_IF_ERROR(RemoveFile(files, to));
  return FromRocks(files->LinkFile(from, to, IOOptions(), nullptr),
                   absl::StrCat("linking \"", from, "\""));
}

absl::Status ExchangeFolders(const std::string& one, const std::string& other) {
  if (::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(),
                  RENAME_EXCHANGE) == 0) {
    return absl::OkStatus();
  }
  if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) {
    return absl::UnimplementedError(
        absl::StrCat("\"", one, "\" cannot be exchanged with \"", other, "\""));
  }
  return FromRocks(DiskError("replacing", other, errno), "exchanging folders");
}

}  // namespace ckptdb::internal
