// The RocksDB database of a store, opened by its owner or by a follower;
// internal to db/.
#ifndef CKPTDB_DB_ROCKS_DATABASE_H_
#define CKPTDB_DB_ROCKS_DATABASE_H_

#include <rocksdb/db.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/disk/environment.h"
#include "ckptdb/db/disk/folder_state.h"
#include "ckptdb/db/logger.h"
#include "ckptdb/db/rocks/guarded_file_system.h"
#include "ckptdb/db/rocks/late_tables.h"
#include "ckptdb/db/rocks/manifest_note.h"
#include "ckptdb/db/rocks/owner_lock.h"
#include "ckptdb/db/rocks/rocks_options.h"
#include "ckptdb/schema/keys.h"
#include "ckptdb/schema/records.h"

namespace ckptdb::internal {

// [begin, end) each.
using KeyRanges = std::vector<std::pair<std::string, std::string>>;

class DatabaseListener;

// Thread-safe.
class Database {
 public:
  // For reading, as of one moment, beside an owner or without one; nothing is
  // written. NotFound when there is no store. DataLoss naming what is damaged
  // or missing; not for files of bulk, of which reading tells. Tried again, for
  // seconds, beside an owner that writes all the time and on a file system that
  // shows old files; then Unavailable with the number of tries.
  static absl::StatusOr<std::unique_ptr<Database>> OpenFollower(
      absl::string_view store, const Environment& environment,
      bool direct_reads);

  // For writing; makes the database when there is none. Opening begins another
  // MANIFEST, and removes the files that it does not name: one that is there
  // is opened as a follower before, which tells whether it can be used and
  // around what tables, `bad`, it is to be opened. Writes while `lock` is held.
  static absl::StatusOr<std::unique_ptr<Database>> OpenOwner(
      absl::string_view store, const Environment& environment,
      const FileModes& modes, bool direct_reads, const BadTables& bad,
      const std::shared_ptr<const OwnerLock>& lock,
      const std::shared_ptr<Logger>& logger = nullptr);

  // What opening it for writing may write: NotFound is no error here. A file
  // system that has less would leave the opening half done.
  static absl::StatusOr<uint64_t> BytesToOpen(rocksdb::FileSystem* files,
                                              absl::string_view store);

  // As Close; what fails is lost. Once the process is exiting a database that
  // was not closed stays as it is: RocksDB could not close it any more.
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Waits for background work, and lets go of all files. Nothing but Close and
  // the destructor may follow.
  absl::Status Close();

  rocksdb::DB* rocks() const { return rocks_.get(); }
  rocksdb::ColumnFamilyHandle* family(Family family) const {
    return handles_[static_cast<size_t>(family)];
  }
  rocksdb::ColumnFamilyHandle* family(Placement placement) const {
    return family(placement == Placement::kInline ? Family::kInline
                                                  : Family::kBulk);
  }
  const std::shared_ptr<GuardedFileSystem>& files() const { return files_; }
  // That it was opened around.
  const BadTables& bad_tables() const { return bad_tables_; }

  // NotFound when there is no such entry.
  absl::StatusOr<std::string> Get(Family family, absl::string_view key) const;

  // Calls `visit` for every entry of a family whose key starts with `prefix`,
  // in order, until it returns an error.
  absl::Status ForEach(
      Family family, absl::string_view prefix,
      const std::function<absl::Status(absl::string_view key,
                                       absl::string_view value)>& visit) const;

  // On disk, of the entries in [begin, end); to within a block.
  uint64_t ApproximateBytes(Family family, absl::string_view begin,
                            absl::string_view end) const;

  // Changes, of the owner. After one failed, all fail: see status().
  absl::Status Write(rocksdb::WriteBatch* batch, bool sync);
  // All that was written so far is durable on return.
  absl::Status SyncLog();
  absl::Status Flush(const std::vector<Family>& families);
  absl::Status Ingest(const std::vector<std::string>& files);
  // Frees the files of bulk that lie wholly within [begin, end) of each range.
  absl::Status DeleteFiles(const KeyRanges& ranges);
  // Deletes and compacts away what entries are left in each range of bulk.
  // There are none but after a failure: a version shares no file with another.
  absl::Status DeleteLeftovers(const KeyRanges& ranges);
  // Rewrites a range of a family without what was deleted in it. DataLoss when
  // a file of data is damaged: all is as it was then, and nothing of that
  // family is compacted until the database is opened again.
  absl::Status Compact(Family family, absl::string_view begin,
                       absl::string_view end);
  // Compactions of records and of small saves stop when one finds the disk
  // full, which it fills itself while it runs. They begin again when there is
  // room.
  absl::Status ResumeCompactions();
  // Of all tables of a family.
  uint64_t TableBytes(Family family) const;

  // Of a follower: whether nothing was written since it was opened.
  absl::StatusOr<bool> IsCurrent() const;

  // OK, or the I/O error after which the database was not used any more.
  absl::Status failure() const;
  // An error puts the database out of use, as one of its own does. Returns it.
  absl::Status FailOn(absl::Status status);
  // OK, or FailedPrecondition naming the I/O error after which the database
  // was not used any more.
  absl::Status status() const;

  // Notes the number of the last synced write and the state of the MANIFEST in
  // a file beside the database. The owner does so after every acknowledged
  // change: a MANIFEST that lost its end is a valid older one, and this tells.
  // An older note is still true, so it is neither synced nor an error when it
  // cannot be written.
  void NoteWatermark();

 private:
  Database() = default;

  absl::Status Open(const std::string& path, const BadTables& bad);
  absl::StatusOr<bool> IsPresent() const;
  absl::StatusOr<ManifestNote> ReadWatermark() const;
  // `changed`: the owner has added to the MANIFEST meanwhile. What a MANIFEST
  // names may be gone by the time that it is looked for, so that neither the
  // database nor an error tells anything then.
  static absl::StatusOr<std::unique_ptr<Database>> TryFollower(
      absl::string_view store, const Environment& environment,
      bool direct_reads, const BadTables& bad, bool* changed);
  absl::Status Follow(const std::string& path, const BadTables& bad);
  void OpenAround(const std::string& path, const BadTables& bad,
                  rocksdb::DBOptions* options);
  absl::Status CheckSmallSaves() const;
  absl::Status CheckSequence(const ManifestNote& note) const;
  absl::Status Stamp();
  absl::Status CheckStamp() const;
  absl::Status Changed(const rocksdb::Status& status, absl::string_view what);
  // FailedPrecondition, from then on, when the store is another one's.
  absl::Status CheckOwner();
  absl::Status SetCompactions(Family family, bool on);
  absl::Status HoldCompactions();
  bool HasLeftovers(const std::string& begin, const std::string& end) const;

  std::string store_;
  std::shared_ptr<const OwnerLock> lock_;  // of an owner
  FolderState followed_;  // follower: just before it was opened
  std::shared_ptr<GuardedFileSystem> files_;
  BadTables bad_tables_;
  std::unique_ptr<rocksdb::Env> env_;
  std::shared_ptr<DatabaseListener> listener_;
  std::shared_ptr<rocksdb::Logger> info_log_;  // of an owner
  std::unique_ptr<rocksdb::DB> rocks_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  std::atomic<uint64_t> synced_sequence_ = 0;
  std::atomic<bool> held_ = false;  // compactions
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_DATABASE_H_
