// SPDX-License-Identifier: Apache-2.0
// The checks that need one process.
#include <sys/resource.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schema/status.h"
#include "tools/doctor/checks.h"
#include "tools/format.h"

namespace ckptdb::tool {
namespace {

constexpr size_t kSome = 5000;  // bytes: more than a page

using Seen = absl::StatusOr<std::string>;

std::string Bytes(char fill) { return std::string(kSome, fill); }

// Each check reads back what it has written: a store is unsafe on a file system
// where calls succeed but misbehave.
absl::Status ExpectBytes(FileCalls* files, const std::string& name,
                         const std::string& bytes) {
  CKPTDB_ASSIGN_OR_RETURN(const std::string found, ReadFile(files, name));
  if (found == bytes) return absl::OkStatus();
  return UnexpectedError(
      absl::StrCat("the file has other bytes than were written (", found.size(),
                   " of ", bytes.size(), ")"));
}

// A save hard-links its data files into the database and then removes the names
// in staging/, so the second name must keep the file.
Seen HardLink(const CheckContext& context) {
  FileCalls* const files = context.files;
  CKPTDB_RETURN_IF_ERROR(WriteFile(files, "linked", Bytes('l'), true));
  absl::Status linked = files->Link("linked", "link");
  // Some file systems without hard links return EPERM.
  if (absl::IsPermissionDenied(linked)) {
    linked = absl::UnimplementedError(linked.message());
  }
  CKPTDB_RETURN_IF_ERROR(linked);
  CKPTDB_ASSIGN_OR_RETURN(const auto first, files->Look("linked"));
  CKPTDB_ASSIGN_OR_RETURN(const auto second, files->Look("link"));
  if (first.inode != second.inode || second.links != 2) {
    return UnexpectedError(absl::StrCat(
        "the two names are not one file with 2 links: ", second.links,
        " links"));
  }
  CKPTDB_RETURN_IF_ERROR(files->Unlink("linked"));
  CKPTDB_RETURN_IF_ERROR(ExpectBytes(files, "link", Bytes('l')));
  return "the second name keeps the file";
}

Seen RenameReplaces(const CheckContext& context) {
  FileCalls* const files = context.files;
  CKPTDB_RETURN_IF_ERROR(WriteFile(files, "old", Bytes('o'), true));
  CKPTDB_RETURN_IF_ERROR(WriteFile(files, "new", Bytes('n'), true));
  CKPTDB_RETURN_IF_ERROR(files->Rename("new", "old"));
  CKPTDB_RETURN_IF_ERROR(ExpectBytes(files, "old", Bytes('n')));
  if (!absl::IsNotFound(files->Look("new").status())) {
    return UnexpectedError("the old name is still there after rename");
  }
  return "rename replaces a file";
}

Seen SyncFile(const CheckContext& context) {
  CKPTDB_RETURN_IF_ERROR(WriteFile(context.files, "synced", Bytes('s'), true));
  return "fsync succeeds";
}

Seen SyncFolder(const CheckContext& context) {
  CKPTDB_RETURN_IF_ERROR(context.files->SyncFolder());
  return "fsync of a folder succeeds";
}

Seen FileNames(const CheckContext& context) {
  FileCalls* const files = context.files;
  // Names as long as the store's longest, and some like RocksDB's.
  const std::vector<std::string> names = {
      std::string(64, 'n'), "MANIFEST-000005", "manifest-000005", "000017.sst"};
  for (const std::string& name : names) {
    CKPTDB_RETURN_IF_ERROR(WriteFile(files, name, name, false));
  }
  CKPTDB_ASSIGN_OR_RETURN(const auto listed, files->List());
  for (const std::string& name : names) {
    if (std::count(listed.begin(), listed.end(), name) != 1) {
      return UnexpectedError(absl::StrCat(
          "the file \"", name, "\" was made and is not listed once"));
    }
    CKPTDB_RETURN_IF_ERROR(ExpectBytes(files, name, name));
    CKPTDB_RETURN_IF_ERROR(files->Unlink(name));
  }
  CKPTDB_ASSIGN_OR_RETURN(const auto left, files->List());
  if (std::count(left.begin(), left.end(), names[0]) != 0) {
    return UnexpectedError("a removed file is still listed");
  }
  return "file names are kept and listed unchanged";
}

Seen FileModes(const CheckContext& context) {
  CKPTDB_RETURN_IF_ERROR(WriteFile(context.files, "mode", "", false));
  CKPTDB_ASSIGN_OR_RETURN(const auto entry, context.files->Look("mode"));
  constexpr uint32_t kOthers = 077;
  if ((entry.mode & kOthers) == 0) return "only its user can access a new file";
  return UnexpectedError(
      absl::StrFormat("a file made with mode 600 has mode %o", entry.mode));
}

// The store checks free space before a save, so implausible numbers are found
// here.
Seen FreeSpace(const CheckContext& context) {
  CKPTDB_ASSIGN_OR_RETURN(const auto space, context.files->GetSpace());
  const std::string text =
      absl::StrCat(FormatBytes(space.available_bytes), " of ",
                   FormatBytes(space.total_bytes), " available");
  const bool likely =
      space.available_bytes > 0 && space.available_bytes <= space.total_bytes;
  if (likely) return text;
  return UnexpectedError(text);
}

// Overwrites a longer file with a shorter one to check that O_TRUNC empties it.
Seen Truncate(const CheckContext& context) {
  FileCalls* const files = context.files;
  CKPTDB_RETURN_IF_ERROR(WriteFile(files, "cut", Bytes('1'), true));
  CKPTDB_RETURN_IF_ERROR(WriteFile(files, "cut", "2", true));
  CKPTDB_RETURN_IF_ERROR(ExpectBytes(files, "cut", "2"));
  return "O_TRUNC empties a file";
}

// An error of O_DIRECT is Unimplemented, because the store then writes through
// the page cache. Bytes that differ are unsafe.
Seen DirectIo(const CheckContext& context) {
  constexpr size_t kBlock = 4096;
  auto file = Open(context.files, "direct", O_WRONLY | O_CREAT | O_DIRECT);
  if (!file.ok()) return absl::UnimplementedError(file.status().message());
  std::string memory(2 * kBlock, 'd');
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  // O_DIRECT needs memory that is aligned to a block.
  const size_t shift = (kBlock - address % kBlock) % kBlock;
  const absl::Status status = context.files->Write(
      file->get(), absl::string_view(memory).substr(shift, kBlock));
  if (!status.ok()) return absl::UnimplementedError(status.message());
  CKPTDB_RETURN_IF_ERROR(
      ExpectBytes(context.files, "direct", std::string(kBlock, 'd')));
  return "a write with O_DIRECT succeeds";
}

Seen Allocate(const CheckContext& context) {
  CKPTDB_ASSIGN_OR_RETURN(const OpenFile file,
                          Open(context.files, "allocated", O_WRONLY | O_CREAT));
  CKPTDB_RETURN_IF_ERROR(context.files->Allocate(file.get(), kSome));
  return "fallocate succeeds";
}

// A store raises the soft limit, too.
void RaiseOpenFileLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// With a limit of 256, about this many remain for a process.
Seen OpenFiles(const CheckContext& context) {
  constexpr int kFiles = 200;
  RaiseOpenFileLimit();
  std::vector<OpenFile> open;
  for (int i = 0; i < kFiles; ++i) {
    CKPTDB_ASSIGN_OR_RETURN(
        open.emplace_back(),
        Open(context.files, "opened_often", O_RDONLY | O_CREAT));
  }
  return absl::StrCat(kFiles, " files can be open at once");
}

}  // namespace

const std::vector<Check>& LocalChecks() {
  static const auto* const kChecks = new std::vector<Check>{
      {"hard_link", HardLink, CheckResult::kUnsafe,
       "a save of more than 512 KiB fails when its files are linked into the "
       "database",
       "the files of a save are copied into the database, so a large save "
       "takes twice the time, and twice the space until it is committed"},
      {"rename_replaces", RenameReplaces, CheckResult::kUnsafe,
       "the database cannot be opened again, or opens in an older state"},
      {"sync_file", SyncFile, CheckResult::kUnsafe,
       "saves fail, because steps cannot be made durable"},
      {"sync_folder", SyncFolder, CheckResult::kUnsafe,
       "saves fail, because file names cannot be made durable"},
      {"truncate", Truncate, CheckResult::kUnsafe,
       "writing damages the database"},
      {"file_names", FileNames, CheckResult::kUnsafe,
       "files of the database are not found, or overwrite one another"},
      {"free_space", FreeSpace, CheckResult::kUnsafe,
       "saves are refused, because there seems to be no space for them"},
      {"file_modes", FileModes, CheckResult::kMissing,
       "other users of the machine may read the store; restrict access with "
       "mount options"},
      {"direct_io", DirectIo, CheckResult::kUnsafe,
       "data files written with O_DIRECT contain other bytes than were "
       "written",
       "data files go through the page cache, which costs CPU time and evicts "
       "the trainer's data from it"},
      {"fallocate", Allocate, CheckResult::kMissing,
       "no space can be reserved for a full disk",
       "the 8 MiB reserved for a full disk are written byte by byte"},
      {"open_files", OpenFiles, CheckResult::kMissing,
       "opening a store fails if the process can open fewer than 64 more "
       "files; raise the limit, for example with `ulimit -n 1024`"},
  };
  return *kChecks;
}

}  // namespace ckptdb::tool
