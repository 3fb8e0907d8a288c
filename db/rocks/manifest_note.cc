#include "ckptdb/db/rocks/manifest_note.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ckptdb/db/disk/files.h"
#include "ckptdb/db/disk/rocks_status.h"
#include "ckptdb/schema/page.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

using rocksdb::IOOptions;

// Little-endian, and the hash of what is before it.
constexpr size_t kNoteBytes = 5 * sizeof(uint64_t);

// The hash of the first `bytes` bytes; none when the file is shorter.
absl::StatusOr<std::optional<uint64_t>> HashStart(rocksdb::FileSystem* files,
                                                  const std::string& path,
                                                  uint64_t bytes) {
  const std::string place = absl::StrCat("reading \"", path, "\"");
  std::unique_ptr<rocksdb::FSSequentialFile> file;
  CKPTDB_RETURN_IF_ERROR(FromRocksRead(
      files->NewSequentialFile(path, rocksdb::FileOptions(), &file, nullptr),
      place));
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
  return watch.Synced().hash;
}

}  // namespace

std::string EncodeManifestNote(const ManifestNote& note) {
  const std::array<uint64_t, 4> words = {note.sequence, note.number, note.bytes,
                                         note.hash};
  std::string bytes(reinterpret_cast<const char*>(words.data()), sizeof(words));
  const uint64_t hash = HashBytes(bytes);
  bytes.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
  return bytes;
}

std::optional<ManifestNote> DecodeManifestNote(absl::string_view bytes) {
  if (bytes.size() != kNoteBytes) return std::nullopt;
  std::array<uint64_t, 4> words{};
  std::memcpy(words.data(), bytes.data(), sizeof(words));
  const ManifestNote note{words[0], words[1], words[2], words[3]};
  if (EncodeManifestNote(note) != bytes) return std::nullopt;
  return note;
}

std::optional<uint64_t> ManifestNumber(absl::string_view name) {
  uint64_t number = 0;
  if (!absl::ConsumePrefix(&name, "MANIFEST-")) return std::nullopt;
  if (!absl::SimpleAtoi(name, &number)) return std::nullopt;
  return number;
}

absl::Status CheckManifest(rocksdb::FileSystem* files, const std::string& path,
                           const ManifestNote& note) {
  const std::string current_path = path + "/CURRENT";
  absl::StatusOr<std::string> read = ReadFile(files, current_path);
  if (absl::IsNotFound(read.status())) {
    return absl::DataLossError(read.status().message());
  }
  CKPTDB_ASSIGN_OR_RETURN(std::string current, std::move(read));
  if (!current.empty() && current.back() == '\n') current.pop_back();
  const std::optional<uint64_t> number = ManifestNumber(current);
  if (!number.has_value() || *number < note.number) {
    return absl::DataLossError(absl::StrCat("\"", current_path, "\" names \"",
                                            current, "\", but MANIFEST ",
                                            note.number, " was in use"));
  }
  const std::string manifest = absl::StrCat(path, "/", current);
  CKPTDB_ASSIGN_OR_RETURN(const bool exists, Exists(files, manifest));
  if (!exists) {
    return absl::DataLossError(
        absl::StrCat("\"", manifest, "\", which CURRENT names, is missing"));
  }
  // A newer one begins with all that the older one has come to.
  if (*number > note.number) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(const std::optional<uint64_t> hash,
                          HashStart(files, manifest, note.bytes));
  if (!hash.has_value()) {
    return absl::DataLossError(absl::StrCat(
        "\"", manifest, "\" has lost its end: it had ", note.bytes, " bytes"));
  }
  if (*hash == note.hash) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "\"", manifest, "\" is damaged: its first ", note.bytes,
      " bytes have hash ", absl::Hex(*hash), ", not ", absl::Hex(note.hash)));
}

ManifestWatch::ManifestWatch() : hash_(XXH3_createState()) {}

void ManifestWatch::Start(uint64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  XXH3_64bits_reset(hash_.get());
  written_ = {};
  written_.number = number;
}

void ManifestWatch::Append(uint64_t number, absl::string_view bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (number != written_.number) return;
  XXH3_64bits_update(hash_.get(), bytes.data(), bytes.size());
  written_.bytes += bytes.size();
}

void ManifestWatch::Sync(uint64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (number != written_.number) return;
  synced_ = written_;
  synced_.hash = XXH3_64bits_digest(hash_.get());
}

void ManifestWatch::Fail() {
  const std::lock_guard<std::mutex> lock(mutex_);
  failed_ = true;
}

bool ManifestWatch::failed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failed_;
}

ManifestNote ManifestWatch::Synced() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return synced_;
}

}  // namespace ckptdb::internal
