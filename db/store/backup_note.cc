// SPDX-License-Identifier: Apache-2.0
#include "db/store/backup_note.h"

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "db/disk/files.h"
#include "schema/bytes/page.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr absl::string_view kFirstLine = "ckptdb backup ";
constexpr int kNoteVersion = 1;

std::string HashText(absl::string_view bytes) {
  return absl::StrCat(absl::Hex(HashBytes(bytes), absl::kZeroPad16));
}

absl::Status BadLine(absl::string_view line) {
  return absl::DataLossError(
      absl::StrCat("the list of files has an invalid line \"", line, "\""));
}

bool ParseHex(absl::string_view text, uint64_t* number) {
  return text.size() == 16 && absl::SimpleHexAtoi(text, number);
}

// A path below the backup never leads out of it.
bool IsSafePath(absl::string_view path) {
  if (path.empty() || path[0] == '/') return false;
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

// "db/000012.sst 4096 0123456789abcdef", or "-" for the hash.
bool ParseFile(absl::string_view text, std::vector<NotedFile>* files) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ' ');
  NotedFile file;
  if (parts.size() != 3 || !IsSafePath(parts[0]) ||
      !absl::SimpleAtoi(parts[1], &file.bytes)) {
    return false;
  }
  file.path = std::string(parts[0]);
  if (parts[2] != "-" && !ParseHex(parts[2], &file.hash.emplace())) {
    return false;
  }
  files->push_back(std::move(file));
  return true;
}

bool ParseLine(absl::string_view line, BackupNote* note) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(line, absl::MaxSplits(' ', 1));
  const auto& [key, value] = parts;
  Backup& backup = note->backup;
  if (key == "file") return ParseFile(value, &note->files);
  if (key == "missing") {
    backup.bad_files.emplace_back(value);
    return true;
  }
  if (key == "uuid") {
    backup.store_uuid = std::string(value);
    return true;
  }
  if (key == "named") return absl::SimpleAtob(value, &backup.named);
  if (key == "made") return absl::SimpleAtoi(value, &backup.made_at_micros);
  if (key == "steps") return absl::SimpleAtoi(value, &backup.steps);
  if (key == "latest") return absl::SimpleAtoi(value, &backup.latest_step);
  if (key == "new") return absl::SimpleAtoi(value, &backup.new_bytes);
  return false;
}

absl::Status CheckHash(absl::string_view bytes, absl::string_view* body) {
  const size_t at = bytes.rfind("hash ");
  if (at == absl::string_view::npos) {
    return absl::DataLossError("the list of files is truncated");
  }
  *body = bytes.substr(0, at);
  if (absl::StrCat("hash ", HashText(*body), "\n") != bytes.substr(at)) {
    return absl::DataLossError("the list of files has another hash than noted");
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeBackupNote(const BackupNote& note) {
  const Backup& backup = note.backup;
  std::string text =
      absl::StrCat(kFirstLine, kNoteVersion, "\nuuid ", backup.store_uuid,
                   "\nmade ", backup.made_at_micros, "\nnamed ",
                   backup.named ? 1 : 0, "\nsteps ", backup.steps, "\nlatest ",
                   backup.latest_step, "\nnew ", backup.new_bytes, "\n");
  for (const NotedFile& file : note.files) {
    absl::StrAppend(&text, "file ", file.path, " ", file.bytes, " ");
    if (file.hash.has_value()) {
      absl::StrAppend(&text, absl::Hex(*file.hash, absl::kZeroPad16), "\n");
    } else {
      absl::StrAppend(&text, "-\n");
    }
  }
  for (const std::string& path : backup.bad_files) {
    absl::StrAppend(&text, "missing ", path, "\n");
  }
  return absl::StrCat(text, "hash ", HashText(text), "\n");
}

absl::StatusOr<BackupNote> DecodeBackupNote(absl::string_view bytes) {
  absl::string_view first = bytes.substr(0, bytes.find('\n'));
  int version = 0;
  if (!absl::ConsumePrefix(&first, kFirstLine) ||
      !absl::SimpleAtoi(first, &version)) {
    return BadLine(first);
  }
  if (version > kNoteVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the list of files has version ", version,
                     "; this library reads up to ", kNoteVersion));
  }
  absl::string_view body;
  CKPTDB_RETURN_IF_ERROR(CheckHash(bytes, &body));
  BackupNote note;
  bool is_first = true;
  for (const absl::string_view line :
       absl::StrSplit(body, '\n', absl::SkipEmpty())) {
    if (!is_first && !ParseLine(line, &note)) return BadLine(line);
    is_first = false;
  }
  note.backup.files = note.files.size();
  for (const NotedFile& file : note.files) note.backup.bytes += file.bytes;
  return note;
}

absl::Status CheckIsNoBackup(rocksdb::FileSystem* files,
                             const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(
      const bool found,
      Exists(files, absl::StrCat(path, "/", kBackupNoteName)));
  if (!found) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "\"", path,
      "\" is a backup, which can only be read; make a store from it with "
      "\"ckptdb restore-backup\" or CopyStore"));
}

}  // namespace ckptdb::internal
