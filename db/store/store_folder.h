// The folder of a store, as its owner has it open; internal to db/.
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
#include "ckptdb/db/disk/environment.h"
#include "ckptdb/db/disk/spare_space.h"
#include "ckptdb/db/meta/catalog.h"
#include "ckptdb/db/options.h"
#include "ckptdb/db/rocks/database.h"
#include "ckptdb/db/rocks/owner_lock.h"
#include "ckptdb/schema/records/records.h"

namespace ckptdb::internal {

// Disk space that a change of records takes besides what is in its batch: the
// MANIFEST, new files, the blocks that they end in.
inline constexpr uint64_t kRecordOverhead = uint64_t{256} << 10;
// Disk space that a save takes besides its files and the entries of its batch.
inline constexpr uint64_t kBatchOverhead = uint64_t{1} << 20;

// Says whether a change may use the disk space that is set aside for changes
// that free some.
enum class Spare { kKeep, kUse };

// Owns the lock of the owner, the database and the space that is set aside,
// from Open to Close. Nothing in it changes between the two but on disk, so it
// has no mutex, and any thread may call it.
class StoreFolder {
 public:
  // A folder, and the records that were in it when it was opened.
  struct Opened {
    std::unique_ptr<StoreFolder> folder;
    Catalog records;
  };

  // Opens the store at `path`, which is absolute, or makes it: takes the lock,
  // and opens the database for writing when all records of it can be read.
  // Errors as those of Store::Open.
  static absl::StatusOr<Opened> Open(absl::string_view path,
                                     const StoreOptions& options);

  // Closes the folder as Close does, and drops the error.
  ~StoreFolder() = default;
  StoreFolder(const StoreFolder&) = delete;
  StoreFolder& operator=(const StoreFolder&) = delete;

  // Closes the database, and lets go of the lock. Only path(), uuid(),
  // options() and Close, which does nothing then, may be called after it.
  absl::Status Close();

  const std::string& path() const { return path_; }
  const std::string& uuid() const { return uuid_; }
  const StoreOptions& options() const { return options_; }
  const std::shared_ptr<internal::Environment>& environment() const {
    return environment_;
  }
  int64_t NowMicros() const { return environment_->NowMicros(); }
  Database& database() const { return *database_; }
  rocksdb::FileSystem* files() const { return database_->files().get(); }
  // The folder that an attempt is staged in.
  std::string StagingFolder(uint32_t attempt) const;

  // Returns ResourceExhausted, with both numbers, unless `needed` bytes are
  // free. What is written without having asked may end the process: see "A
  // full disk can be freed" in docs/design.md.
  absl::Status CheckDiskSpace(uint64_t needed,
                              Spare spare = Spare::kKeep) const;
  // The same for a batch of records.
  absl::Status CheckDiskSpaceFor(const ChangeBatch& batch,
                                 Spare spare = Spare::kKeep) const;
  // The same for what is saved, which leaves StoreOptions::reserve_bytes free.
  absl::Status CheckSaveSpace(uint64_t needed) const;
  // Sets space aside again when there is room for it. Best effort.
  void SetSpareAside() const;

  // Writes a change of records. It is durable on return, also if the
  // write-ahead log is damaged later.
  absl::Status WriteDurably(ChangeBatch* batch) const;

  // Tells StoreOptions::on_point; Internal when it throws.
  absl::Status HitCrashPoint(absl::string_view point) const;

 private:
  StoreFolder(absl::string_view path, const StoreOptions& options);

  absl::Status OpenFolder();
  absl::Status CheckSpaceToOpen(rocksdb::FileSystem* files) const;
  // Reads the records as the last owner left them, without writing; Returns
  // NotFound if there are none. `corrupt` is set to the tables that the
  // database is to be opened without.
  absl::StatusOr<Catalog> ReadRecords(CorruptTables* corrupt) const;
  absl::StatusOr<Catalog> OpenDatabase();
  absl::StatusOr<Catalog> MakeRecords();
  absl::Status BeginOwnership(Catalog* records);
  absl::Status WhyNotOpen(const absl::Status& status) const;
  absl::Status WriteRoot(const RootRecord& root);

  const std::string path_;
  const StoreOptions options_;
  const std::shared_ptr<internal::Environment> environment_;
  const SpareSpace spare_;
  std::shared_ptr<OwnerLock> lock_;     // let go of after the database
  std::unique_ptr<Database> database_;  // null when it is closed
  std::string uuid_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_STORE_FOLDER_H_
