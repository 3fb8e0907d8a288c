// Saves, from Begin to the commit: docs/design.md, "Save".
#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ckptdb/db/consistency.h"
#include "ckptdb/db/crash_points.h"
#include "ckptdb/db/files.h"
#include "ckptdb/db/rocks_status.h"
#include "ckptdb/db/stager.h"
#include "ckptdb/db/store_impl.h"
#include "ckptdb/schema/limits.h"
#include "ckptdb/schema/names.h"
#include "ckptdb/schema/page.h"
#include "ckptdb/schema/status.h"

#ifndef CKPTDB_VERSION
#error "the build names the library's version"
#endif

namespace ckptdb {
namespace {

using internal::Family;
using internal::FromRocks;
using internal::FromRocksRead;
using internal::ToSlice;

// An entry goes to the log, to the memory table's file, and to a compaction.
constexpr uint64_t kBatchCopies = 3;
constexpr uint64_t kBatchOverhead = uint64_t{1} << 20;

absl::Status Bad(absl::string_view why) {
  return absl::InvalidArgumentError(why);
}

std::string StagingOf(uint32_t attempt) {
  return absl::StrCat("staging/", attempt);
}

absl::Status CheckMetadata(const PublishSpec& spec) {
  if (spec.metrics.size() > kMaxMetrics) {
    return Bad(absl::StrCat(spec.metrics.size(), " metrics; the limit is ",
                            kMaxMetrics));
  }
  for (const auto& [name, value] : spec.metrics) {
    CKPTDB_RETURN_IF_ERROR(CheckName("metric name", name));
  }
  uint64_t bytes = 0;
  for (const auto& [name, value] : spec.user_metadata) {
    CKPTDB_RETURN_IF_ERROR(CheckName("metadata name", name));
    bytes += name.size() + value.size();
  }
  if (bytes <= kMaxMetadataBytes) return absl::OkStatus();
  return Bad(absl::StrCat("user metadata of ", bytes, " bytes; the limit is ",
                          kMaxMetadataBytes));
}

absl::Status CheckBounds(const SaveSpec& spec) {
  const std::vector<uint32_t>& bounds = spec.slice_bounds;
  if (bounds.empty()) return absl::OkStatus();
  const bool right = bounds.size() == spec.world_size + size_t{1} &&
                     bounds.front() == 0 && bounds.back() == kSlices &&
                     std::is_sorted(bounds.begin(), bounds.end());
  if (right) return absl::OkStatus();
  return Bad(absl::StrCat("slice bounds [", absl::StrJoin(bounds, ", "),
                          "] do not rise from 0 to ", kSlices, " in ",
                          spec.world_size, " ranges"));
}

}  // namespace

absl::Status Store::Impl::CheckSpec(const SaveSpec& spec) const {
  if (spec.step < 0)
    return Bad(absl::StrCat("step ", spec.step, " is below 0"));
  if (spec.world_size == 0 || spec.world_size > kMaxWorldSize) {
    return Bad(absl::StrCat("world size ", spec.world_size, " is not in 1 to ",
                            kMaxWorldSize));
  }
  CKPTDB_RETURN_IF_ERROR(CheckBounds(spec));
  return CheckFree(spec);
}

// The step is free to be taken.
absl::Status Store::Impl::CheckFree(const SaveSpec& spec) const {
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  if (spec.overwrite) return absl::OkStatus();
  const auto found = catalog_.steps.find(spec.step);
  if (found == catalog_.steps.end()) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(path_, ": step ", spec.step,
                                               " exists, as attempt ",
                                               found->second.version.attempt));
}

absl::StatusOr<SaveHandle> Store::Impl::Begin(const SaveSpec& spec, bool sync) {
  const std::lock_guard<std::mutex> change(change_mutex_);
  CKPTDB_RETURN_IF_ERROR(database_->status());
  CKPTDB_RETURN_IF_ERROR(CheckSpec(spec));
  CKPTDB_RETURN_IF_ERROR(internal::CheckFreeBytes(
      database_->files().get(), path_, kBatchOverhead, options_.reserve_bytes));
  const AttemptRecord attempt = StartProgress(spec);
  absl::StatusOr<SaveHandle> handle = RecordAttempt(attempt, spec, sync);
  if (handle.ok()) {
    Pass(point::kBegun);
  } else {
    DropProgress(attempt.version);
  }
  return handle;
}

AttemptRecord Store::Impl::StartProgress(const SaveSpec& spec) {
  AttemptRecord attempt;
  attempt.begun_at_micros = environment_->NowMicros();
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  // In memory first: a number that may be in the log is never used again.
  attempt.version = {spec.step, catalog_.root.next_attempt++};
  catalog_.attempts[attempt.version.attempt] = attempt;
  Progress& progress = progress_[attempt.version.attempt];
  progress.spec = spec;
  progress.begun_at_micros = attempt.begun_at_micros;
  if (const StepRecord* parent = catalog_.Newest(); parent != nullptr) {
    progress.parent = *parent;
    progress.parent_hold = Hold(internal::VersionsOf(*parent));
  }
  return attempt;
}

// False when there is no such attempt.
bool Store::Impl::DropProgress(const Version& version) {
  std::shared_ptr<void> hold;  // let go of after the lock
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  const auto found = progress_.find(version.attempt);
  if (found == progress_.end() || found->second.spec.step != version.step) {
    return false;
  }
  hold = std::move(found->second.parent_hold);
  progress_.erase(found);
  return true;
}

absl::StatusOr<SaveHandle> Store::Impl::RecordAttempt(
    const AttemptRecord& attempt, const SaveSpec& spec, bool sync) {
  RootRecord root;
  StepRecord parent;
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    root = catalog_.root;
    parent = progress_[attempt.version.attempt].parent;
  }
  rocksdb::ColumnFamilyHandle* const meta = database_->family(Family::kMeta);
  rocksdb::WriteBatch batch;
  rocksdb::Status put = batch.Put(meta, RootKey(), EncodeRootRecord(root));
  if (put.ok()) {
    put = batch.Put(meta, AttemptKey(attempt.version.attempt),
                    EncodeAttemptRecord(attempt));
  }
  CKPTDB_RETURN_IF_ERROR(FromRocks(put, "attempt record"));
  CKPTDB_RETURN_IF_ERROR(database_->Write(&batch, sync));
  CKPTDB_RETURN_IF_ERROR(internal::MakeFolders(
      database_->files().get(),
      absl::StrCat(path_, "/", StagingOf(attempt.version.attempt))));
  return SaveHandle{attempt.version,
                    MakeTickets(attempt.version, spec, parent)};
}

std::vector<Ticket> Store::Impl::MakeTickets(const Version& version,
                                             const SaveSpec& spec,
                                             const StepRecord& parent) const {
  std::vector<Ticket> tickets(spec.world_size);
  for (uint32_t rank = 0; rank < spec.world_size; ++rank) {
    Ticket& ticket = tickets[rank];
    ticket.uuid = uuid_;
    ticket.version = version;
    ticket.world_size = spec.world_size;
    ticket.rank = rank;
    ticket.slice_bounds = spec.slice_bounds;
    ticket.staging = absl::StrCat(StagingOf(version.attempt), "/", rank);
    if (parent.version.attempt == 0 || rank >= parent.world_size) continue;
    // A parent that is damaged is no reason not to save: nothing is reused.
    absl::StatusOr<RankRecord> record =
        internal::LoadRank(*database_, parent, rank);
    if (record.ok()) ticket.parent = EncodeRankRecord(*record);
  }
  return tickets;
}

absl::Status Store::Impl::Abandon(const Version& version) {
  const std::lock_guard<std::mutex> change(change_mutex_);
  if (!DropProgress(version)) return NotInProgress(version);
  RequestSweep();
  return absl::OkStatus();
}

absl::Status Store::Impl::NotInProgress(const Version& version) const {
  return absl::NotFoundError(
      absl::StrCat(path_, ": no save in progress is ", ToString(version)));
}

absl::Status Store::Impl::CheckStaged(const Version& version,
                                      const Progress& progress,
                                      const StagedRank& staged) const {
  const std::string place = absl::StrCat("staged rank ", staged.rank);
  if (staged.uuid != uuid_) {
    return Bad(
        absl::StrCat(place, " is of store ", staged.uuid, ", not of ", uuid_));
  }
  if (staged.version != version) {
    return Bad(absl::StrCat(place, " is of ", ToString(staged.version),
                            ", not of ", ToString(version)));
  }
  if (staged.world_size != progress.spec.world_size) {
    return Bad(absl::StrCat(place, " is of a world of ", staged.world_size,
                            ", not of ", progress.spec.world_size));
  }
  return CheckFiles(staged);
}

absl::Status Store::Impl::CheckFiles(const StagedRank& staged) const {
  const std::string folder =
      absl::StrCat(StagingOf(staged.version.attempt), "/", staged.rank, "/");
  for (const StagedFile& file : staged.files) {
    if (!absl::StartsWith(file.path, folder) ||
        absl::StrContains(file.path, "..")) {
      return Bad(absl::StrCat("staged file \"", file.path, "\" is not below \"",
                              folder, "\""));
    }
    const std::string path = absl::StrCat(path_, "/", file.path);
    uint64_t bytes = 0;
    CKPTDB_RETURN_IF_ERROR(
        FromRocksRead(database_->files()->GetFileSize(
                          path, rocksdb::IOOptions(), &bytes, nullptr),
                      absl::StrCat("staged file \"", path, "\"")));
    if (bytes != file.bytes) {
      return absl::DataLossError(
          absl::StrCat("staged file \"", path, "\" has ", bytes,
                       " bytes, not the ", file.bytes, " that were written"));
    }
  }
  return absl::OkStatus();
}

absl::Status Store::Impl::AddRank(const StagedRank& staged,
                                  Commit* commit) const {
  const std::string place = absl::StrCat("staged rank ", staged.rank);
  absl::StatusOr<RankRecord> record = DecodeRankRecord(staged.rank_record);
  CKPTDB_RETURN_IF_ERROR(internal::Annotate(record.status(), place));
  if (record->version != staged.version || record->rank != staged.rank) {
    return Bad(absl::StrCat(place, " has the record of ",
                            ToString(record->version), " rank ", record->rank));
  }
  for (const auto& [key, value] : staged.inline_entries) {
    CKPTDB_ASSIGN_OR_RETURN(const DataKey parsed, ParseDataKey(key));
    if (parsed.version != staged.version || parsed.rank != staged.rank) {
      return Bad(
          absl::StrCat(place, " has an entry of ", DescribeDataKey(key)));
    }
    commit->inline_bytes += key.size() + value.size();
  }
  for (const StagedFile& file : staged.files) {
    commit->files.push_back(absl::StrCat(path_, "/", file.path));
  }
  commit->ranks[staged.rank] = *std::move(record);
  commit->rank_bytes[staged.rank] = staged.rank_record;
  commit->staged[staged.rank] = &staged;
  return absl::OkStatus();
}

absl::Status Store::Impl::AddRetired(const Progress& progress,
                                     const PublishSpec& spec,
                                     Commit* commit) const {
  std::set<int64_t> steps(spec.retire.begin(), spec.retire.end());
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  for (const int64_t step : steps) {
    if (step == progress.spec.step) {
      return Bad(absl::StrCat("step ", step, " cannot be retired by itself"));
    }
    CKPTDB_ASSIGN_OR_RETURN(const StepRecord record,
                            internal::Annotate(catalog_.FindStep(step), path_));
    if (record.pinned) {
      return absl::FailedPreconditionError(
          absl::StrCat(path_, ": step ", step, " is pinned"));
    }
    commit->retired.push_back(record.version);
    commit->removed_steps.push_back(step);
  }
  const auto replaced = catalog_.steps.find(progress.spec.step);
  if (replaced != catalog_.steps.end()) {
    if (replaced->second.pinned) {
      return absl::FailedPreconditionError(
          absl::StrCat(path_, ": step ", progress.spec.step, " is pinned"));
    }
    commit->retired.push_back(replaced->second.version);
  }
  return absl::OkStatus();
}

void Store::Impl::FillStep(const Version& version, const Progress& progress,
                           const PublishSpec& spec, Commit* commit) const {
  StepRecord& step = commit->step;
  step.version = version;
  step.chain = {version};
  step.has_parent = progress.parent.version.attempt != 0;
  step.parent = progress.parent.version;
  step.world_size = progress.spec.world_size;
  step.slice_bounds = progress.spec.slice_bounds;
  step.committed_at_micros = environment_->NowMicros();
  step.save_micros = step.committed_at_micros - progress.begun_at_micros;
  step.ephemeral = spec.ephemeral;
  step.metrics = spec.metrics;
  step.user_metadata = spec.user_metadata;
  step.library_version = CKPTDB_VERSION;
  std::set<Version> references;
  for (const RankRecord& rank : commit->ranks) {
    step.rank_digests.push_back(HashBytes(commit->rank_bytes[rank.rank]));
    for (const Item& item : rank.items) {
      ++step.items;
      step.rows += item.rows;
      step.raw_bytes += item.raw_bytes;
      if (item.data == version) step.stored_bytes += item.stored_bytes;
      if (item.data != version) references.insert(item.data);
    }
  }
  step.references.assign(references.begin(), references.end());
}

absl::StatusOr<Store::Impl::Commit> Store::Impl::Check(
    const Version& version, const Progress& progress,
    absl::Span<const StagedRank> ranks, const PublishSpec& spec) const {
  CKPTDB_RETURN_IF_ERROR(CheckFree(progress.spec));
  CKPTDB_RETURN_IF_ERROR(CheckMetadata(spec));
  const uint32_t world_size = progress.spec.world_size;
  Commit commit;
  commit.ranks.resize(world_size);
  commit.rank_bytes.resize(world_size);
  commit.staged.resize(world_size);
  for (const StagedRank& staged : ranks) {
    CKPTDB_RETURN_IF_ERROR(CheckStaged(version, progress, staged));
    if (staged.rank >= world_size) {
      return Bad(absl::StrCat("staged rank ", staged.rank,
                              " is not below the world size ", world_size));
    }
    if (commit.staged[staged.rank] != nullptr) {
      return Bad(absl::StrCat("rank ", staged.rank, " is there twice"));
    }
    CKPTDB_RETURN_IF_ERROR(AddRank(staged, &commit));
  }
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < world_size; ++rank) {
    if (commit.staged[rank] == nullptr) missing.push_back(rank);
  }
  if (!missing.empty()) {
    return Bad(absl::StrCat("ranks ", absl::StrJoin(missing, ", "), " of ",
                            world_size, " are missing"));
  }
  CKPTDB_RETURN_IF_ERROR(internal::CheckRanksAgree(commit.ranks));
  CKPTDB_RETURN_IF_ERROR(AddRetired(progress, spec, &commit));
  if (commit.inline_bytes > 2 * kInlineBytes) {
    return Bad(absl::StrCat("entries of ", commit.inline_bytes,
                            " bytes for the write batch; the limit is ",
                            2 * kInlineBytes));
  }
  FillStep(version, progress, spec, &commit);
  CKPTDB_RETURN_IF_ERROR(internal::CheckFreeBytes(
      database_->files().get(), path_,
      commit.inline_bytes * kBatchCopies + kBatchOverhead,
      options_.reserve_bytes));
  return commit;
}

absl::StatusOr<SaveResult> Store::Impl::Publish(
    const Version& version, absl::Span<const StagedRank> ranks,
    const PublishSpec& spec) {
  const std::lock_guard<std::mutex> change(change_mutex_);
  const int64_t started = environment_->NowMicros();
  CKPTDB_RETURN_IF_ERROR(database_->status());
  Progress progress;
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    const auto found = progress_.find(version.attempt);
    if (found == progress_.end() || found->second.spec.step != version.step) {
      return NotInProgress(version);
    }
    progress = found->second;
  }
  // 3a. Check.
  CKPTDB_ASSIGN_OR_RETURN(Commit commit, Check(version, progress, ranks, spec));
  Pass(point::kChecked);
  // 3b. Ingest: the files of all ranks are in the database, and durable.
  if (!commit.files.empty()) {
    CKPTDB_RETURN_IF_ERROR(database_->SyncLog());
    CKPTDB_RETURN_IF_ERROR(database_->Ingest(commit.files));
  }
  Pass(point::kIngested);
  // 3c. The commit point: before it nothing of the step is visible, after it
  // all of it is.
  CKPTDB_RETURN_IF_ERROR(WriteCommit(commit));
  Pass(point::kCommitted);
  // 3d. Flush: a byte that flips in the log must not take it back.
  std::vector<Family> families = {Family::kMeta};
  if (commit.inline_bytes > 0) families.push_back(Family::kInline);
  CKPTDB_RETURN_IF_ERROR(database_->Flush(families));
  Pass(point::kFlushed);
  database_->NoteWatermark();
  SaveResult result;
  result.version = version;
  result.raw_bytes = commit.step.raw_bytes;
  result.stored_bytes = commit.step.stored_bytes;
  for (const RankRecord& rank : commit.ranks) {
    for (const internal::BorrowedItem& item : internal::BorrowedItems(rank)) {
      result.reused_bytes += item.stored_bytes;
    }
  }
  Acknowledge(std::move(commit));
  result.commit_micros = environment_->NowMicros() - started;
  return result;
}

absl::Status Store::Impl::WriteCommit(const Commit& commit) {
  constexpr uint64_t kRecordBytes = uint64_t{16} << 10;
  rocksdb::WriteBatch batch(commit.inline_bytes + kRecordBytes);
  rocksdb::ColumnFamilyHandle* const meta = database_->family(Family::kMeta);
  const Version& version = commit.step.version;
  rocksdb::Status status;
  const auto put = [&](rocksdb::ColumnFamilyHandle* family,
                       absl::string_view key, absl::string_view value) {
    if (status.ok()) status = batch.Put(family, ToSlice(key), ToSlice(value));
  };
  for (const StagedRank* staged : commit.staged) {
    for (const auto& [key, value] : staged->inline_entries) {
      put(database_->family(Family::kInline), key, value);
    }
    put(meta, RankKey(version, staged->rank), staged->rank_record);
  }
  for (const int64_t step : commit.removed_steps) {
    if (status.ok()) status = batch.Delete(meta, StepKey(step));
  }
  for (const Version& retired : commit.retired) {
    put(meta, AttemptKey(retired.attempt),
        EncodeAttemptRecord({retired, AttemptState::kRetired, 0}));
  }
  put(meta, AttemptKey(version.attempt),
      EncodeAttemptRecord({version, AttemptState::kCommitted, 0}));
  put(meta, StepKey(version.step), EncodeStepRecord(commit.step));
  CKPTDB_RETURN_IF_ERROR(FromRocks(status, "commit batch"));
  return database_->Write(&batch, /*sync=*/true);
}

void Store::Impl::Acknowledge(Commit commit) {
  const Version version = commit.step.version;
  std::vector<internal::BorrowedItem> borrowed;
  for (const RankRecord& rank : commit.ranks) {
    for (internal::BorrowedItem& item : internal::BorrowedItems(rank)) {
      borrowed.push_back(std::move(item));
    }
  }
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    for (const int64_t step : commit.removed_steps) catalog_.steps.erase(step);
    for (const Version& retired : commit.retired) {
      catalog_.attempts[retired.attempt].state = AttemptState::kRetired;
      borrowed_.erase(retired);
    }
    catalog_.attempts[version.attempt] = {version, AttemptState::kCommitted, 0};
    catalog_.steps[version.step] = std::move(commit.step);
    borrowed_[version] = std::move(borrowed);
  }
  DropProgress(version);
  // Empty by now, as the files were moved; the sweep removes it otherwise.
  internal::RemoveTree(database_->files().get(),
                       absl::StrCat(path_, "/", StagingOf(version.attempt)))
      .IgnoreError();
  RequestSweep();
}

absl::StatusOr<SaveResult> Store::Impl::Save(const SaveSpec& spec,
                                             const RankState& state,
                                             const PublishSpec& publish,
                                             const StageOptions& stage) {
  if (spec.world_size != 1) {
    return Bad(absl::StrCat("Save is of one rank, not of ", spec.world_size));
  }
  const int64_t started = environment_->NowMicros();
  // Nobody else stages for this attempt, so its record need not be durable
  // before files are ingested: a small save is one write.
  CKPTDB_ASSIGN_OR_RETURN(const SaveHandle handle, Begin(spec, /*sync=*/false));
  StageOptions options = stage;
  options.environment = environment_;
  options.directory_mode = options_.directory_mode;
  options.file_mode = options_.file_mode;
  options.reserve_bytes = options_.reserve_bytes;
  if (!options.on_point) options.on_point = options_.on_point;
  absl::StatusOr<StagedRank> staged =
      Stage(path_, handle.tickets[0], state, options);
  const int64_t stage_micros = environment_->NowMicros() - started;
  absl::StatusOr<SaveResult> result =
      staged.ok() ? Publish(handle.version, {&*staged, 1}, publish)
                  : staged.status();
  if (result.ok()) {
    result->stage_micros = stage_micros;
    return result;
  }
  // NotFound would say that there is nothing to abandon, which is as well.
  Abandon(handle.version).IgnoreError();
  return result;
}

}  // namespace ckptdb
