#include "ckptdb/db/database.h"

#include <rocksdb/convenience.h>
#include <rocksdb/listener.h>
#include <rocksdb/system_clock.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ckptdb/db/call_guard.h"
#include "ckptdb/db/exit_task.h"
#include "ckptdb/db/fenced_file_system.h"
#include "ckptdb/db/files.h"
#include "ckptdb/db/info_log.h"
#include "ckptdb/db/rocks_status.h"
#include "ckptdb/schema/limits.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr absl::string_view kStampKey = "format";

std::string StampValue() { return absl::StrCat("ckptdb ", kFormatVersion); }

std::string WatermarkPath(absl::string_view store) {
  return absl::StrCat(store, "/WATERMARK");
}

// Damage found while opening: what is missing or unreadable is lost. RocksDB
// blames its options, which no one gave, when the first file does not open, and
// calls it corruption when it cannot look at a file that is there. A database
// without all families is one whose making was interrupted.
absl::Status OpenError(const rocksdb::Status& status, const std::string& path) {
  absl::Status error =
      FromRocksRead(status, absl::StrCat("opening \"", path, "\""));
  const absl::string_view text = error.message();
  if (absl::StrContains(text, "Column family not found")) {
    return absl::NotFoundError(text);
  }
  const bool out_of_reach = status.IsCorruption() &&
                            absl::StrContains(text, "Can't access") &&
                            absl::StrContains(text, "IO error") &&
                            !absl::StrContains(text, "No such file");
  if (absl::IsFailedPrecondition(error)) return error;
  if (status.IsInvalidArgument() || out_of_reach) {
    return absl::UnavailableError(text);
  }
  return error;
}

// A file system that is not coherent between hosts shows a client for a while
// what another one has replaced or removed: a handle that is stale, a log that
// is still listed.
bool IsStale(const absl::Status& status, bool changed) {
  const absl::string_view text = status.message();
  if (status.ok()) return false;
  if (absl::StrContains(text, std::strerror(ESTALE))) return true;
  // Where it has changed meanwhile this tells nothing.
  return !changed && absl::StrContains(text, ".log") &&
         absl::StrContains(text, std::strerror(ENOENT));
}

// Attributes and names are kept for about a second.
class StalePauses {
 public:
  // False when there were enough.
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
        " ms, as its file system shows old files: ", last.message()));
  }

 private:
  static constexpr int kMostTries = 11;
  static constexpr int kMostPauseMicros = 1'000'000;
  int tries_ = 0;
  int pause_micros_ = 10'000;
  int64_t waited_micros_ = 0;
};

// A database that is not closed, with all that its threads may use.
struct OpenDatabase {
  std::unique_ptr<rocksdb::DB> rocks;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  std::unique_ptr<rocksdb::Env> env;
  std::shared_ptr<rocksdb::FileSystem> files;
  std::shared_ptr<rocksdb::EventListener> listener;
};

void KeepForever(OpenDatabase database) {
  static std::mutex* const kMutex = new std::mutex();
  static auto* const kKept = new std::vector<OpenDatabase>();
  const std::lock_guard<std::mutex> lock(*kMutex);
  kKept->push_back(std::move(database));
}

// RocksDB throws where it cannot start a thread, and what it had begun stays as
// it was: a folder that is locked until the process ends. So its threads are
// started before it begins, and as many as it starts for a while are tried.
absl::Status StartThreads(const rocksdb::DBOptions& options) {
  constexpr char kWhat[] = "starting the threads of the database";
  return CallGuarded(kWhat, [&] {
    rocksdb::Env* const env = rocksdb::Env::Default();
    env->IncBackgroundThreadsIfNeeded(options.max_background_flushes,
                                      rocksdb::Env::HIGH);
    env->IncBackgroundThreadsIfNeeded(options.max_background_compactions,
                                      rocksdb::Env::LOW);
    std::vector<std::future<void>> tried;
    std::promise<void> all_started;  // or given up
    const std::shared_future<void> end = all_started.get_future().share();
    absl::Status status = CallGuarded(kWhat, [&] {
      for (int i = 0; i < options.max_file_opening_threads; ++i) {
        tried.push_back(std::async(std::launch::async, [end] { end.wait(); }));
      }
    });
    all_started.set_value();
    return status;
  });
}

}  // namespace

std::string DatabasePath(absl::string_view store) {
  return absl::StrCat(store, "/db");
}
std::string StagingPath(absl::string_view store) {
  return absl::StrCat(store, "/staging");
}
std::string LeasesPath(absl::string_view store) {
  return absl::StrCat(store, "/leases");
}
std::string PostsPath(absl::string_view store) {
  return absl::StrCat(store, "/posts");
}
std::string StagingOf(uint32_t attempt) {
  return absl::StrCat("staging/", attempt);
}

// Keeps the first error after which the database must not be used. Damage that
// a compaction of data meets is none, nor is a disk that is too full for it:
// the compaction is given up, and all is as it was.
class Database::Listener : public rocksdb::EventListener {
 public:
  // Comes before OnBackgroundError, on the same thread.
  void OnCompactionCompleted(rocksdb::DB*,
                             const rocksdb::CompactionJobInfo& job) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool damage = HoldsData(job.cf_name) && IsDamage(job.status);
    if (damage || job.status.IsNoSpace()) {
      if (damage) met_damage_ = true;
      given_up_.insert(std::this_thread::get_id());
    } else {
      given_up_.erase(std::this_thread::get_id());
    }
  }
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason,
                         rocksdb::Status* status) override {
    if (reason == rocksdb::BackgroundErrorReason::kCompaction && GaveUp()) {
      *status = rocksdb::Status::OK();
      return;
    }
    Fail(FromRocks(*status, "background work"));
  }
  // A database that has failed is not written to again, by RocksDB neither.
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* auto_recovery) override {
    *auto_recovery = false;
  }
  void Fail(const absl::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok()) status_ = status;
  }
  absl::Status status() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return status_;
  }
  // Whether a compaction was given up since the last call.
  bool TakeGivenUp() { return gave_up_.exchange(false); }
  bool met_damage() const { return met_damage_; }

 private:
  bool GaveUp() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (given_up_.erase(std::this_thread::get_id()) == 0) return false;
    gave_up_ = true;
    return true;
  }

  mutable std::mutex mutex_;
  absl::Status status_;
  std::set<std::thread::id> given_up_;
  std::atomic<bool> gave_up_ = false;
  std::atomic<bool> met_damage_ = false;
};

absl::StatusOr<std::unique_ptr<Database>> Database::OpenOwner(
    absl::string_view store, const Environment& environment,
    const FileModes& modes, bool direct_reads, const BadTables& bad,
    const std::shared_ptr<const OwnerLock>& lock,
    const std::shared_ptr<Logger>& logger) {
  std::unique_ptr<Database> database(new Database());
  database->store_ = std::string(store);
  database->lock_ = lock;
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
  CKPTDB_RETURN_IF_ERROR(database->Open(DatabasePath(store), bad));
  CKPTDB_RETURN_IF_ERROR(database->Stamp());
  database->NoteWatermark();
  return database;
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenFollower(
    absl::string_view store, const Environment& environment,
    bool direct_reads) {
  constexpr int kTries = 200;
  constexpr int kDenied = 10;
  constexpr int kMostPauseMicros = 20'000;
  // So as not to go in step with the owner.
  std::minstd_rand random(std::random_device{}());
  std::uniform_int_distribution<int> pause_micros(0, kMostPauseMicros);
  absl::StatusOr<std::unique_ptr<Database>> opened;
  BadTables bad;
  bool changed = true;
  int denied = 0;
  StalePauses stale;
  for (int i = 0; i < kTries; ++i) {
    opened = TryFollower(store, environment, direct_reads, bad, &changed);
    if (IsStale(opened.status(), changed)) {
      if (!stale.Pause()) {
        return stale.Exceeded(DatabasePath(store), opened.status());
      }
      bad.clear();
      continue;
    }
    if (!changed && !AddBadTables(opened.status(), &bad)) return opened;
    // No owner makes what is not of a store, or of another format.
    if (absl::IsFailedPrecondition(opened.status())) return opened;
    // A file that the owner makes is not at once of the mode that it shall be.
    denied = absl::IsPermissionDenied(opened.status()) ? denied + 1 : 0;
    if (denied == kDenied) return opened;
    if (!changed) continue;
    bad.clear();
    rocksdb::SystemClock::Default()->SleepForMicroseconds(pause_micros(random));
  }
  return absl::UnavailableError(absl::StrCat(
      "\"", DatabasePath(store), "\" was written to each of the ", kTries,
      " times that it was opened",
      opened.ok() ? "" : ", the last time with: ", opened.status().message()));
}

absl::StatusOr<std::unique_ptr<Database>> Database::TryFollower(
    absl::string_view store, const Environment& environment, bool direct_reads,
    const BadTables& bad, bool* changed) {
  std::unique_ptr<Database> database(new Database());
  database->store_ = std::string(store);
  FileModes modes;
  modes.apply = false;
  database->files_ =
      std::make_shared<GuardedFileSystem>(environment.file_system(), modes);
  database->files_->set_direct_reads(direct_reads && environment.on_disk());
  *changed = false;
  CKPTDB_ASSIGN_OR_RETURN(const bool present, database->IsPresent());
  if (!present) {
    return absl::NotFoundError(absl::StrCat("no store at \"", store, "\""));
  }
  *changed = true;
  const std::string path = DatabasePath(store);
  rocksdb::FileSystem* const files = database->files_.get();
  CKPTDB_ASSIGN_OR_RETURN(database->followed_, LookAtFolder(files, path));
  const absl::Status status = database->Follow(path, bad);
  CKPTDB_ASSIGN_OR_RETURN(const FolderState after, LookAtFolder(files, path));
  // A success is right, too, when no log came or went, and no table.
  const bool same_logs = after.log_names == database->followed_.log_names;
  *changed = after.manifest != database->followed_.manifest &&
             !(status.ok() && same_logs && bad.empty());
  CKPTDB_RETURN_IF_ERROR(status);
  return database;
}

absl::Status Database::Follow(const std::string& path, const BadTables& bad) {
  CKPTDB_ASSIGN_OR_RETURN(const ManifestNote note, ReadWatermark());
  CKPTDB_RETURN_IF_ERROR(CheckManifest(files_.get(), path, note));
  env_ = rocksdb::NewCompositeEnv(files_);
  listener_ = std::make_shared<Listener>();
  rocksdb::DBOptions options = DatabaseOptions(env_.get());
  options.create_if_missing = false;
  options.create_missing_column_families = false;
  OpenAround(path, bad, &options);
  rocksdb::DB* rocks = nullptr;
  CKPTDB_RETURN_IF_ERROR(StartThreads(options));
  CKPTDB_RETURN_IF_ERROR(
      OpenError(rocksdb::DB::OpenForReadOnly(options, path, FamilyDescriptors(),
                                             &handles_, &rocks),
                path));
  rocks_.reset(rocks);
  CKPTDB_RETURN_IF_ERROR(CheckSmallSaves());
  CKPTDB_RETURN_IF_ERROR(CheckSequence(note));
  const absl::Status stamped = CheckStamp();
  // A store is without while it is made.
  return absl::IsNotFound(stamped) ? absl::OkStatus() : stamped;
}

absl::StatusOr<bool> Database::IsCurrent() const {
  CKPTDB_ASSIGN_OR_RETURN(const FolderState now,
                          LookAtFolder(files_.get(), DatabasePath(store_)));
  return now == followed_;
}

Database::~Database() {
  if (rocks_ != nullptr && IsExiting()) {
    KeepForever({std::move(rocks_), std::move(handles_), std::move(env_),
                 files_, listener_});
    return;
  }
  Close().IgnoreError();
}

absl::Status Database::Close() {
  if (rocks_ == nullptr) return absl::OkStatus();
  for (rocksdb::ColumnFamilyHandle* handle : handles_) {
    rocks_->DestroyColumnFamilyHandle(handle);
  }
  handles_.clear();
  const rocksdb::Status closed = rocks_->Close();
  rocks_.reset();
  return FromRocks(closed, absl::StrCat("closing \"", store_, "\""));
}

// A folder that held a database must not be taken for a new one because its
// CURRENT is gone.
absl::StatusOr<bool> Database::IsPresent() const {
  const std::string path = DatabasePath(store_);
  CKPTDB_ASSIGN_OR_RETURN(const bool current,
                          Exists(files_.get(), path + "/CURRENT"));
  if (current) return true;
  CKPTDB_ASSIGN_OR_RETURN(const bool watermark,
                          Exists(files_.get(), WatermarkPath(store_)));
  CKPTDB_ASSIGN_OR_RETURN(const auto names, ListFolder(files_.get(), path));
  const bool tables = std::any_of(
      names.begin(), names.end(),
      [](const std::string& name) { return absl::EndsWith(name, ".sst"); });
  if (!watermark && !tables) return false;
  return absl::DataLossError(absl::StrCat("\"", path, "/CURRENT\" is missing"));
}

// A bad table is found where it is read.
void Database::OpenAround(const std::string& path, const BadTables& bad,
                          rocksdb::DBOptions* options) {
  if (bad.empty()) return;
  OpenTablesLate(options);
  files_->set_lost_tables(path, bad);
  bad_tables_ = bad;
}

// Each pass over small saves opens all files of level 0. With a bad one there
// they could not be read, nor any that were made from now on.
absl::Status Database::CheckSmallSaves() const {
  if (bad_tables_.empty()) return absl::OkStatus();
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  const std::unique_ptr<rocksdb::Iterator> entries(
      rocks_->NewIterator(options, family(Family::kInline)));
  entries->SeekToFirst();
  return FromRocksRead(entries->status(),
                       absl::StrCat("opening \"", DatabasePath(store_), "\""));
}

absl::Status Database::Open(const std::string& path, const BadTables& bad) {
  env_ = rocksdb::NewCompositeEnv(files_);
  listener_ = std::make_shared<Listener>();
  rocksdb::DBOptions options = DatabaseOptions(env_.get());
  options.listeners.push_back(listener_);
  options.max_bgerror_resume_count = 0;
  if (info_log_ != nullptr) options.info_log = info_log_;
  const auto kept_open = std::to_string(options.max_open_files);
  OpenAround(path, bad, &options);
  rocksdb::DB* rocks = nullptr;
  CKPTDB_RETURN_IF_ERROR(StartThreads(options));
  CKPTDB_RETURN_IF_ERROR(OpenError(
      rocksdb::DB::Open(options, path, FamilyDescriptors(), &handles_, &rocks),
      path));
  rocks_.reset(rocks);
  if (!bad.empty()) {
    CKPTDB_RETURN_IF_ERROR(
        FromRocks(rocks_->SetDBOptions({{"max_open_files", kept_open}}),
                  "keeping tables open"));
  }
  // Opening has moved what was in the log to files.
  synced_sequence_ = rocks_->GetLatestSequenceNumber();
  return absl::OkStatus();
}

absl::StatusOr<ManifestNote> Database::ReadWatermark() const {
  const absl::StatusOr<std::string> bytes =
      ReadFile(files_.get(), WatermarkPath(store_));
  if (absl::IsNotFound(bytes.status())) return ManifestNote();
  CKPTDB_RETURN_IF_ERROR(bytes.status());
  return DecodeManifestNote(*bytes).value_or(ManifestNote());
}

absl::Status Database::CheckSequence(const ManifestNote& note) const {
  const uint64_t found = rocks_->GetLatestSequenceNumber();
  if (found >= note.sequence) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("\"", DatabasePath(store_), "\" ends at write ", found,
                   ", but write ", note.sequence,
                   " was acknowledged: its MANIFEST or log has lost its end"));
}

void Database::NoteWatermark() {
  ManifestNote note = files_->manifest();
  note.sequence = synced_sequence_;
  ReplaceFile(files_.get(), WatermarkPath(store_), EncodeManifestNote(note),
              /*sync=*/false)
      .IgnoreError();
}

// NotFound when there is none.
absl::Status Database::CheckStamp() const {
  CKPTDB_ASSIGN_OR_RETURN(const std::string stamp,
                          Get(Family::kDefault, kStampKey));
  if (stamp == StampValue()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("\"", store_, "\" has format \"", stamp,
                   "\"; this library reads \"", StampValue(), "\""));
}

// Before any ingestion: RocksDB 7.8 loses rows when the first thing in an
// empty database is an ingested file.
absl::Status Database::Stamp() {
  absl::Status stamped = CheckStamp();
  if (!absl::IsNotFound(stamped)) return stamped;
  rocksdb::WriteBatch batch;
  CKPTDB_RETURN_IF_ERROR(FromRocks(
      batch.Put(family(Family::kDefault), ToSlice(kStampKey), StampValue()),
      "format stamp"));
  CKPTDB_RETURN_IF_ERROR(Write(&batch, /*sync=*/true));
  return Flush({Family::kDefault});
}

absl::StatusOr<std::string> Database::Get(Family from,
                                          absl::string_view key) const {
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  std::string value;
  const rocksdb::Status status =
      rocks_->Get(options, family(from), ToSlice(key), &value);
  if (status.ok()) return value;
  if (status.IsNotFound()) return absl::NotFoundError("no such entry");
  return FromRocksRead(status, "reading an entry");
}

absl::Status Database::ForEach(
    Family from, absl::string_view prefix,
    const std::function<absl::Status(absl::string_view, absl::string_view)>&
        visit) const {
  const std::string end = PrefixEnd(prefix);
  const rocksdb::Slice first = ToSlice(prefix);
  const rocksdb::Slice bound = ToSlice(end);
  const std::unique_ptr<rocksdb::Iterator> entries(rocks_->NewIterator(
      PassOptions(&first, end.empty() ? nullptr : &bound), family(from)));
  for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
    CKPTDB_RETURN_IF_ERROR(
        visit(FromSlice(entries->key()), FromSlice(entries->value())));
  }
  return FromRocksRead(entries->status(), "reading entries");
}

uint64_t Database::ApproximateBytes(Family of, absl::string_view begin,
                                    absl::string_view end) const {
  const rocksdb::Range range(ToSlice(begin), ToSlice(end));
  uint64_t bytes = 0;
  const rocksdb::Status status = rocks_->GetApproximateSizes(
      rocksdb::SizeApproximationOptions(), family(of), &range, 1, &bytes);
  return status.ok() ? bytes : 0;
}

absl::Status Database::failure() const { return listener_->status(); }

absl::Status Database::FailOn(absl::Status status) {
  if (!status.ok()) listener_->Fail(status);
  return status;
}

absl::Status Database::status() const {
  const absl::Status first = failure();
  if (first.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "\"", store_,
      "\" is out of use until opened again, after: ", first.ToString()));
}

// FencedFileSystem asks as well, before each change of a file.
absl::Status Database::CheckOwner() {
  CKPTDB_RETURN_IF_ERROR(status());
  if (lock_ == nullptr) return absl::OkStatus();
  absl::Status owner = lock_->Check();
  if (absl::IsFailedPrecondition(owner)) listener_->Fail(owner);  // for good
  return owner;
}

absl::Status Database::Changed(const rocksdb::Status& status,
                               absl::string_view what) {
  absl::Status converted = FromRocks(status, what);
  if (!converted.ok()) listener_->Fail(converted);
  return converted;
}

absl::Status Database::Write(rocksdb::WriteBatch* batch, bool sync) {
  CKPTDB_RETURN_IF_ERROR(CheckOwner());
  rocksdb::WriteOptions options;
  options.sync = sync;
  CKPTDB_RETURN_IF_ERROR(HoldCompactions());
  // The batch gets higher numbers than what is there by now, and what is
  // before it in the log is synced with it.
  const uint64_t before = rocks_->GetLatestSequenceNumber();
  CKPTDB_RETURN_IF_ERROR(
      Changed(rocks_->Write(options, batch), "writing a batch"));
  if (sync) synced_sequence_ = before + batch->Count();
  return absl::OkStatus();
}

absl::Status Database::SyncLog() {
  CKPTDB_RETURN_IF_ERROR(status());
  return Changed(rocks_->FlushWAL(/*sync=*/true), "syncing the log");
}

absl::Status Database::Flush(const std::vector<Family>& families) {
  CKPTDB_RETURN_IF_ERROR(status());
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  handles.reserve(families.size());
  for (const Family each : families) handles.push_back(family(each));
  return Changed(rocks_->Flush(rocksdb::FlushOptions(), handles), "flushing");
}

absl::Status Database::Ingest(const std::vector<std::string>& files) {
  CKPTDB_RETURN_IF_ERROR(CheckOwner());
  rocksdb::IngestExternalFileOptions options;
  options.move_files = true;
  options.failed_move_fall_back_to_copy = true;
  options.write_global_seqno = false;
  options.allow_blocking_flush = false;
  options.verify_checksums_before_ingest = false;
  return Changed(
      rocks_->IngestExternalFile(family(Family::kBulk), files, options),
      "ingesting files");
}

bool Database::HasLeftovers(const std::string& begin,
                            const std::string& end) const {
  rocksdb::ColumnFamilyMetaData metadata;
  rocks_->GetColumnFamilyMetaData(family(Family::kBulk), &metadata);
  for (const rocksdb::LevelMetaData& level : metadata.levels) {
    for (const rocksdb::SstFileMetaData& file : level.files) {
      if (file.smallestkey < end && file.largestkey >= begin) return true;
    }
  }
  return false;
}

absl::Status Database::DeleteFiles(const KeyRanges& ranges) {
  CKPTDB_RETURN_IF_ERROR(CheckOwner());
  if (ranges.empty()) return absl::OkStatus();
  std::vector<rocksdb::Slice> bounds;
  for (const auto& [begin, end] : ranges) {
    bounds.push_back(ToSlice(begin));
    bounds.push_back(ToSlice(end));
  }
  std::vector<rocksdb::RangePtr> pointers;
  for (size_t i = 0; i < bounds.size(); i += 2) {
    pointers.emplace_back(&bounds[i], &bounds[i + 1]);
  }
  return Changed(
      rocksdb::DeleteFilesInRanges(rocks_.get(), family(Family::kBulk),
                                   pointers.data(), pointers.size(),
                                   /*include_end=*/false),
      "deleting files");
}

absl::Status Database::DeleteLeftovers(const KeyRanges& ranges) {
  for (const auto& [begin, end] : ranges) {
    if (!HasLeftovers(begin, end)) continue;
    CKPTDB_RETURN_IF_ERROR(status());
    CKPTDB_RETURN_IF_ERROR(Changed(
        rocks_->DeleteRange(rocksdb::WriteOptions(), family(Family::kBulk),
                            ToSlice(begin), ToSlice(end)),
        "deleting a range"));
    CKPTDB_RETURN_IF_ERROR(Compact(Family::kBulk, begin, end));
  }
  return absl::OkStatus();
}

absl::Status Database::Compact(Family of, absl::string_view begin,
                               absl::string_view end) {
  CKPTDB_RETURN_IF_ERROR(status());
  rocksdb::CompactRangeOptions options;
  options.bottommost_level_compaction =
      rocksdb::BottommostLevelCompaction::kForceOptimized;
  const rocksdb::Slice first = ToSlice(begin);
  const rocksdb::Slice last = ToSlice(end);
  const rocksdb::Status status =
      rocks_->CompactRange(options, family(of), &first, &last);
  if (HoldsData(family(of)->GetName()) && IsDamage(status)) {
    return FromRocksRead(status, "compacting");
  }
  // All is as it was, unless the MANIFEST was hit, which the listener knows.
  if (status.IsNoSpace()) return FromRocks(status, "compacting");
  return Changed(status, "compacting");
}

absl::Status Database::SetCompactions(Family of, bool on) {
  return Changed(rocks_->SetOptions(family(of), {{"disable_auto_compactions",
                                                  on ? "false" : "true"}}),
                 on ? "resuming compactions" : "holding compactions");
}

// RocksDB tries again each second, and has writes wait for its success when
// there are many files.
absl::Status Database::HoldCompactions() {
  if (!listener_->TakeGivenUp()) return absl::OkStatus();
  held_ = true;
  CKPTDB_RETURN_IF_ERROR(SetCompactions(Family::kMeta, false));
  return SetCompactions(Family::kInline, false);
}

absl::Status Database::ResumeCompactions() {
  if (!held_) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t free, FreeBytes(files_.get(), store_));
  if (free / 2 < TableBytes(Family::kInline) + TableBytes(Family::kMeta)) {
    return absl::OkStatus();
  }
  held_ = false;
  CKPTDB_RETURN_IF_ERROR(SetCompactions(Family::kMeta, true));
  if (listener_->met_damage()) return absl::OkStatus();
  return SetCompactions(Family::kInline, true);
}

uint64_t Database::TableBytes(Family of) const {
  rocksdb::ColumnFamilyMetaData metadata;
  rocks_->GetColumnFamilyMetaData(family(of), &metadata);
  return metadata.size;
}

absl::StatusOr<uint64_t> Database::BytesToOpen(rocksdb::FileSystem* files,
                                               absl::string_view store) {
  constexpr uint64_t kFixed = uint64_t{256} << 10;
  const std::string path = DatabasePath(store);
  CKPTDB_ASSIGN_OR_RETURN(const auto names, ListFolder(files, path));
  uint64_t bytes = kFixed;
  for (const std::string& name : names) {
    // What is in a log goes to a table; a MANIFEST is written again.
    if (!absl::EndsWith(name, ".log") && !ManifestNumber(name).has_value()) {
      continue;
    }
    uint64_t size = 0;
    const rocksdb::IOStatus status = files->GetFileSize(
        absl::StrCat(path, "/", name), rocksdb::IOOptions(), &size, nullptr);
    if (status.ok()) bytes += size;
  }
  return bytes;
}

}  // namespace ckptdb::internal
