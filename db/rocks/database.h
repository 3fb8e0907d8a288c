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
#include "ckptdb/db/disk/environment.h"
#include "ckptdb/db/disk/open_files.h"
#include "ckptdb/db/options.h"
#include "ckptdb/db/quirks/lazy_tables.h"
#include "ckptdb/db/rocks/change_batch.h"
#include "ckptdb/db/rocks/folder_state.h"
#include "ckptdb/db/rocks/guarded_file_system.h"
#include "ckptdb/db/rocks/manifest_note.h"
#include "ckptdb/db/rocks/owner_lock.h"
#include "ckptdb/db/rocks/rocks_options.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

// Each range is [begin, end).
using KeyRanges = std::vector<std::pair<std::string, std::string>>;

class DatabaseListener;
struct OpenDatabase;

// Thread-safe.
//
// An exception that leaves RocksDB, std::bad_alloc, leaves a call half done:
// its queue of writers, its references and its locks stay as they were, and the
// next call may wait for ever or end the process (line 38 of docs/rocksdb.md).
// So the database is out of use then, for reading as well, and is never closed:
// see Abandon.
class Database {
 public:
  // Opens it for reading, as of one moment, beside an owner or without one.
  // Nothing is written. Returns NotFound if there is no store, and DataLoss
  // naming what is damaged or missing, except files of bulk, whose damage is
  // found by reading. Tries again, for seconds, beside an owner that writes all
  // the time and on a file system that shows old files; then returns
  // Unavailable with the number of tries.
  static absl::StatusOr<std::unique_ptr<Database>> OpenFollower(
      absl::string_view store, const internal::Environment& environment,
      bool direct_reads);

  // Opens it for writing, and makes the database when there is none. Opening
  // begins another MANIFEST, and removes the files that it does not name. So an
  // existing one is opened as a follower before, which tells whether it can be
  // used, and around which tables, `corrupt`. It writes while `lock` is held.
  //
  // Both return ResourceExhausted where the process may open too few files.
  static absl::StatusOr<std::unique_ptr<Database>> OpenOwner(
      absl::string_view store, const internal::Environment& environment,
      const FileModes& modes, bool direct_reads, const CorruptTables& corrupt,
      const std::shared_ptr<const OwnerLock>& lock,
      const std::shared_ptr<Logger>& logger = nullptr);

  // Returns whether RocksDB makes files of this name in the folder of a
  // database.
  static bool HasFileName(absl::string_view name);
  // Returns whether the name is of a file that RocksDB left unfinished when the
  // process died, and that it never removes by itself.
  static bool IsLeftover(absl::string_view name);

  // Closes it, without a word of what fails. Once the process is exiting a
  // database that was not closed stays as it is: RocksDB could not close it any
  // more.
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Waits for background work, and closes all files. Nothing but Close and the
  // destructor may follow.
  absl::Status Close();

  rocksdb::DB* rocks() const { return rocks_.get(); }
  // Calls RocksDB by `function`. What it throws puts the database out of use,
  // and is thrown on.
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
  // The tables that it was opened around.
  const CorruptTables& corrupt_tables() const { return corrupt_tables_; }

  // Returns NotFound if there is no such entry.
  absl::StatusOr<std::string> Get(Family family, absl::string_view key) const;

  // Calls `visit` for every entry of a family whose key starts with `prefix`,
  // in order, until it returns an error.
  absl::Status ForEach(
      Family family, absl::string_view prefix,
      const std::function<absl::Status(absl::string_view key,
                                       absl::string_view value)>& visit) const;

  // Returns an iterator, of which only status() may be used if the database is
  // out of use after an exception.
  std::unique_ptr<rocksdb::Iterator> NewIterator(
      const rocksdb::ReadOptions& options, Family family) const;
  std::unique_ptr<rocksdb::Iterator> NewIterator(
      const rocksdb::ReadOptions& options, Item::Placement placement) const;

  // Returns the files of a family, which are known without reading any.
  std::vector<rocksdb::LiveFileMetaData> FilesOf(Family family) const;

  // Returns the bytes on disk of the entries in [begin, end), to within a
  // block.
  uint64_t ApproximateBytes(Family family, absl::string_view begin,
                            absl::string_view end) const;

  // The following methods change the database of an owner. After one change has
  // failed, all fail: see status().
  absl::Status Write(ChangeBatch* batch, bool sync);
  // Makes all that was written so far durable.
  absl::Status SyncLog();
  absl::Status Flush(const std::vector<Family>& families);
  absl::Status Ingest(const std::vector<std::string>& files);
  // Frees the files of bulk that lie wholly within [begin, end) of each range.
  absl::Status DeleteFiles(const KeyRanges& ranges);
  // Deletes and compacts away the entries that are left in each range of bulk.
  // Only a failure leaves any, as a version shares no file with another.
  absl::Status DeleteLeftovers(const KeyRanges& ranges);
  // Rewrites a range of a family without what was deleted in it. Returns
  // DataLoss if a file of data is damaged: all is then as it was, and that
  // family is not compacted until the database is opened again.
  absl::Status Compact(Family family, absl::string_view begin,
                       absl::string_view end);
  // Compactions of records and of small saves stop when one finds the disk
  // full, which it fills itself while it runs. This lets them begin again when
  // there is room.
  absl::Status ResumeCompactions();
  // Returns the bytes of all tables of a family.
  uint64_t TableBytes(Family family) const;

  // Returns whether nothing was written since a follower was opened.
  absl::StatusOr<bool> IsCurrent() const;

  // Returns OK, or the I/O error after which the database was not used any
  // more.
  absl::Status failure() const;
  // Puts the database out of use when `status` is an error, and returns it.
  absl::Status FailOn(absl::Status status);
  // Returns OK, or FailedPrecondition naming the I/O error after which the
  // database was not used any more.
  absl::Status status() const;

  // Notes the number of the last synced write and the state of the MANIFEST in
  // a file beside the database. The owner does so after every acknowledged
  // change: a MANIFEST that lost its end is a valid older one, and the note
  // tells it from the whole one. An older note is still true, so the file is
  // not synced, and it is no error when it cannot be written.
  void NoteWatermark();

 private:
  Database();

  absl::Status Open(const std::string& path, const CorruptTables& corrupt,
                    std::optional<uint64_t> max_manifest_bytes);
  absl::StatusOr<ManifestNote> ReadWatermark() const;
  // Sets `changed` when the owner has added to the MANIFEST meanwhile. What a
  // MANIFEST names may be removed by the time that it is looked for, so neither
  // the database nor an error means anything then.
  static absl::StatusOr<std::unique_ptr<Database>> TryFollower(
      absl::string_view store, const internal::Environment& environment,
      bool direct_reads, const CorruptTables& corrupt, bool* changed);
  absl::Status Follow(const std::string& path, const CorruptTables& corrupt);
  absl::Status BoundOpenFiles(rocksdb::DBOptions* options);
  absl::Status KeepRecordsOpen(const std::string& path,
                               const CorruptTables& corrupt);
  void OpenAround(const std::string& path, const CorruptTables& corrupt,
                  rocksdb::DBOptions* options);
  absl::Status CheckSmallSaves() const;
  absl::Status CheckSequence(const ManifestNote& note) const;
  absl::Status Stamp();
  absl::Status CheckStamp() const;
  // Makes a change by `function`, which returns a status of RocksDB.
  template <typename Function>
  absl::Status Change(absl::string_view what, Function&& function);
  // Puts the database out of use. It is called in a catch block.
  void Break() const;
  // Leaves the database open for ever, without its locks, so that it can be
  // opened again; nothing of it changes a file from then on.
  void Abandon();
  // Keeps it from being destroyed, with all that its threads may use.
  void KeepForever();
  // Returns FailedPrecondition, from then on, once there is another owner.
  absl::Status CheckOwner();
  absl::Status SetCompactions(Family family, bool on);
  absl::Status HoldCompactions();
  bool HasLeftovers(const std::string& begin, const std::string& end) const;

  std::string store_;
  OpenFileShare open_files_;
  std::shared_ptr<const OwnerLock> lock_;  // null for a follower
  FolderState followed_;                   // just before a follower was opened
  std::shared_ptr<GuardedFileSystem> files_;
  CorruptTables corrupt_tables_;
  std::unique_ptr<rocksdb::Env> env_;
  std::shared_ptr<DatabaseListener> listener_;
  std::shared_ptr<rocksdb::Logger> info_log_;  // null for a follower
  // Where KeepForever puts it, so that this takes no memory.
  std::unique_ptr<OpenDatabase> kept_;
  std::unique_ptr<rocksdb::DB> rocks_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  std::atomic<uint64_t> synced_sequence_ = 0;
  std::atomic<bool> compactions_held_ = false;
  mutable std::atomic<bool> broken_ = false;  // an exception has left RocksDB
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_DATABASE_H_
