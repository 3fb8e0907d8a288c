// SPDX-License-Identifier: Apache-2.0
#include "db/rocks/manifest_note.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/quirks/file_names.h"
#include "schema/bytes/page.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

using rocksdb::IOOptions;

// Four little-endian words and their hash.
constexpr size_t kNoteBytes = 5 * sizeof(uint64_t);

// Returns the hash of the first `bytes` bytes, or nothing if the file is
// shorter.
absl::StatusOr<std::optional<uint64_t>> HashStart(rocksdb::FileSystem* files,
                                                  const std::string& path,
                                                  uint64_t bytes) {
  const std::string place = absl::StrCat("reading \"", path, "\"");
  std::unique_ptr<rocksdb::FSSequentialFile> file;
  CKPTDB_RETURN_IF_ERROR(FromRocksRead(
      files->NewSequentialFile(path, rocksdb::FileOptions(), &file, nullptr),
      place));
  // Uses the code that hashes the MANIFEST while it is written, so that both
  // hashes agree.
  ManifestWatch watch;
  watch.Start(1);
  std::string scratch(size_t{256} << 10, '\0');
  while (bytes > 0) {
    rocksdb::Slice part;
    CKPTDB_RETURN_IF_ERROR(
        FromRocksRead(file->Read(std::min<uint64_t>(bytes, scratch.size()),
                                 IOOptions(), &part, scratch.data(), nullptr),
                      place));
    if (part.empty()) return std::nullopt;
    watch.Append(1, FromSlice(part));
    bytes -= part.size();
  }
  watch.Sync(1);
  watch.Named();
  return watch.Synced().hash;
}

}  // namespace

std::string EncodeManifestNote(const ManifestNote& note) {
  const std::array<uint64_t, 4> words = {note.sequence, note.manifest.number,
                                         note.manifest.bytes,
                                         note.manifest.hash};
  std::string bytes(reinterpret_cast<const char*>(words.data()), sizeof(words));
  const uint64_t hash = HashBytes(bytes);
  bytes.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
  return bytes;
}

// Returns nothing for a note that is torn or has another length; such a note is
// ignored because notes are written without a sync.
std::optional<ManifestNote> DecodeManifestNote(absl::string_view bytes) {
  if (bytes.size() != kNoteBytes) return std::nullopt;
  std::array<uint64_t, 4> words{};
  std::memcpy(words.data(), bytes.data(), sizeof(words));
  const ManifestNote note{words[0], {words[1], words[2], words[3]}};
  if (EncodeManifestNote(note) != bytes) return std::nullopt;
  return note;
}

absl::Status CheckManifest(rocksdb::FileSystem* files, const std::string& path,
                           const ManifestState& noted) {
  const std::string current_path = path + "/CURRENT";
  absl::StatusOr<std::string> read = ReadFile(files, current_path);
  if (absl::IsNotFound(read.status())) {
    return absl::DataLossError(read.status().message());
  }
  CKPTDB_ASSIGN_OR_RETURN(std::string current, std::move(read));
  if (!current.empty() && current.back() == '\n') current.pop_back();
  const std::optional<uint64_t> number = ManifestNumber(current);
  // CURRENT never returns to an older MANIFEST, so a manual change or damage
  // caused this.
  if (!number.has_value() || *number < noted.number) {
    return absl::DataLossError(absl::StrCat("\"", current_path, "\" names \"",
                                            current, "\", but MANIFEST ",
                                            noted.number, " was in use"));
  }
  const std::string manifest = absl::StrCat(path, "/", current);
  CKPTDB_ASSIGN_OR_RETURN(const bool exists, Exists(files, manifest));
  if (!exists) {
    return absl::DataLossError(
        absl::StrCat("\"", manifest, "\", which CURRENT names, is missing",
                     kCopiedWhileWritten));
  }
  // A newer MANIFEST begins with the complete state of the older one.
  if (*number > noted.number) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(const std::optional<uint64_t> hash,
                          HashStart(files, manifest, noted.bytes));
  if (!hash.has_value()) {
    return absl::DataLossError(
        absl::StrCat("\"", manifest, "\" is truncated: expected at least ",
                     noted.bytes, " bytes", kCopiedWhileWritten));
  }
  if (*hash == noted.hash) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("\"", manifest, "\" is damaged: its first ", noted.bytes,
                   " bytes have hash ", absl::Hex(*hash), ", expected ",
                   absl::Hex(noted.hash)));
}

}  // namespace ckptdb::internal
