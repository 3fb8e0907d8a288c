#include "ckptdb/db/store/store_impl.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/base/call_guard.h"
#include "ckptdb/db/base/paths.h"
#include "ckptdb/db/base/uuid.h"
#include "ckptdb/db/disk/files.h"
#include "ckptdb/db/disk/rocks_status.h"
#include "ckptdb/db/disk/store_path.h"
#include "ckptdb/db/meta/lease.h"
#include "ckptdb/db/meta/lineage.h"
#include "ckptdb/db/read/change_reader_impl.h"
#include "ckptdb/db/read/step_reader_impl.h"
#include "ckptdb/db/store/measure_usage.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {

using internal::Annotate;
using internal::Family;

Store::Impl::Impl(absl::string_view path, const StoreOptions& options)
    : path_(path),
      options_(options),
      environment_(options.environment != nullptr ? options.environment
                                                  : Environment::Default()),
      // Not on file systems that are not the machine's.
      spare_(absl::StrCat(path_, "/", internal::kSpareName),
             environment_->on_disk() ? options.spare_bytes : 0,
             options.file_mode) {}

absl::StatusOr<std::unique_ptr<Store::Impl>> Store::Impl::Open(
    absl::string_view path, const StoreOptions& options) {
  CKPTDB_ASSIGN_OR_RETURN(
      const std::string resolved,
      internal::ResolveStorePath(path, options.environment));
  CKPTDB_RETURN_IF_ERROR(internal::CheckChainBounds(options.fold_bounds));
  std::unique_ptr<Impl> impl(new Impl(resolved, options));
  CKPTDB_RETURN_IF_ERROR(impl->OpenFolder());
  const absl::Status opened = impl->OpenDatabase();
  if (!opened.ok()) return impl->WhyNotOpen(opened);
  // What goes wrong is told by posts_passed_over, and is tried again.
  impl->TakePosts().IgnoreError();
  if (options.background_sweep) {
    impl->RequestSweep();
    CKPTDB_RETURN_IF_ERROR(
        internal::CallGuarded("starting the thread that sweeps", [&] {
          impl->sweeper_ =
              std::thread([raw = impl.get()] { raw->SweepInBackground(); });
        }));
  }
  impl->exit_task_ = std::make_unique<internal::ExitTask>(
      [raw = impl.get()] { raw->CloseAtExit(); });
  return impl;
}

Store::Impl::~Impl() {
  exit_task_.reset();
  if (gate_.Close()) ShutDown().IgnoreError();
}

absl::Status Store::Impl::Close() {
  if (gate_.InCall()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Store::Close: the store \"", path_,
        "\" cannot be closed by code that one of its calls has called"));
  }
  if (!gate_.Close()) return absl::OkStatus();
  if (const size_t readers = OpenReaders(); readers > 0) {
    gate_.Open();
    return absl::FailedPreconditionError(absl::StrCat(
        "Store::Close: of the store \"", path_, "\" ", readers,
        " StepReader or ChangeReader objects are still there; destroy them "
        "first"));
  }
  return ShutDown();
}

// Exit does not wait for calls that it is itself part of, nor takes away what
// readers use.
void Store::Impl::CloseAtExit() {
  if (gate_.InCall()) return;
  if (gate_.Close() && OpenReaders() == 0) {
    ShutDown().IgnoreError();
  } else {
    StopSweeper();
  }
}

size_t Store::Impl::OpenReaders() const {
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  return readers_;
}

void Store::Impl::StopSweeper() {
  {
    const std::lock_guard<std::mutex> lock(sweeper_mutex_);
    stop_ = true;
  }
  sweeper_wakes_.notify_all();
  if (sweeper_.joinable()) sweeper_.join();
}

absl::Status Store::Impl::ShutDown() {
  StopSweeper();
  progress_.clear();
  absl::Status closed;
  if (database_ != nullptr) closed = database_->Close();
  database_.reset();
  if (lock_ != nullptr) lock_->Release();
  return closed;
}

absl::Status Store::Impl::OpenFolder() {
  const auto files = std::make_shared<internal::GuardedFileSystem>(
      environment_->file_system(),
      internal::FileModes{options_.directory_mode, options_.file_mode,
                          environment_->on_disk()});
  CKPTDB_ASSIGN_OR_RETURN(
      const bool exists,
      internal::Exists(files.get(), internal::DatabasePath(path_)));
  if (!exists && !options_.create_if_missing) {
    return absl::NotFoundError(absl::StrCat("no store at \"", path_, "\""));
  }
  CKPTDB_RETURN_IF_ERROR(internal::MakeFolders(files.get(), path_));
  CKPTDB_ASSIGN_OR_RETURN(lock_, internal::OwnerLock::Acquire(files, path_));
  CKPTDB_RETURN_IF_ERROR(CheckRoomToOpen(files.get()));
  CKPTDB_RETURN_IF_ERROR(lock_->Announce());
  for (const std::string& folder :
       {internal::DatabasePath(path_), internal::StagingPath(path_),
        internal::LeasesPath(path_), internal::PostsPath(path_)}) {
    CKPTDB_RETURN_IF_ERROR(internal::MakeFolders(files.get(), folder));
  }
  return absl::OkStatus();
}

// An opening that ends for want of space has not begun.
absl::Status Store::Impl::CheckRoomToOpen(rocksdb::FileSystem* files) const {
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t needed,
                          internal::Database::BytesToOpen(files, path_));
  absl::Status status =
      internal::CheckFreeBytes(files, path_, needed, /*reserve=*/0);
  if (!absl::IsResourceExhausted(status) || !spare_.Release(needed)) {
    return status;
  }
  return internal::CheckFreeBytes(files, path_, needed, /*reserve=*/0);
}

// RocksDB's background work may come upon damage while the store is opened, and
// what is written then fails for it.
absl::Status Store::Impl::WhyNotOpen(const absl::Status& status) const {
  if (database_ == nullptr) return status;
  const absl::Status failure = database_->failure();
  return failure.ok() ? status : failure;
}

absl::StatusOr<internal::Catalog> Store::Impl::ReadDatabase(
    internal::CorruptTables* bad) const {
  CKPTDB_ASSIGN_OR_RETURN(const auto found,
                          internal::Database::OpenFollower(
                              path_, *environment_, options_.direct_reads));
  *bad = found->corrupt_tables();
  return Annotate(internal::LoadCatalog(*found),
                  absl::StrCat("\"", path_, "\""));
}

// What cannot be used is not written to: all is read before.
absl::Status Store::Impl::OpenDatabase() {
  internal::CorruptTables bad;
  absl::StatusOr<internal::Catalog> catalog = ReadDatabase(&bad);
  const bool none = absl::IsNotFound(catalog.status());
  if (!none) CKPTDB_RETURN_IF_ERROR(catalog.status());
  CKPTDB_ASSIGN_OR_RETURN(
      database_, internal::Database::OpenOwner(
                     path_, *environment_,
                     {options_.directory_mode, options_.file_mode,
                      environment_->on_disk()},
                     options_.direct_reads, bad, lock_, options_.logger));
  if (none) catalog = internal::LoadCatalog(*database_);
  if (absl::IsNotFound(catalog.status())) {
    CKPTDB_RETURN_IF_ERROR(CheckRoom(internal::kRecordOverhead));
    CKPTDB_RETURN_IF_ERROR(NewRoot());
    catalog = internal::LoadCatalog(*database_);
  }
  CKPTDB_RETURN_IF_ERROR(catalog.status());
  catalog_ = *std::move(catalog);
  uuid_ = catalog_.root.uuid;
  // Above all attempts of which there is any trace.
  uint32_t& next = catalog_.root.next_attempt;
  for (const auto& [attempt, record] : catalog_.attempts) {
    next = std::max(next, attempt + 1);
  }
  for (const auto& [version, bytes] : internal::BulkBytes(*database_)) {
    next = std::max(next, version.attempt + 1);
  }
  ++catalog_.root.owner_epoch;
  CKPTDB_RETURN_IF_ERROR(WriteRoot(catalog_.root));
  SetSpareAside();
  return absl::OkStatus();
}

absl::Status Store::Impl::WriteRoot(const RootRecord& root) {
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, EncodeRootRecord(root));
  rocksdb::WriteBatch batch;
  CKPTDB_RETURN_IF_ERROR(internal::FromRocks(
      batch.Put(database_->family(Family::kMeta), RootKey(), bytes),
      "root record"));
  return database_->Write(&batch, /*sync=*/true);
}

absl::Status Store::Impl::NewRoot() {
  RootRecord root;
  root.uuid = internal::NewUuid();
  root.created_at_micros = environment_->NowMicros();
  CKPTDB_RETURN_IF_ERROR(WriteRoot(root));
  return database_->Flush({Family::kMeta});
}

// A write-ahead log that hits a full disk takes the process with it at the
// next write: never write without room.
absl::Status Store::Impl::CheckRoom(uint64_t needed, Spare spare) const {
  rocksdb::FileSystem* const files = database_->files().get();
  absl::Status status =
      internal::CheckFreeBytes(files, path_, needed, /*reserve=*/0);
  if (spare == Spare::kKeep || !absl::IsResourceExhausted(status)) {
    return status;
  }
  // What another owner has set aside is not this one's to give.
  CKPTDB_RETURN_IF_ERROR(lock_->Check());
  if (!spare_.Release(needed)) return status;
  return internal::CheckFreeBytes(files, path_, needed, /*reserve=*/0);
}

absl::Status Store::Impl::CheckRoomFor(const rocksdb::WriteBatch& batch,
                                       Spare spare) const {
  // In the log, and in the memory table's file.
  constexpr uint64_t kCopies = 2;
  return CheckRoom(internal::kRecordOverhead + kCopies * batch.GetDataSize(),
                   spare);
}

// What was set aside may be back when there is room for it.
void Store::Impl::SetSpareAside() const {
  if (spare_.IsSetAside() || !lock_->Check().ok()) return;
  const absl::StatusOr<uint64_t> free =
      internal::FreeBytes(database_->files().get(), path_);
  if (free.ok()) spare_.SetAside(*free);
}

absl::Status Store::Impl::WriteDurably(rocksdb::WriteBatch* batch) {
  CKPTDB_RETURN_IF_ERROR(database_->Write(batch, /*sync=*/true));
  CKPTDB_RETURN_IF_ERROR(database_->Flush({Family::kMeta}));
  database_->NoteWatermark();
  return absl::OkStatus();
}

absl::Status Store::Impl::Pass(absl::string_view point) const {
  if (!options_.on_point) return absl::OkStatus();
  return internal::CallGuarded("StoreOptions::on_point",
                               [&] { options_.on_point(point); });
}

std::vector<StepRecord> Store::Impl::Steps() const {
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  return catalog_.Steps();
}

absl::StatusOr<StepRecord> Store::Impl::FindStep(int64_t step) const {
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  return Annotate(catalog_.FindStep(step), path_);
}

void Store::Impl::VisitSteps(
    absl::FunctionRef<void(const StepRecord&)> visit) const {
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  for (const auto& [step, record] : catalog_.steps) visit(record);
}

bool Store::Impl::VisitStep(
    int64_t step, absl::FunctionRef<void(const StepRecord&)> visit) const {
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  const auto found = catalog_.steps.find(step);
  if (found == catalog_.steps.end()) return false;
  visit(found->second);
  return true;
}

StepChanges Store::Impl::ChangedSteps(uint64_t since) const {
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  return catalog_.journal.Since(since);
}

absl::StatusOr<StepRecord> Store::Impl::Latest() const {
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  return Annotate(catalog_.Latest(), path_);
}

// Called with catalog_mutex_ held; what it returns takes it when it goes.
std::shared_ptr<void> Store::Impl::Hold(std::vector<Version> versions,
                                        bool by_reader) {
  holds_.insert(versions.begin(), versions.end());
  if (by_reader) ++readers_;
  return {nullptr, [this, by_reader, versions = std::move(versions)](void*) {
            const std::lock_guard<std::mutex> lock(catalog_mutex_);
            if (by_reader) --readers_;
            if (LetGo(versions)) RequestSweep();
          }};
}

// Called with catalog_mutex_ held. Whether a sweep has left any of these for
// holds alone, and none is held any more.
bool Store::Impl::LetGo(const std::vector<Version>& versions) {
  bool garbage = false;
  for (const Version& version : versions) {
    holds_.erase(holds_.find(version));
    if (holds_.contains(version)) continue;
    garbage = held_garbage_.erase(version) > 0 || garbage;
  }
  return garbage;
}

absl::StatusOr<Store::Impl::HeldStep> Store::Impl::HoldStep(int64_t step) {
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  HeldStep held;
  CKPTDB_ASSIGN_OR_RETURN(held.record,
                          Annotate(catalog_.FindStep(step), path_));
  held.hold = Hold(internal::VersionsOf(held.record));
  return held;
}

absl::StatusOr<std::unique_ptr<StepReader>> Store::Impl::OpenStep(
    int64_t step, const StepReader::Impl** loaded) {
  std::vector<StepRecord> chain;
  std::shared_ptr<void> hold;
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    CKPTDB_ASSIGN_OR_RETURN(const StepRecord record,
                            Annotate(catalog_.FindStep(step), path_));
    CKPTDB_ASSIGN_OR_RETURN(chain, internal::ChainOf(catalog_, record));
    hold = Hold(internal::VersionsOf(record),
                /*by_reader=*/loaded == nullptr);
  }
  return StepReader::Impl::Load(database_.get(), std::move(chain),
                                std::move(hold), loaded);
}

absl::StatusOr<std::unique_ptr<ChangeReader>> Store::Impl::OpenChanges(
    const Version& from, int64_t to) {
  ChangePlan plan;
  std::shared_ptr<void> hold;
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    absl::StatusOr<ChangePlan> planned = PlanChanges(catalog_, from, to);
    CKPTDB_RETURN_IF_ERROR(Annotate(planned.status(), path_));
    plan = *std::move(planned);
    hold = Hold(plan.versions(), /*by_reader=*/true);
  }
  return ChangeReader::Impl::Load(database_.get(), std::move(plan),
                                  std::move(hold));
}

// Called with catalog_mutex_ held.
void Store::Impl::NoteRetired(const StepRecord& record) {
  catalog_.attempts[record.version.attempt].state = AttemptState::kRetired;
  catalog_.retired[record.version] = record;
  borrowed_.erase(record.version);
}

// Adds to `batch` that a step stops to exist. Its record stays for those whose
// chain it is in, until the sweep.
absl::Status Store::Impl::Retire(const StepRecord& record,
                                 rocksdb::WriteBatch* batch) {
  AttemptRecord attempt;
  attempt.version = record.version;
  attempt.state = AttemptState::kRetired;
  CKPTDB_ASSIGN_OR_RETURN(const std::string attempt_bytes,
                          EncodeAttemptRecord(attempt));
  CKPTDB_ASSIGN_OR_RETURN(const std::string step_bytes,
                          EncodeStepRecord(record));
  rocksdb::ColumnFamilyHandle* const meta = database_->family(Family::kMeta);
  rocksdb::Status status =
      batch->Put(meta, AttemptKey(attempt.version.attempt), attempt_bytes);
  if (status.ok()) {
    status = batch->Put(meta, RetiredKey(record.version), step_bytes);
  }
  if (status.ok()) status = batch->Delete(meta, StepKey(record.version.step));
  return internal::FromRocks(status, "retiring a step");
}

absl::Status Store::Impl::Delete(int64_t step) {
  const std::lock_guard<std::mutex> change(change_mutex_);
  CKPTDB_ASSIGN_OR_RETURN(const StepRecord record, FindStep(step));
  if (record.pinned) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": step ", step, " is pinned"));
  }
  rocksdb::WriteBatch batch;
  CKPTDB_RETURN_IF_ERROR(Retire(record, &batch));
  CKPTDB_RETURN_IF_ERROR(CheckRoomFor(batch, Spare::kUse));
  CKPTDB_RETURN_IF_ERROR(database_->Write(&batch, /*sync=*/true));
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    catalog_.EraseStep(step);
    NoteRetired(record);
    unflushed_ = true;
  }
  RequestSweep();
  return absl::OkStatus();
}

absl::Status Store::Impl::AddMetrics(int64_t step, const Metrics& metrics) {
  return ChangeRecord(step, [&](StepRecord* changed) {
    for (const auto& [name, value] : metrics) changed->metrics[name] = value;
    return internal::CheckMetrics(changed->metrics);
  });
}

absl::Status Store::Impl::SetFlag(int64_t step, bool StepRecord::*flag,
                                  bool value, Spare spare) {
  return ChangeRecord(
      step,
      [&](StepRecord* changed) {
        changed->*flag = value;
        return absl::OkStatus();
      },
      spare);
}

absl::Status Store::Impl::ChangeRecord(
    int64_t step, const std::function<absl::Status(StepRecord*)>& change,
    Spare spare) {
  const std::lock_guard<std::mutex> one_change(change_mutex_);
  CKPTDB_ASSIGN_OR_RETURN(const StepRecord before, FindStep(step));
  StepRecord record = before;
  CKPTDB_RETURN_IF_ERROR(change(&record));
  if (record == before) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, EncodeStepRecord(record));
  rocksdb::WriteBatch batch;
  CKPTDB_RETURN_IF_ERROR(internal::FromRocks(
      batch.Put(database_->family(Family::kMeta), StepKey(step), bytes),
      "step record"));
  CKPTDB_RETURN_IF_ERROR(CheckRoomFor(batch, spare));
  CKPTDB_RETURN_IF_ERROR(WriteDurably(&batch));
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  catalog_.PutStep(std::move(record));
  return absl::OkStatus();
}

absl::Status Store::Impl::SetUserMetadata(const UserMetadata& metadata) {
  CKPTDB_RETURN_IF_ERROR(internal::CheckUserMetadata(metadata));
  const std::lock_guard<std::mutex> change(change_mutex_);
  RootRecord root;
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    root = catalog_.root;
  }
  root.user_metadata = metadata;
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, EncodeRootRecord(root));
  constexpr uint64_t kCopies = 2;
  CKPTDB_RETURN_IF_ERROR(
      CheckRoom(internal::kRecordOverhead + kCopies * bytes.size()));
  CKPTDB_RETURN_IF_ERROR(WriteRoot(root));
  CKPTDB_RETURN_IF_ERROR(database_->Flush({Family::kMeta}));
  database_->NoteWatermark();
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  catalog_.root.user_metadata = metadata;
  return absl::OkStatus();
}

UserMetadata Store::Impl::user_metadata() const {
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  return catalog_.root.user_metadata;
}

}  // namespace ckptdb
