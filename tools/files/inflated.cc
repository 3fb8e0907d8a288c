// SPDX-License-Identifier: Apache-2.0
#include "tools/files/inflated.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "tools/files/file_error.h"

namespace ckptdb::tool {
namespace {

std::string TemporaryFolder() {
  const char* variable = std::getenv("TMPDIR");
  return variable == nullptr || *variable == '\0' ? "/var/tmp" : variable;
}

// Creates a file that has no name, and so is deleted when it is closed.
absl::StatusOr<int> OpenUnlinked(const std::string& folder) {
  constexpr mode_t kMode = 0600;
  int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kMode);
  if (file >= 0) return file;
  std::string path = folder + "/ckptdb-import.XXXXXX";
  file = mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) return FileError("create", path);
  unlink(path.c_str());
  return file;
}

// Converts errno.
absl::Status WriteError(const std::string& folder, const ZipMember& member) {
  const absl::Status status = FileError("write to", folder);
  return {status.code(),
          absl::StrCat(status.message(), ", while decompressing \"",
                       member.name, "\" of ", member.bytes,
                       " bytes into it; set TMPDIR to a folder with more "
                       "space")};
}

}  // namespace

absl::Status InFile(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  return {status.code(), absl::StrCat(path, ": ", status.message())};
}

absl::StatusOr<std::shared_ptr<const MappedFile>> Inflated(
    const MappedFile& file, const ZipMember& member) {
  const std::string folder = TemporaryFolder();
  CKPTDB_ASSIGN_OR_RETURN(const int output, OpenUnlinked(folder));
  absl::Cleanup close_output = [output] { close(output); };
  const auto append = [&](absl::string_view piece) -> absl::Status {
    while (!piece.empty()) {
      const ssize_t written = write(output, piece.data(), piece.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return WriteError(folder, member);
      piece.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  };
  CKPTDB_RETURN_IF_ERROR(ReadZipMember(file.bytes(), member, append));
  std::move(close_output).Cancel();
  return MappedFile::Adopt(output, file.path());
}

void AddZipCheck(const std::shared_ptr<const MappedFile>& file,
                 const ZipMember& member, LoadedFiles* files) {
  files->checks.emplace_back([file, member](const LoadedFiles::Poll& poll) {
    const auto take = [&poll](absl::string_view) { return poll(); };
    return InFile(file->path(), ReadZipMember(file->bytes(), member, take));
  });
}

}  // namespace ckptdb::tool
