// SPDX-License-Identifier: Apache-2.0
// The folder of a store, opened by its owner; internal to db/.
#ifndef CKPTDB_DB_STORE_STORE_FOLDER_H_
#define CKPTDB_DB_STORE_STORE_FOLDER_H_

#include <rocksdb/file_system.h>
#include <rocksdb/write_batch.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/disk/environment.h"
#include "db/disk/spare_space.h"
#include "db/meta/catalog.h"
#include "db/options.h"
#include "db/rocks/database.h"
#include "db/rocks/owner_lock.h"
#include "schema/records/records.h"

namespace ckptdb::internal {

// Disk space that a change of records takes beyond its batch: the MANIFEST, new
// files, and their partly used last blocks.
inline constexpr uint64_t kRecordOverhead = uint64_t{256} << 10;
// Disk space that a save takes beyond its files and the batch's entries.
inline constexpr uint64_t kBatchOverhead = uint64_t{1} << 20;

// Whether a change may use the spare space, which is set aside for changes that
// free space.
enum class Spare { kKeep, kUse };

// Owns the owner lock, the database and the spare space, from Open to Close.
// Between the two only the disk changes, so it has no mutex, and any thread may
// call it.
class StoreFolder {
 public:
  // A folder, and the records it had when it was opened.
  struct Opened {
    std::unique_ptr<StoreFolder> folder;
    Catalog records;
  };

  // Opens the store at `path`, which is absolute, or creates it: takes the
  // lock, reads all records and then opens the database for writing. Returns
  // the errors of Store::Open.
  static absl::StatusOr<Opened> Open(absl::string_view path,
                                     const StoreOptions& options);

  // Closes the folder and ignores the error.
  ~StoreFolder() = default;
  StoreFolder(const StoreFolder&) = delete;
  StoreFolder& operator=(const StoreFolder&) = delete;

  // Closes the database and releases the lock. Afterwards only path(), uuid(),
  // options() and Close, which is then a no-op, may be called.
  absl::Status Close();

  const std::string& path() const { return path_; }
  const std::string& uuid() const { return uuid_; }
  // A random number, new with each Open and not 0: see StepRecord::owners
  // and RootRecord::owners.
  uint64_t owner_id() const { return owner_id_; }
  const StoreOptions& options() const { return options_; }
  const std::shared_ptr<internal::Environment>& environment() const {
    return environment_;
  }
  int64_t NowMicros() const { return environment_->NowMicros(); }
  Database& database() const { return *database_; }
  rocksdb::FileSystem* files() const { return database_->files().get(); }
  // Returns the staging folder of an attempt.
  std::string StagingFolder(uint32_t attempt) const;

  // Returns ResourceExhausted, with both numbers, unless `needed` bytes are
  // free. Writing without this check may end the process: see "A full disk
  // does not prevent deleting" in docs/design.md.
  absl::Status CheckDiskSpace(uint64_t needed,
                              Spare spare = Spare::kKeep) const;
  // The same for a batch of records.
  absl::Status CheckDiskSpaceFor(const ChangeBatch& batch,
                                 Spare spare = Spare::kKeep) const;
  // The same for saves, which leave StoreOptions::reserve_bytes free.
  absl::Status CheckSaveSpace(uint64_t needed) const;
  // Sets the spare space aside again if it fits. Best effort.
  void SetSpareAside() const;

  // Writes a change of records. On return it survives later damage to the
  // write-ahead log.
  absl::Status WriteDurably(ChangeBatch* batch) const;

  // Calls StoreOptions::on_point; returns Internal if it throws.
  absl::Status HitCrashPoint(absl::string_view point) const;

 private:
  StoreFolder(absl::string_view path, const StoreOptions& options);

  absl::Status OpenFolder();
  absl::Status CheckSpaceToOpen(rocksdb::FileSystem* files) const;
  // Reads the records as the last owner left them, without writing. Returns
  // NotFound if no record exists. Sets `corrupt` to the tables without which
  // the database must be opened.
  absl::StatusOr<Catalog> ReadRecords(CorruptTables* corrupt) const;
  absl::StatusOr<Catalog> OpenDatabase();
  absl::StatusOr<Catalog> MakeRecords();
  absl::Status BeginOwnership(Catalog* records);
  absl::Status ExplainOpenError(const absl::Status& status) const;
  absl::Status WriteRoot(const RootRecord& root);

  const std::string path_;
  const StoreOptions options_;
  const std::shared_ptr<internal::Environment> environment_;
  const SpareSpace spare_;
  std::shared_ptr<OwnerLock> lock_;     // released after the database
  std::unique_ptr<Database> database_;  // null after Close
  std::string uuid_;
  uint64_t owner_id_ = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_STORE_FOLDER_H_
