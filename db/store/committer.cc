// SPDX-License-Identifier: Apache-2.0
// Commits saves and folds, and changes single records: docs/design.md, "Save".
#include "db/store/committer.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "db/base/call_guard.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/options.h"
#include "schema/bytes/keys.h"
#include "schema/records/records.h"
#include "schema/records/staged.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {

absl::Status Committer::WriteAttempt(const BegunAttempt& begun, bool sync) {
  // The attempt and the attempt counter are in one batch: a crash leaves both
  // or neither, so no number is used twice.
  CKPTDB_ASSIGN_OR_RETURN(const std::string root, EncodeRootRecord(begun.root));
  CKPTDB_ASSIGN_OR_RETURN(const std::string attempt,
                          EncodeAttemptRecord(begun.attempt));
  rocksdb::ColumnFamilyHandle* const meta =
      folder_->database().family(Family::kMeta);
  ChangeBatch batch;
  rocksdb::Status put = batch.Put(meta, RootKey(), root);
  if (put.ok()) {
    put = batch.Put(meta, AttemptKey(begun.attempt.version.attempt), attempt);
  }
  CKPTDB_RETURN_IF_ERROR(FromRocks(put, "attempt record"));
  return folder_->database().Write(&batch, sync);
}

absl::Status Committer::CheckDiskSpace(const Commit& commit) const {
  // Each entry is written to the log, to the memtable's file and by a
  // compaction.
  constexpr uint64_t kCopies = 3;
  return folder_->CheckSaveSpace(BatchBytes(commit) * kCopies + kBatchOverhead);
}

// An exception after the commit point would leave the step on disk but not in
// memory, so it makes the database unusable.
absl::Status Committer::CommitStep(Commit commit) {
  CKPTDB_RETURN_IF_ERROR(WriteOut(commit));
  return folder_->database().FailOn(CallGuarded(
      "acknowledging a step", [&] { Acknowledge(std::move(commit)); }));
}

absl::Status Committer::WriteOut(const Commit& commit) {
  Database& database = folder_->database();
  // 3b. Ingest: the files of all ranks move into the database and are durable.
  if (!commit.files.empty()) {
    // The attempt record may be in the log without a sync (Saves::Save). It
    // must be durable before the files are, because data without an attempt
    // record is never swept.
    CKPTDB_RETURN_IF_ERROR(database.SyncLog());
    CKPTDB_RETURN_IF_ERROR(
        database.PrepareIngest(VersionPrefix(commit.step.version)));
    CKPTDB_RETURN_IF_ERROR(database.Ingest(commit.files));
  }
  CKPTDB_RETURN_IF_ERROR(folder_->HitCrashPoint(point::kIngested));
  // 3c. The commit point: before it no part of the step is visible, after it
  // all of it is.
  CKPTDB_RETURN_IF_ERROR(WriteCommit(commit));
  // From here until Acknowledge, memory and disk differ.
  CKPTDB_RETURN_IF_ERROR(
      database.FailOn(folder_->HitCrashPoint(point::kCommitted)));
  // 3d. Flush: a flipped byte in the log must not undo the commit.
  std::vector<Family> families = {Family::kMeta};
  if (commit.inline_bytes > 0) families.push_back(Family::kInline);
  CKPTDB_RETURN_IF_ERROR(database.Flush(families));
  CKPTDB_RETURN_IF_ERROR(
      database.FailOn(folder_->HitCrashPoint(point::kFlushed)));
  // Everything is durable only if the files at the store's path are those that
  // were written.
  CKPTDB_RETURN_IF_ERROR(database.FailOn(database.CheckOwner()));
  // The note follows the flush because it names the MANIFEST that the flush has
  // extended.
  database.NoteWatermark();
  return absl::OkStatus();
}

// Builds the commit's one batch and writes it with a sync. RocksDB applies a
// batch atomically, so a crash leaves all of it or none.
absl::Status Committer::WriteCommit(const Commit& commit) {
  constexpr uint64_t kRecordBytes = uint64_t{16} << 10;
  Database& database = folder_->database();
  ChangeBatch batch(commit.inline_bytes + kRecordBytes);
  rocksdb::ColumnFamilyHandle* const meta = database.family(Family::kMeta);
  const Version& version = commit.step.version;
  rocksdb::Status status;
  const auto put = [&](rocksdb::ColumnFamilyHandle* family,
                       absl::string_view key, absl::string_view value) {
    if (status.ok()) status = batch.Put(family, ToSlice(key), ToSlice(value));
  };
  for (const internal::StagedRecord* staged : commit.staged) {
    for (const auto& [key, value] : staged->inline_entries) {
      put(database.family(Family::kInline), key, value);
    }
  }
  for (const auto& [key, value] : commit.blob_entries) {
    put(database.family(Family::kInline), key, value);
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
  return database.Write(&batch, /*sync=*/true);
}

void Committer::Acknowledge(Commit commit) {
  const Version version = commit.step.version;
  // Spares the next save on top of this one from loading all ranks' records
  // again.
  summaries_->Add(version, commit.ranks);
  catalog_->ApplyCommit(std::move(commit));
  // The folder is empty because its files were moved; if this fails, the sweep
  // removes it.
  RemoveTree(folder_->files(), folder_->StagingFolder(version.attempt))
      .IgnoreError();
  folder_->SetSpareAside();
  requests_->Request();
}

// One batch holds the three changes: the version is no longer a step, is
// retired, and has its record under the other key. It is synced but not
// flushed: the data still exists, so a log that loses the batch only restores
// the step. The sweep flushes before it removes data.
absl::Status Committer::Delete(const StepRecord& record) {
  AttemptRecord attempt;
  attempt.version = record.version;
  attempt.state = AttemptState::kRetired;
  CKPTDB_ASSIGN_OR_RETURN(const std::string attempt_bytes,
                          EncodeAttemptRecord(attempt));
  CKPTDB_ASSIGN_OR_RETURN(const std::string step_bytes,
                          EncodeStepRecord(record));
  rocksdb::ColumnFamilyHandle* const meta =
      folder_->database().family(Family::kMeta);
  ChangeBatch batch;
  rocksdb::Status status =
      batch.Put(meta, AttemptKey(attempt.version.attempt), attempt_bytes);
  if (status.ok()) {
    status = batch.Put(meta, RetiredKey(record.version), step_bytes);
  }
  if (status.ok()) status = batch.Delete(meta, StepKey(record.version.step));
  CKPTDB_RETURN_IF_ERROR(FromRocks(status, "retiring a step"));
  // Deleting must work on a full disk, so it may use the spare space.
  CKPTDB_RETURN_IF_ERROR(folder_->CheckDiskSpaceFor(batch, Spare::kUse));
  CKPTDB_RETURN_IF_ERROR(folder_->database().Write(&batch, /*sync=*/true));
  catalog_->ApplyDeletion(record);
  requests_->Request();
  return absl::OkStatus();
}

// Unlike a deletion this is flushed before it is acknowledged: if the log lost
// the flags and metrics, no other copy would exist.
absl::Status Committer::Replace(std::vector<StepRecord> records, Spare spare) {
  rocksdb::ColumnFamilyHandle* const meta =
      folder_->database().family(Family::kMeta);
  ChangeBatch batch;
  for (const StepRecord& record : records) {
    CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, EncodeStepRecord(record));
    CKPTDB_RETURN_IF_ERROR(FromRocks(
        batch.Put(meta, StepKey(record.version.step), bytes), "step record"));
  }
  CKPTDB_RETURN_IF_ERROR(folder_->CheckDiskSpaceFor(batch, spare));
  CKPTDB_RETURN_IF_ERROR(folder_->WriteDurably(&batch));
  for (StepRecord& record : records) catalog_->ApplyRecord(std::move(record));
  return absl::OkStatus();
}

absl::Status Committer::SetUserMetadata(const UserMetadata& metadata) {
  // The catalog's root has the newest attempt counter. The caller holds
  // changes(), so no attempt begins between this read and the write.
  RootRecord root =
      catalog_->Read([](const Catalog& records) { return records.root; });
  root.user_metadata = metadata;
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, EncodeRootRecord(root));
  ChangeBatch batch;
  CKPTDB_RETURN_IF_ERROR(FromRocks(
      batch.Put(folder_->database().family(Family::kMeta), RootKey(), bytes),
      "root record"));
  CKPTDB_RETURN_IF_ERROR(folder_->CheckDiskSpaceFor(batch));
  CKPTDB_RETURN_IF_ERROR(folder_->WriteDurably(&batch));
  catalog_->ApplyUserMetadata(metadata);
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
