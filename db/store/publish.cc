// Saves, from Begin to the commit: docs/design.md, "Save".
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/base/call_guard.h"
#include "ckptdb/db/base/paths.h"
#include "ckptdb/db/crash_points.h"
#include "ckptdb/db/disk/files.h"
#include "ckptdb/db/disk/rocks_status.h"
#include "ckptdb/db/meta/lineage.h"
#include "ckptdb/db/stager.h"
#include "ckptdb/db/store/store_impl.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {
namespace {

using internal::Family;
using internal::FromRocks;
using internal::ToSlice;

// The tables that a save may add delta runs to.
absl::StatusOr<std::string> ParentTables(const internal::Database& database,
                                         const StepRecord& parent) {
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<RankRecord> ranks,
                          internal::LoadRanks(database, parent));
  std::map<std::string, Item> tables;
  for (const RankRecord& rank : ranks) {
    for (const Item& item : rank.items) {
      if (item.kind != ItemKind::kRows) continue;
      Item table;
      table.kind = item.kind;
      table.name = item.name;
      table.data = item.data;
      table.slots = item.slots;
      table.slice_hash = item.slice_hash;
      table.rows_per_page = item.rows_per_page;
      tables.emplace(item.name, std::move(table));
    }
  }
  RankRecord all;
  all.version = parent.version;
  for (auto& [name, item] : tables) all.items.push_back(std::move(item));
  return EncodeRankRecord(all);
}

}  // namespace

std::string Store::Impl::BaseDue(const StepRecord& step,
                                 const ChainBounds& bounds) {
  const uint64_t deltas = step.chain.size() - 1;
  if (deltas >= bounds.max_deltas) {
    return absl::StrCat(deltas, " deltas over the base; the bound is ",
                        bounds.max_deltas);
  }
  const double bound =
      bounds.max_delta_ratio * static_cast<double>(step.base_bytes);
  if (deltas == 0 || static_cast<double>(step.delta_bytes) <= bound) return "";
  return absl::StrCat("deltas of ", step.delta_bytes, " bytes over a base of ",
                      step.base_bytes, "; the bound is ",
                      bounds.max_delta_ratio, " of it");
}

absl::StatusOr<SaveHandle> Store::Impl::Begin(const SaveSpec& spec, bool sync) {
  const std::lock_guard<std::mutex> change(change_mutex_);
  CKPTDB_RETURN_IF_ERROR(database_->status());
  CKPTDB_RETURN_IF_ERROR(CheckSpec(spec));
  CKPTDB_RETURN_IF_ERROR(internal::CheckFreeBytes(
      database_->files().get(), path_, internal::kBatchOverhead,
      options_.reserve_bytes));
  CKPTDB_ASSIGN_OR_RETURN(const AttemptRecord attempt, StartProgress(spec));
  absl::StatusOr<SaveHandle> handle = RecordAttempt(attempt, spec, sync);
  absl::Status status = handle.status();
  if (status.ok()) status = Pass(point::kBegun);
  if (status.ok()) return handle;
  DropProgress(attempt.version);
  return status;
}

absl::StatusOr<AttemptRecord> Store::Impl::StartProgress(const SaveSpec& spec) {
  AttemptRecord attempt;
  attempt.begun_at_micros =
      spec.begun_at_micros.value_or(environment_->NowMicros());
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  absl::StatusOr<StepRecord> parent = internal::FindParent(catalog_, spec);
  CKPTDB_RETURN_IF_ERROR(internal::Annotate(parent.status(), path_));
  // In memory first: a number that may be in the log is never used again.
  attempt.version = {spec.step, catalog_.root.next_attempt++};
  catalog_.attempts[attempt.version.attempt] = attempt;
  Progress& progress = progress_[attempt.version.attempt];
  progress.spec = spec;
  progress.begun_at_micros = attempt.begun_at_micros;
  if (parent->version.attempt != 0) {
    progress.parent_hold = Hold(internal::VersionsOf(*parent));
    progress.parent = *std::move(parent);
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

absl::Status Store::Impl::WriteAttempt(const AttemptRecord& attempt,
                                       bool sync) {
  RootRecord root;
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    root = catalog_.root;
  }
  CKPTDB_ASSIGN_OR_RETURN(const std::string root_bytes, EncodeRootRecord(root));
  CKPTDB_ASSIGN_OR_RETURN(const std::string attempt_bytes,
                          EncodeAttemptRecord(attempt));
  rocksdb::ColumnFamilyHandle* const meta = database_->family(Family::kMeta);
  rocksdb::WriteBatch batch;
  rocksdb::Status put = batch.Put(meta, RootKey(), root_bytes);
  if (put.ok()) {
    put = batch.Put(meta, AttemptKey(attempt.version.attempt), attempt_bytes);
  }
  CKPTDB_RETURN_IF_ERROR(FromRocks(put, "attempt record"));
  return database_->Write(&batch, sync);
}

absl::StatusOr<SaveHandle> Store::Impl::RecordAttempt(
    const AttemptRecord& attempt, const SaveSpec& spec, bool sync) {
  StepRecord parent;
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    parent = progress_[attempt.version.attempt].parent;
  }
  CKPTDB_RETURN_IF_ERROR(WriteAttempt(attempt, sync));
  CKPTDB_RETURN_IF_ERROR(internal::MakeFolders(
      database_->files().get(),
      absl::StrCat(path_, "/", internal::StagingOf(attempt.version.attempt))));
  SaveHandle handle;
  handle.version = attempt.version;
  CKPTDB_ASSIGN_OR_RETURN(handle.tickets,
                          MakeTickets(attempt.version, spec, parent));
  return handle;
}

absl::StatusOr<std::vector<Ticket>> Store::Impl::MakeTickets(
    const Version& version, const SaveSpec& spec,
    const StepRecord& parent) const {
  std::string parent_tables;
  if (spec.parent.has_value()) {
    CKPTDB_ASSIGN_OR_RETURN(parent_tables, ParentTables(*database_, parent));
  }
  std::vector<Ticket> tickets(spec.world_size);
  for (uint32_t rank = 0; rank < spec.world_size; ++rank) {
    Ticket& ticket = tickets[rank];
    ticket.uuid = uuid_;
    ticket.version = version;
    ticket.world_size = spec.world_size;
    ticket.rank = rank;
    if (!spec.slice_bounds.empty()) {
      ticket.slices = {spec.slice_bounds[rank],
                       spec.slice_bounds[rank + size_t{1}]};
    }
    ticket.parent_tables = parent_tables;
    ticket.staging =
        absl::StrCat(internal::StagingOf(version.attempt), "/", rank);
    if (parent.version.attempt == 0 || rank >= parent.world_size) continue;
    // A parent that is damaged is no reason not to save: nothing is reused.
    absl::StatusOr<RankRecord> record =
        internal::LoadRank(*database_, parent, rank);
    if (!record.ok()) continue;
    CKPTDB_ASSIGN_OR_RETURN(ticket.parent, EncodeRankRecord(*record));
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

absl::StatusOr<SaveResult> Store::Impl::Publish(
    const Version& version, absl::Span<const StagedRank> ranks,
    const PublishSpec& spec) {
  // What goes wrong is told by posts_passed_over, and does not end a save.
  TakePosts().IgnoreError();
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
  CKPTDB_RETURN_IF_ERROR(Pass(point::kChecked));
  CKPTDB_RETURN_IF_ERROR(WriteOut(commit));
  SaveResult result;
  result.version = version;
  result.raw_bytes = commit.step.raw_bytes;
  result.stored_bytes = commit.step.stored_bytes;
  result.kind = commit.step.kind;
  result.deltas = commit.step.chain.size() - 1;
  result.base_due = BaseDue(commit.step, spec.bounds);
  for (const RankRecord& rank : commit.ranks) {
    for (const internal::BorrowedItem& item : internal::BorrowedItems(rank)) {
      result.reused_bytes += item.stored_bytes;
    }
  }
  CKPTDB_RETURN_IF_ERROR(database_->FailOn(internal::CallGuarded(
      "acknowledging a step", [&] { Acknowledge(std::move(commit)); })));
  result.commit_micros = environment_->NowMicros() - started;
  return result;
}

absl::Status Store::Impl::WriteOut(const Commit& commit) {
  // 3b. Ingest: the files of all ranks are in the database, and durable.
  if (!commit.files.empty()) {
    CKPTDB_RETURN_IF_ERROR(database_->SyncLog());
    CKPTDB_RETURN_IF_ERROR(database_->Ingest(commit.files));
  }
  CKPTDB_RETURN_IF_ERROR(Pass(point::kIngested));
  // 3c. The commit point: before it nothing of the step is visible, after it
  // all of it is.
  CKPTDB_RETURN_IF_ERROR(WriteCommit(commit));
  // From here on memory and disk differ until the end.
  CKPTDB_RETURN_IF_ERROR(database_->FailOn(Pass(point::kCommitted)));
  // 3d. Flush: a byte that flips in the log must not take it back.
  std::vector<Family> families = {Family::kMeta};
  if (commit.inline_bytes > 0) families.push_back(Family::kInline);
  CKPTDB_RETURN_IF_ERROR(database_->Flush(families));
  CKPTDB_RETURN_IF_ERROR(database_->FailOn(Pass(point::kFlushed)));
  database_->NoteWatermark();
  return absl::OkStatus();
}

// The step record, the states of all attempts concerned and the records that
// retired steps leave behind.
absl::Status Store::Impl::AddRecords(Commit* commit) {
  const auto add_attempt = [&](const Version& version,
                               AttemptState state) -> absl::Status {
    CKPTDB_ASSIGN_OR_RETURN(std::string bytes,
                            EncodeAttemptRecord({version, state, 0}));
    commit->records.emplace_back(AttemptKey(version.attempt), std::move(bytes));
    return absl::OkStatus();
  };
  const auto add_step = [&](std::string key,
                            const StepRecord& step) -> absl::Status {
    CKPTDB_ASSIGN_OR_RETURN(std::string bytes, EncodeStepRecord(step));
    commit->records.emplace_back(std::move(key), std::move(bytes));
    return absl::OkStatus();
  };
  for (const StepRecord& retired : commit->retired) {
    CKPTDB_RETURN_IF_ERROR(
        add_attempt(retired.version, AttemptState::kRetired));
    CKPTDB_RETURN_IF_ERROR(add_step(RetiredKey(retired.version), retired));
  }
  const Version& version = commit->step.version;
  CKPTDB_RETURN_IF_ERROR(add_attempt(version, AttemptState::kCommitted));
  return add_step(StepKey(version.step), commit->step);
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
  }
  for (size_t rank = 0; rank < commit.rank_bytes.size(); ++rank) {
    put(meta, RankKey(version, static_cast<uint32_t>(rank)),
        commit.rank_bytes[rank]);
  }
  for (const int64_t step : commit.removed_steps) {
    if (status.ok()) status = batch.Delete(meta, StepKey(step));
  }
  for (const auto& [key, bytes] : commit.records) put(meta, key, bytes);
  CKPTDB_RETURN_IF_ERROR(FromRocks(status, "commit batch"));
  return database_->Write(&batch, /*sync=*/true);
}

void Store::Impl::Acknowledge(Commit commit) {
  const Version version = commit.step.version;
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    for (const int64_t step : commit.removed_steps) catalog_.EraseStep(step);
    for (const StepRecord& retired : commit.retired) NoteRetired(retired);
    catalog_.attempts[version.attempt] = {version, AttemptState::kCommitted, 0};
    catalog_.PutStep(std::move(commit.step));
    runs_[version] = std::make_shared<const TableRuns>(RunsOf(commit.ranks));
  }
  DropProgress(version);
  // Empty by now, as the files were moved; the sweep removes it otherwise.
  internal::RemoveTree(
      database_->files().get(),
      absl::StrCat(path_, "/", internal::StagingOf(version.attempt)))
      .IgnoreError();
  SetSpareAside();
  RequestSweep();
}

absl::StatusOr<SaveResult> Store::Impl::Save(const SaveSpec& spec,
                                             const RankState& state,
                                             const PublishSpec& publish,
                                             const StageOptions& stage) {
  if (spec.world_size != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("Save is of one rank, not of ", spec.world_size));
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
