// SPDX-License-Identifier: Apache-2.0
// Opens, checks and closes a database.
#include "db/rocks/database.h"

#include <rocksdb/system_clock.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "db/base/exit_task.h"
#include "db/base/mutex.h"
#include "db/base/paths.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/quirks/error_text.h"
#include "db/quirks/file_names.h"
#include "db/quirks/start_threads.h"
#include "db/rocks/database_listener.h"
#include "db/rocks/fenced_file_system.h"
#include "db/rocks/find_database.h"
#include "db/rocks/info_log.h"
#include "db/rocks/manifest_size.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

// Maps the error of opening a database: missing or unreadable files are damage.
// RocksDB blames its options if the first file does not open, although the
// caller gave none. A database without all families is one whose creation was
// interrupted.
absl::Status OpenError(const rocksdb::Status& status, const std::string& path) {
  absl::Status error =
      FromRocksRead(status, absl::StrCat("opening \"", path, "\""));
  const absl::string_view text = error.message();
  if (IsMissingFamily(text)) return absl::NotFoundError(text);
  if (absl::IsFailedPrecondition(error)) return error;
  if (status.IsInvalidArgument() ||
      (status.IsCorruption() && IsInaccessibleFile(text))) {
    return absl::UnavailableError(text);
  }
  return error;
}

// A file system that is not coherent between hosts shows a client, for a while,
// files that another one has replaced or removed: a stale handle, or a log that
// is still listed. If the database has changed meanwhile, a missing log means
// nothing.
bool IsStale(const absl::Status& status, bool changed) {
  if (status.ok()) return false;
  return IsStaleHandle(status.message()) ||
         (!changed && IsMissingLog(status.message()));
}

// Such a file system caches attributes and names for about a second.
class StalePauses {
 public:
  // Returns false after enough pauses.
  bool Pause() {
    if (tries_++ == kMostTries) return false;
    rocksdb::SystemClock::Default()->SleepForMicroseconds(pause_micros_);
    waited_micros_ += pause_micros_;
    pause_micros_ = std::min(2 * pause_micros_, kMostPauseMicros);
    return true;
  }
  absl::Status Exceeded(const std::string& path,
                        const absl::Status& last) const {
    return absl::UnavailableError(absl::StrCat(
        "\"", path, "\" could not be opened in ", tries_, " tries over ",
        waited_micros_ / 1000,
        " ms, because its file system returns stale files: ", last.message()));
  }

 private:
  static constexpr int kMostTries = 11;
  static constexpr int kMostPauseMicros = 1'000'000;
  int tries_ = 0;
  int pause_micros_ = 10'000;
  int64_t waited_micros_ = 0;
};

// An owner that saves many times a second may overtake a follower's open again
// and again. The pauses add up to about 2 s.
constexpr int kTries = 200;
constexpr int kDenied = 10;
constexpr int kMostPauseMicros = 20'000;

}  // namespace

// A database that is never closed, with everything that its threads may use.
struct OpenDatabase {
  std::unique_ptr<rocksdb::DB> rocks;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  std::unique_ptr<rocksdb::Env> env;
  std::shared_ptr<rocksdb::FileSystem> files;
  std::shared_ptr<rocksdb::EventListener> listener;
  std::shared_ptr<rocksdb::Logger> info_log;
  OpenDatabase* next = nullptr;
};

Database::Database() : kept_(std::make_unique<OpenDatabase>()) {}

void Database::KeepForever() {
  static auto* const kMutex = new Mutex();
  static OpenDatabase* kept_databases = nullptr;
  kept_->rocks = std::move(rocks_);
  kept_->handles = std::move(handles_);
  kept_->env = std::move(env_);
  kept_->files = files_;
  kept_->listener = listener_;
  kept_->info_log = info_log_;
  const MutexLock lock(kMutex);
  kept_->next = kept_databases;
  kept_databases = kept_.release();
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenOwner(
    absl::string_view store, const internal::Environment& environment,
    const FileModes& modes, bool direct_reads, const CorruptTables& corrupt,
    const std::shared_ptr<const OwnerLock>& lock,
    const decltype(StoreOptions::logger)& logger) {
  std::unique_ptr<Database> database(new Database());
  database->store_ = std::string(store);
  database->lock_ = lock;
  // The fence is below the guard, so that every change through files_ passes
  // it, including the WATERMARK's.
  database->files_ = std::make_shared<GuardedFileSystem>(
      std::make_shared<FencedFileSystem>(environment.file_system(), lock),
      modes);
  database->files_->set_staging(StagingPath(store));
  database->files_->set_direct_reads(direct_reads && environment.on_disk());
  if (logger != nullptr) {
    database->info_log_ = ForwardInfoLog(logger);
  } else if (environment.on_disk()) {
    database->info_log_ = OpenInfoLog(DatabasePath(store) + "/LOG", modes.file);
  }
  CKPTDB_RETURN_IF_ERROR(database->Open(DatabasePath(store), corrupt,
                                        environment.max_manifest_bytes()));
  // The stamp precedes the note, so that the note names a MANIFEST and a write
  // that include it.
  CKPTDB_RETURN_IF_ERROR(database->Stamp());
  database->NoteWatermark();
  return database;
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenFollower(
    absl::string_view store, const internal::Environment& environment,
    bool direct_reads) {
  // Random pauses do not stay in step with the owner.
  std::minstd_rand random(std::random_device{}());
  std::uniform_int_distribution<int> pause_micros(0, kMostPauseMicros);
  absl::StatusOr<std::unique_ptr<Database>> opened;
  CorruptTables corrupt;
  bool changed = true;
  int denied = 0;
  StalePauses stale;
  for (int i = 0; i < kTries; ++i) {
    // Returns the previous try's share of the open files first.
    opened = absl::UnknownError("not opened");
    opened = TryFollower(store, environment, direct_reads, corrupt, &changed);
    if (IsStale(opened.status(), changed)) {
      corrupt.clear();
      if (stale.Pause()) continue;
      return stale.Exceeded(DatabasePath(store), opened.status());
    }
    // Nothing has changed meanwhile, so the outcome is valid, unless it names a
    // corrupt table that the next try can leave out.
    if (!changed && !AddCorruptTables(opened.status(), &corrupt)) return opened;
    // No owner creates a database of another format or entries that a store
    // cannot contain.
    if (absl::IsFailedPrecondition(opened.status())) return opened;
    // A file that the owner creates does not have its mode immediately.
    denied = absl::IsPermissionDenied(opened.status()) ? denied + 1 : 0;
    if (denied == kDenied) return opened;
    if (!changed) continue;
    // The MANIFEST has grown: the corruption may be gone, and the pause gives
    // the owner time to finish.
    corrupt.clear();
    rocksdb::SystemClock::Default()->SleepForMicroseconds(pause_micros(random));
  }
  return absl::UnavailableError(absl::StrCat(
      "\"", DatabasePath(store), "\" could not be opened in ", kTries,
      " tries, because its owner wrote to it during each",
      opened.ok() ? "" : ", the last time with: ", opened.status().message()));
}

absl::StatusOr<std::unique_ptr<Database>> Database::TryFollower(
    absl::string_view store, const internal::Environment& environment,
    bool direct_reads, const CorruptTables& corrupt, bool* changed) {
  std::unique_ptr<Database> database(new Database());
  database->store_ = std::string(store);
  FileModes modes;
  // A follower creates no files in the database, and may not own them.
  modes.apply = false;
  database->files_ =
      std::make_shared<GuardedFileSystem>(environment.file_system(), modes);
  database->files_->set_direct_reads(direct_reads && environment.on_disk());
  database->outside_ = environment.outside_tables();
  *changed = false;
  CKPTDB_ASSIGN_OR_RETURN(const bool present,
                          FindDatabase(database->files_, store));
  if (!present) {
    return absl::NotFoundError(absl::StrCat("no store at \"", store, "\""));
  }
  *changed = true;
  const std::string path = DatabasePath(store);
  rocksdb::FileSystem* const files = database->files_.get();
  // The folder is examined before and after. In between RocksDB reads the
  // MANIFEST and then opens the files that it names, which may have been
  // deleted by then.
  CKPTDB_ASSIGN_OR_RETURN(database->followed_, ReadFolderState(files, path));
  const absl::Status status = database->Follow(path, corrupt);
  CKPTDB_ASSIGN_OR_RETURN(const FolderState after,
                          ReadFolderState(files, path));
  // A success also counts if no log appeared or disappeared and no table is
  // corrupt.
  const bool same_logs = after.log_names == database->followed_.log_names;
  *changed = after.manifest != database->followed_.manifest &&
             !(status.ok() && same_logs && corrupt.empty());
  CKPTDB_RETURN_IF_ERROR(status);
  return database;
}

absl::Status Database::Follow(const std::string& path,
                              const CorruptTables& corrupt) {
  // The WATERMARK is read before the database, so that it is not newer than the
  // database.
  CKPTDB_ASSIGN_OR_RETURN(const ManifestNote note, ReadWatermark());
  CKPTDB_RETURN_IF_ERROR(CheckManifest(files_.get(), path, note.manifest));
  env_ = rocksdb::NewCompositeEnv(files_);
  listener_ = std::make_shared<DatabaseListener>();
  rocksdb::DBOptions options = DatabaseOptions(env_.get());
  // A follower must create nothing: a missing database is an error.
  options.create_if_missing = false;
  options.create_missing_column_families = false;
  CKPTDB_RETURN_IF_ERROR(BoundOpenFiles(&options));
  SkipCorruptTables(path, corrupt, &options);
  rocksdb::DB* rocks = nullptr;
  CKPTDB_RETURN_IF_ERROR(StartRocksDbThreads(options));
  CKPTDB_RETURN_IF_ERROR(OpenError(Guarded([&] {
                                     return rocksdb::DB::OpenForReadOnly(
                                         options, path, FamilyDescriptors(),
                                         &handles_, &rocks);
                                   }),
                                   path));
  rocks_.reset(rocks);
  files_->PoolTables();
  CKPTDB_RETURN_IF_ERROR(KeepRecordsOpen(path, corrupt));
  CKPTDB_RETURN_IF_ERROR(CheckSmallSaves());
  CKPTDB_RETURN_IF_ERROR(CheckSequence(note));
  const absl::Status stamped = CheckStamp();
  // A store has no stamp during its creation.
  return absl::IsNotFound(stamped) ? absl::OkStatus() : stamped;
}

absl::StatusOr<bool> Database::IsCurrent() const {
  CKPTDB_ASSIGN_OR_RETURN(const FolderState now,
                          ReadFolderState(files_.get(), DatabasePath(store_)));
  return now == followed_;
}

Database::~Database() {
  // The static objects that it uses may be destroyed by then (line 35 of
  // docs/rocksdb.md).
  if (rocks_ != nullptr && IsExiting()) {
    KeepForever();
    return;
  }
  CallGuarded("closing", [&] { return Close(); }).IgnoreError();
  if (broken_ && kept_ != nullptr) Abandon();
}

void Database::Abandon() {
  if (lock_ != nullptr) lock_->GiveUp();
  files_->ReleaseLock();
  KeepForever();
}

absl::Status Database::Close() {
  // After an exception the destructor abandons it.
  if (rocks_ == nullptr || broken_) return absl::OkStatus();
  const rocksdb::Status closed = Guarded([&] {
    // RocksDB does not close a database with open handles.
    for (; !handles_.empty(); handles_.pop_back()) {
      rocks_->DestroyColumnFamilyHandle(handles_.back());
    }
    return rocks_->Close();
  });
  rocks_.reset();
  return FromRocks(closed, absl::StrCat("closing \"", store_, "\""));
}

// Pooled tables take turns with half of the files. The other half is for tables
// that stay open.
absl::Status Database::BoundOpenFiles(rocksdb::DBOptions* options) {
  CKPTDB_ASSIGN_OR_RETURN(open_files_, OpenFileShare::Take());
  BoundTables(2 * open_files_.files(), options);
  files_->set_most_pooled(open_files_.files() / 2);
  return absl::OkStatus();
}

// A follower reads the data that existed when it was opened. Its leases keep
// the data of large saves, but the owner compacts records and small saves, and
// removes their files. So these stay open.
absl::Status Database::KeepRecordsOpen(const std::string& path,
                                       const CorruptTables& corrupt) {
  uint64_t left = open_files_.files() / 2;
  for (const Family each : {Family::kDefault, Family::kMeta, Family::kInline}) {
    rocksdb::ColumnFamilyMetaData metadata;
    rocks_->GetColumnFamilyMetaData(family(each), &metadata);
    for (const rocksdb::LevelMetaData& level : metadata.levels) {
      for (const rocksdb::SstFileMetaData& file : level.files) {
        const std::string& name = file.relative_filename;
        if (corrupt.contains(name) || left == 0) continue;
        --left;
        CKPTDB_RETURN_IF_ERROR(OpenError(
            files_->KeepTableOpen(absl::StrCat(path, "/", name)), path));
      }
    }
  }
  return absl::OkStatus();
}

// A corrupt table is an error only when it is read.
void Database::SkipCorruptTables(const std::string& path,
                                 const CorruptTables& corrupt,
                                 rocksdb::DBOptions* options) {
  if (corrupt.empty()) return;
  OpenTablesLazily(options);
  files_->set_corrupt_tables(path, corrupt);
  corrupt_tables_ = corrupt;
}

// Each scan of small saves opens all files of level 0. If one is corrupt, no
// small save could be read, nor any that is made from now on.
absl::Status Database::CheckSmallSaves() const {
  if (corrupt_tables_.empty()) return absl::OkStatus();
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  const std::unique_ptr<rocksdb::Iterator> entries =
      NewIterator(options, Family::kInline);
  entries->SeekToFirst();
  return FromRocksRead(entries->status(),
                       absl::StrCat("opening \"", DatabasePath(store_), "\""));
}

absl::Status Database::Open(const std::string& path,
                            const CorruptTables& corrupt,
                            std::optional<uint64_t> max_manifest_bytes) {
  env_ = rocksdb::NewCompositeEnv(files_);
  listener_ = std::make_shared<DatabaseListener>();
  rocksdb::DBOptions options = DatabaseOptions(env_.get());
  options.listeners.push_back(listener_);
  // RocksDB must not recover from an error on its own: this store stays
  // unusable until it is opened again, which shows how much of the last commit
  // is on disk.
  options.max_bgerror_resume_count = 0;
  if (info_log_ != nullptr) options.info_log = info_log_;
  if (!max_manifest_bytes.has_value()) {
    CKPTDB_ASSIGN_OR_RETURN(max_manifest_bytes,
                            MaxManifestBytes(files_.get(), path));
  }
  options.max_manifest_file_size = *max_manifest_bytes;
  CKPTDB_RETURN_IF_ERROR(BoundOpenFiles(&options));
  // If a table is corrupt, the open opens fewer tables. Afterwards as many as
  // usual may stay open again.
  const auto kept_open = std::to_string(options.max_open_files);
  SkipCorruptTables(path, corrupt, &options);
  rocksdb::DB* rocks = nullptr;
  CKPTDB_RETURN_IF_ERROR(StartRocksDbThreads(options));
  CKPTDB_RETURN_IF_ERROR(OpenError(Guarded([&] {
                                     return rocksdb::DB::Open(
                                         options, path, FamilyDescriptors(),
                                         &handles_, &rocks);
                                   }),
                                   path));
  rocks_.reset(rocks);
  files_->PoolTables();
  // The open has begun a MANIFEST, which CURRENT now names (line 37 of
  // docs/rocksdb.md).
  files_->NoteManifestNamed();
  if (!corrupt.empty()) {
    CKPTDB_RETURN_IF_ERROR(
        FromRocks(rocks_->SetDBOptions({{"max_open_files", kept_open}}),
                  "keeping tables open"));
  }
  // The open has moved the log's content to files.
  synced_sequence_ = rocks_->GetLatestSequenceNumber();
  return absl::OkStatus();
}

absl::StatusOr<ManifestNote> Database::ReadWatermark() const {
  const absl::StatusOr<std::string> bytes =
      ReadFile(files_.get(), WatermarkPath(store_));
  // Without a note, or with a torn one, nothing is compared: the file is not
  // synced, so both may follow a crash.
  if (absl::IsNotFound(bytes.status())) return ManifestNote();
  CKPTDB_RETURN_IF_ERROR(bytes.status());
  return DecodeManifestNote(*bytes).value_or(ManifestNote());
}

absl::Status Database::CheckSequence(const ManifestNote& note) const {
  const uint64_t found = rocks_->GetLatestSequenceNumber();
  if (found >= note.sequence) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "\"", DatabasePath(store_), "\" ends at write ", found, ", but write ",
      note.sequence, " was acknowledged: its MANIFEST or log is truncated",
      kCopiedWhileWritten));
}

// The note is not synced: an older one remains valid, and an error leaves the
// older one.
void Database::NoteWatermark() {
  const ManifestNote note{synced_sequence_, files_->manifest()};
  ReplaceFile(files_.get(), WatermarkPath(store_), EncodeManifestNote(note),
              /*sync=*/false)
      .IgnoreError();
}

// Returns NotFound if there is no stamp.
absl::Status Database::CheckStamp() const {
  CKPTDB_ASSIGN_OR_RETURN(const std::string stamp,
                          Get(Family::kDefault, kStampKey));
  if (stamp == StampValue()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "\"", store_, "\" has format \"", stamp, "\"; this library reads \"",
      StampValue(), "\"; use a newer version of it"));
}

// Precedes any ingestion: RocksDB loses rows if the first entry of an empty
// database is an ingested file.
absl::Status Database::Stamp() {
  absl::Status stamped = CheckStamp();
  if (!absl::IsNotFound(stamped)) return stamped;
  ChangeBatch batch;
  CKPTDB_RETURN_IF_ERROR(FromRocks(
      batch.Put(family(Family::kDefault), ToSlice(kStampKey), StampValue()),
      "format stamp"));
  CKPTDB_RETURN_IF_ERROR(Write(&batch, /*sync=*/true));
  return Flush({Family::kDefault});
}

}  // namespace ckptdb::internal
