// SPDX-License-Identifier: Apache-2.0
// The RocksDB database of a store, opened by its owner or by a follower;
// internal to db/.
#ifndef CKPTDB_DB_ROCKS_DATABASE_H_
#define CKPTDB_DB_ROCKS_DATABASE_H_

#include <rocksdb/db.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/disk/environment.h"
#include "db/disk/open_files.h"
#include "db/options.h"
#include "db/quirks/lazy_tables.h"
#include "db/rocks/change_batch.h"
#include "db/rocks/folder_state.h"
#include "db/rocks/guarded_file_system.h"
#include "db/rocks/manifest_note.h"
#include "db/rocks/owner_lock.h"
#include "db/rocks/rocks_options.h"
#include "schema/types.h"

namespace ckptdb::internal {

// Each range is [begin, end).
using KeyRanges = std::vector<std::pair<std::string, std::string>>;

class DatabaseListener;
class OutsideTables;
struct OpenDatabase;

// Thread-safe.
//
// An exception that leaves RocksDB (std::bad_alloc) leaves a call half done:
// its writer queue, references and locks remain, and the next call may wait
// forever or end the process (line 38 of docs/rocksdb.md). So the database is
// then unusable, for reading as well, and is never closed: see Abandon.
class Database {
 public:
  // Opens it for reading, as of one moment, with or without an owner. Writes
  // nothing. Returns NotFound if there is no store, and DataLoss naming the
  // damaged or missing part, except files of bulk, whose damage is found by
  // reading. Retries for seconds if the owner writes constantly or the file
  // system shows stale files; then returns Unavailable with the number of
  // tries.
  static absl::StatusOr<std::unique_ptr<Database>> OpenFollower(
      absl::string_view store, const internal::Environment& environment,
      bool direct_reads);

  // Opens the database for writing, and creates it if it does not exist.
  // Opening begins another MANIFEST, and removes the files that it does not
  // name. So an existing database is first opened as a follower, to check
  // whether it is usable and which tables, `corrupt`, must be left out. It
  // writes while `lock` is held.
  //
  // Both return ResourceExhausted if the process may open too few files.
  static absl::StatusOr<std::unique_ptr<Database>> OpenOwner(
      absl::string_view store, const internal::Environment& environment,
      const FileModes& modes, bool direct_reads, const CorruptTables& corrupt,
      const std::shared_ptr<const OwnerLock>& lock,
      const decltype(StoreOptions::logger)& logger = {});

  // Returns whether RocksDB creates files of this name in a database's folder.
  static bool HasFileName(absl::string_view name);
  // Returns whether this names an unfinished file of a process that died, which
  // RocksDB never removes.
  static bool IsLeftover(absl::string_view name);

  // Closes it and ignores errors. If the process is exiting, a database that is
  // still open stays open, because RocksDB can no longer close it.
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Waits for background work, and closes all files. Only Close and the
  // destructor may be called afterwards.
  absl::Status Close();

  rocksdb::DB* rocks() const { return rocks_.get(); }
  // Calls `function`, which calls RocksDB. An exception makes the database
  // unusable, and is rethrown.
  template <typename Function>
  auto Guarded(Function&& function) const {
    try {
      return std::forward<Function>(function)();
    } catch (...) {
      Break();
      throw;
    }
  }
  rocksdb::ColumnFamilyHandle* family(Family family) const {
    return handles_[static_cast<size_t>(family)];
  }
  rocksdb::ColumnFamilyHandle* family(Item::Placement placement) const {
    return family(placement == Item::Placement::kInline ? Family::kInline
                                                        : Family::kBulk);
  }
  const std::shared_ptr<GuardedFileSystem>& files() const { return files_; }
  // The tables that were left out when it was opened.
  const CorruptTables& corrupt_tables() const { return corrupt_tables_; }

  // Returns NotFound if the entry does not exist.
  absl::StatusOr<std::string> Get(Family family, absl::string_view key) const;

  // Calls `visit` for every entry of a family whose key starts with `prefix`,
  // in order, until it returns an error.
  absl::Status ForEach(
      Family family, absl::string_view prefix,
      const std::function<absl::Status(absl::string_view key,
                                       absl::string_view value)>& visit) const;

  // Returns an iterator. If an exception has made the database unusable, only
  // its status() may be called.
  std::unique_ptr<rocksdb::Iterator> NewIterator(
      const rocksdb::ReadOptions& options, Family family) const;
  std::unique_ptr<rocksdb::Iterator> NewIterator(
      const rocksdb::ReadOptions& options, Item::Placement placement) const;

  // Returns the files of a family, without reading any.
  std::vector<rocksdb::LiveFileMetaData> FilesOf(Family family) const;

  // Returns the bytes on disk of the entries in [begin, end), to within a
  // block.
  uint64_t ApproximateBytes(Family family, absl::string_view begin,
                            absl::string_view end) const;

  // The following methods change an owner's database. After one change has
  // failed, all fail: see status().
  absl::Status Write(ChangeBatch* batch, bool sync);
  // Makes everything written so far durable.
  absl::Status SyncLog();
  absl::Status Flush(const std::vector<Family>& families);
  absl::Status Ingest(const std::vector<std::string>& files);
  // Must be called before ingesting the files of the version with this prefix.
  // RocksDB's ingestion also reads the table that follows them, and fails if
  // that table is damaged. In this case, adds a table with a single entry
  // between the two, which belongs to the damaged table's version.
  absl::Status PrepareIngest(absl::string_view version_prefix);
  // Frees the files of bulk that lie entirely within [begin, end) of each
  // range.
  absl::Status DeleteFiles(const KeyRanges& ranges);
  // Deletes and compacts away the remaining entries in each range of bulk. Only
  // a failure leaves any, because no two versions share a file.
  absl::Status DeleteLeftovers(const KeyRanges& ranges);
  // Rewrites a range of a family without its deleted entries. If a data file is
  // damaged, returns DataLoss, leaves the database unchanged, and does not
  // compact that family until the database is opened again.
  absl::Status Compact(Family family, absl::string_view begin,
                       absl::string_view end);
  // Compactions of records and of small saves stop when one finds the disk
  // full, which it fills itself while it runs. This resumes them once there is
  // room.
  absl::Status ResumeCompactions();
  // Returns the total size of a family's tables.
  uint64_t TableBytes(Family family) const;

  // Returns whether nothing was written since a follower was opened.
  absl::StatusOr<bool> IsCurrent() const;

  // Returns FailedPrecondition after another owner has taken over, or a file of
  // the database was removed or replaced, and in all later calls.
  absl::Status CheckOwner();
  // Returns OK, or the I/O error that made the database unusable.
  absl::Status failure() const;
  // If `status` is an error, makes the database unusable. Returns `status`.
  absl::Status FailOn(absl::Status status);
  // Returns OK, or FailedPrecondition naming the I/O error that made the
  // database unusable.
  absl::Status status() const;

  // Records the number of the last synced write and the state of the MANIFEST
  // in a file next to the database. The owner calls this after every
  // acknowledged change: a MANIFEST that lost its end is a valid older one, and
  // the note distinguishes it from the complete one. An older note remains
  // valid, so the file is not synced, and failing to write it is not an error.
  void NoteWatermark();

 private:
  Database();

  absl::Status Open(const std::string& path, const CorruptTables& corrupt,
                    std::optional<uint64_t> max_manifest_bytes);
  absl::StatusOr<ManifestNote> ReadWatermark() const;
  // Sets `changed` if the owner has added to the MANIFEST meanwhile. A file
  // that a MANIFEST names may be removed before it is opened, so then neither
  // the database nor an error is meaningful.
  static absl::StatusOr<std::unique_ptr<Database>> TryFollower(
      absl::string_view store, const internal::Environment& environment,
      bool direct_reads, const CorruptTables& corrupt, bool* changed);
  absl::Status Follow(const std::string& path, const CorruptTables& corrupt);
  absl::Status BoundOpenFiles(rocksdb::DBOptions* options);
  absl::Status KeepRecordsOpen(const std::string& path,
                               const CorruptTables& corrupt);
  void SkipCorruptTables(const std::string& path, const CorruptTables& corrupt,
                         rocksdb::DBOptions* options);
  absl::Status CheckSmallSaves() const;
  absl::Status CheckSequence(const ManifestNote& note) const;
  absl::Status Stamp();
  absl::Status CheckStamp() const;
  // Makes a change by `function`, which returns a status of RocksDB.
  template <typename Function>
  absl::Status Change(absl::string_view what, Function&& function);
  // Makes the database unusable. Must be called in a catch block.
  void Break() const;
  // Leaves the database open forever, but releases its locks, so that it can be
  // opened again; it changes no file from then on.
  void Abandon();
  // Prevents its destruction, and that of everything its threads may use.
  void KeepForever();
  absl::Status SetCompactions(Family family, bool on);
  absl::Status HoldCompactions();
  absl::Status PutAtBottom(const std::string& key);
  bool HasLeftovers(const std::string& begin, const std::string& end) const;

  std::string store_;
  OpenFileShare open_files_;
  std::shared_ptr<const OwnerLock> lock_;  // null for a follower
  FolderState followed_;                   // before a follower was opened
  // In place of the tables of bulk; null for most followers, and for owners.
  std::shared_ptr<const OutsideTables> outside_;
  std::shared_ptr<GuardedFileSystem> files_;
  CorruptTables corrupt_tables_;
  std::unique_ptr<rocksdb::Env> env_;
  std::shared_ptr<DatabaseListener> listener_;
  std::shared_ptr<rocksdb::Logger> info_log_;  // null for a follower
  // Allocated in advance, so that KeepForever needs no memory.
  std::unique_ptr<OpenDatabase> kept_;
  std::unique_ptr<rocksdb::DB> rocks_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  std::atomic<uint64_t> synced_sequence_ = 0;
  std::atomic<bool> compactions_held_ = false;
  mutable std::atomic<bool> broken_ = false;  // an exception has left RocksDB
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_DATABASE_H_
