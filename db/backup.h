// SPDX-License-Identifier: Apache-2.0
// Copies of whole stores: backups, which may be made while a trainer saves, and
// stores that are made from them.
//
//   CKPTDB_ASSIGN_OR_RETURN(const Backup backup,
//                           MakeBackup("checkpoints", "/backups/ctr"));
//   CKPTDB_RETURN_IF_ERROR(VerifyBackup(backup.path));
//   CKPTDB_RETURN_IF_ERROR(CopyStore(backup.path, "checkpoints-2"));
//
// A backup is a folder below a folder of backups. It is a complete store as of
// one moment, which Reader::Open reads and Store::Open refuses, and a file
// BACKUP that lists its files.
// Data files never change, so backups share them: with the store by hard links
// where both are on one file system, otherwise with earlier backups. Damage to
// the disk then damages all of them; CopyOptions::links prevents sharing with
// the store.
//
// All calls are synchronous and thread-safe.
#ifndef CKPTDB_DB_BACKUP_H_
#define CKPTDB_DB_BACKUP_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/options.h"

namespace ckptdb {

struct CopyOptions {
  // MakeBackup: the folder's name. Default: the time, "20261126T133116Z".
  std::string name = {};
  // Hard links to the source's data files where possible; otherwise copies.
  bool links = true;
  // CopyStore: replaces a store at the target. Never replaces other folders.
  bool replace = false;
  // CopyStore: called with the path of the complete copy, a store that nobody
  // has open, before it appears at the target. An error abandons the copy.
  std::function<absl::Status(const std::string& path)> prepare = {};
  // Polled before each file and each MiB; the call then returns Cancelled.
  std::function<bool()> cancelled = {};
  // Called with the bytes of data files, linked or copied.
  std::function<void(uint64_t done_bytes, uint64_t all_bytes)> progress = {};
};

struct Backup {
  std::string name;
  std::string path;
  std::string store_uuid;
  int64_t made_at_micros = 0;  // since 1970, UTC
  bool named = false;          // by CopyOptions::name
  uint64_t steps = 0;
  int64_t latest_step = -1;  // -1 without a step
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t new_bytes = 0;  // in no earlier backup when it was made
  // Data files that were missing in the store, as in Store::BadFiles.
  std::vector<std::string> bad_files;
  std::string damage;  // why its list of files cannot be read; empty if it can
};

// Makes a backup of the store in `folder`, which is created. On return it is
// durable, opens as a store, and its files have the listed sizes. Writes
// nothing to the store except, for copies, a lease. A call that fails or is
// killed leaves an unfinished folder, with which the next call continues.
//
// Returns NotFound if there is no store, AlreadyExists if the name is in use,
// InvalidArgument for an invalid name or a folder within the store, and
// Unavailable while another process writes to `folder`, or if the owner writes
// too often for a consistent copy.
absl::StatusOr<Backup> MakeBackup(absl::string_view store,
                                  absl::string_view folder,
                                  const CopyOptions& options = {});

// Returns the backups in `folder`, oldest first; folders without a file BACKUP
// are left out.
absl::StatusOr<std::vector<Backup>> ListBackups(absl::string_view folder);

// Returns the backup in `path` itself. Returns NotFound if it is not one.
absl::StatusOr<Backup> FindBackup(absl::string_view path);

// Reads all files of a backup, compares their sizes and, for copied files,
// checksums with its list, and verifies every step. Returns DataLoss naming the
// first file or step that is damaged.
absl::Status VerifyBackup(absl::string_view path,
                          const ReadOptions& options = {});

// Removes backups of the store that are older than its newest `keep` complete
// backups, and incomplete ones that are older than `keep` others. A backup is
// complete if no file of the store was missing. Backups that were given a name
// stay, and do not count. Returns the removed names.
absl::StatusOr<std::vector<std::string>> RemoveOldBackups(
    absl::string_view folder, absl::string_view store_uuid, uint64_t keep);

// Makes a store from a backup, or from a store that may be open. The new store
// has the same steps, but its own uuid: a reader or follower of the source
// never takes it for the source, and leases and posts for one do not apply to
// the other. Waiting posts are applied. It appears at `to` complete and at
// once.
//
// Returns AlreadyExists if `to` exists and is not an empty folder, unless
// CopyOptions::replace is set; then FailedPrecondition if it is not a store or
// contains foreign files, and Unavailable with kHolderPayload if it has an
// owner. Returns DataLoss if a file of a backup has another size than listed,
// or, when it is copied, another checksum.
absl::Status CopyStore(absl::string_view from, absl::string_view to,
                       const CopyOptions& options = {});

}  // namespace ckptdb

#endif  // CKPTDB_DB_BACKUP_H_
