// SPDX-License-Identifier: Apache-2.0
#include "db/rocks/manifest_size.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "db/disk/files.h"
#include "db/quirks/file_names.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Upper bound of a new MANIFEST's bytes per table: its first and last key,
// which name the item, and some numbers. With names of 20 bytes they are 200.
constexpr uint64_t kBytesPerTable = uint64_t{2} << 10;

// Each save adds about 560 bytes. A reader takes 13 ms of CPU per MiB.
constexpr uint64_t kLeastMaxBytes = uint64_t{2} << 20;
constexpr uint64_t kMaxBytesPerTable = uint64_t{1} << 10;

uint64_t CountTables(const std::vector<std::string>& names) {
  return static_cast<uint64_t>(
      std::count_if(names.begin(), names.end(), IsTable));
}

// Returns 0 for a file that cannot be examined: the open reports the error.
uint64_t SizeOf(rocksdb::FileSystem* files, const std::string& path) {
  uint64_t bytes = 0;
  const rocksdb::IOStatus status =
      files->GetFileSize(path, rocksdb::IOOptions(), &bytes, nullptr);
  return status.ok() ? bytes : 0;
}

}  // namespace

absl::StatusOr<uint64_t> MaxManifestBytes(rocksdb::FileSystem* files,
                                          const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(const auto names, ListFolder(files, path));
  // Must be larger than a new MANIFEST's beginning, or each record would begin
  // another one.
  return std::max(kLeastMaxBytes, kMaxBytesPerTable * CountTables(names));
}

absl::StatusOr<OpeningBytes> BytesToOpen(rocksdb::FileSystem* files,
                                         const std::string& path) {
  constexpr uint64_t kFixed = uint64_t{256} << 10;
  CKPTDB_ASSIGN_OR_RETURN(const auto names, ListFolder(files, path));
  const absl::StatusOr<std::string> current =
      ReadFile(files, path + "/CURRENT");
  const std::string manifest =
      current.ok() ? std::string(absl::StripAsciiWhitespace(*current)) : "";
  OpeningBytes opening;
  opening.bytes = kFixed;
  for (const std::string& name : names) {
    if (!IsLog(name) && name != manifest) continue;
    const uint64_t size = SizeOf(files, absl::StrCat(path, "/", name));
    // The content of a log is written to a table. The MANIFEST is rewritten
    // with only its current state.
    opening.bytes +=
        IsLog(name)
            ? size
            : std::min(size, kFixed + kBytesPerTable * CountTables(names));
    if (size <= opening.largest_bytes) continue;
    opening.largest_file = name;
    opening.largest_bytes = size;
  }
  return opening;
}

}  // namespace ckptdb::internal
