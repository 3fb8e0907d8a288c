// SPDX-License-Identifier: Apache-2.0
#include "db/store/sweeper.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "db/disk/rocks_status.h"
#include "db/meta/posts.h"
#include "db/options.h"
#include "db/store/measure_usage.h"
#include "db/store/sweep_folder.h"
#include "schema/bytes/keys.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

KeyRanges RangesOf(const std::vector<Version>& versions) {
  KeyRanges ranges;
  for (const Version& version : versions) {
    ranges.emplace_back(VersionPrefix(version), VersionEnd(version));
  }
  return ranges;
}

// Adds the removal of all records and inline entries of a version. The attempt
// record is removed last: after a crash before that, the next sweep repeats
// everything.
rocksdb::Status RemoveRecords(const Database& database, const Version& version,
                              ChangeBatch* batch) {
  rocksdb::ColumnFamilyHandle* const meta = database.family(Family::kMeta);
  rocksdb::Status status =
      batch->DeleteRange(database.family(Family::kInline),
                         VersionPrefix(version), VersionEnd(version));
  const std::string ranks = RankKeyPrefix(version);
  if (status.ok()) status = batch->DeleteRange(meta, ranks, PrefixEnd(ranks));
  const std::string evaluations = EvaluationKeyPrefix(version);
  if (status.ok()) {
    status = batch->DeleteRange(meta, evaluations, PrefixEnd(evaluations));
  }
  if (status.ok()) status = batch->Delete(meta, RetiredKey(version));
  if (status.ok()) status = batch->Delete(meta, AttemptKey(version.attempt));
  return status;
}

}  // namespace

absl::StatusOr<Store::SweepResult> Sweeper::Sweep(Depth depth) {
  // One sweep at a time, without Committer::changes(), so that saves and
  // deletions proceed.
  const MutexLock sweep(&sweep_mutex_);
  Database& database = folder_->database();
  CKPTDB_RETURN_IF_ERROR(database.status());
  CKPTDB_ASSIGN_OR_RETURN(Garbage garbage, marker_.Mark());
  CKPTDB_RETURN_IF_ERROR(folder_->HitCrashPoint(point::kSweepMarked));
  const std::map<Version, uint64_t> before = BulkBytes(database);
  Store::SweepResult result;
  CKPTDB_RETURN_IF_ERROR(Remove(depth, &garbage, &result));
  // Reserves again the spare space that a deletion or this sweep used, if it
  // fits now.
  folder_->SetSpareAside();
  CKPTDB_RETURN_IF_ERROR(database.ResumeCompactions());
  CKPTDB_RETURN_IF_ERROR(folder_->HitCrashPoint(point::kSweepDone));
  requests_->SetLeasedGarbage(garbage.leased);
  {
    const MutexLock lock(&outcome_mutex_);
    unswept_ = garbage.unswept;
  }
  result.swept_versions = std::move(garbage.versions);
  result.quarantined_versions = std::move(garbage.quarantined);
  result.unswept = std::move(garbage.unswept);
  std::map<Version, uint64_t> after = BulkBytes(database);
  for (const auto& [version, bytes] : before) {
    result.freed_bytes += bytes - std::min(bytes, after[version]);
  }
  return result;
}

// Steps 2 and 3: files first, then the records.
absl::Status Sweeper::Remove(Depth depth, Garbage* garbage,
                             Store::SweepResult* result) {
  // A crash in between leaves the attempt records, and the next sweep repeats
  // everything.
  CKPTDB_RETURN_IF_ERROR(Free(*garbage));
  CleanFolders(&garbage->unswept);
  CKPTDB_RETURN_IF_ERROR(folder_->HitCrashPoint(point::kSweepFreed));
  if (garbage->versions.empty()) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(Forget(garbage->versions));
  if (depth == Depth::kQuick) return absl::OkStatus();
  return CompactAway(garbage->versions, result);
}

absl::Status Sweeper::Free(const Garbage& garbage) {
  Database& database = folder_->database();
  KeyRanges ranges = RangesOf(garbage.versions);
  const std::map<Version, uint64_t> bulk = BulkBytes(database);
  // Small saves have no files in bulk. A range for each of them would make
  // RocksDB search all files in vain.
  std::erase_if(ranges, [&](const auto& range) {
    const absl::StatusOr<Version> version = ParseVersionPrefix(range.first);
    return version.ok() && !bulk.contains(*version);
  });
  KeyRanges all = ranges;
  all.insert(all.end(), garbage.gaps.begin(), garbage.gaps.end());
  // Deleting files makes the MANIFEST grow first.
  if (!all.empty()) {
    CKPTDB_RETURN_IF_ERROR(
        folder_->CheckDiskSpace(kRecordOverhead, Spare::kUse));
  }
  // The second call excludes gaps: a file that reaches from a gap into needed
  // data stays, with its entries in the gap.
  CKPTDB_RETURN_IF_ERROR(database.DeleteFiles(all));
  return database.DeleteLeftovers(ranges);
}

void Sweeper::CleanFolders(std::vector<Usage::SkippedEntry>* unswept) {
  rocksdb::FileSystem* const files = folder_->files();
  const std::string& store = folder_->path();
  CleanStaging(
      files, store,
      [&](uint32_t attempt) { return catalog_->MayStage(attempt); }, unswept);
  const int64_t now_micros = folder_->NowMicros();
  CleanPosts(files, store, now_micros, unswept);
  CleanTemporaries(files, store, now_micros, unswept);
}

absl::Status Sweeper::Forget(const std::vector<Version>& versions) {
  ChangeBatch batch;
  for (const Version& version : versions) {
    CKPTDB_RETURN_IF_ERROR(FromRocks(
        RemoveRecords(folder_->database(), version, &batch), "sweep batch"));
  }
  CKPTDB_RETURN_IF_ERROR(folder_->CheckDiskSpaceFor(batch, Spare::kUse));
  // No sync: if a crash loses the batch, the next sweep writes it again.
  CKPTDB_RETURN_IF_ERROR(folder_->database().Write(&batch, /*sync=*/false));
  // Memory follows the disk. A forgotten version is in no chain, so no call
  // looks for it.
  catalog_->Forget(versions);
  summaries_->Remove(versions);
  return absl::OkStatus();
}

// The result reports damage, and a disk that is too full to rewrite the rest.
absl::Status Sweeper::CompactAway(const std::vector<Version>& versions,
                                  Store::SweepResult* result) {
  Database& database = folder_->database();
  // Forget's batch has removed entries of both families.
  CKPTDB_RETURN_IF_ERROR(database.Flush({Family::kMeta, Family::kInline}));
  // One range from the first to the last version: files of small saves hold
  // many versions, so a range per version would rewrite the same files
  // repeatedly.
  const auto [first, last] =
      std::minmax_element(versions.begin(), versions.end());
  absl::Status compacted = folder_->CheckDiskSpace(
      kRecordOverhead + database.TableBytes(Family::kInline));
  if (compacted.ok()) {
    compacted = database.Compact(Family::kInline, VersionPrefix(*first),
                                 VersionEnd(*last));
  }
  if (absl::IsDataLoss(compacted)) {
    result->inline_retained_reason = std::string(compacted.message());
  } else if (absl::IsResourceExhausted(compacted)) {
    result->inline_postponed_reason = std::string(compacted.message());
  } else {
    return compacted;
  }
  return absl::OkStatus();
}

std::vector<Usage::SkippedEntry> Sweeper::unswept() const {
  const MutexLock lock(&outcome_mutex_);
  return unswept_;
}

absl::Status Sweeper::status() const {
  const MutexLock lock(&outcome_mutex_);
  return status_;
}

void Sweeper::SetStatus(const absl::Status& status) {
  const MutexLock lock(&outcome_mutex_);
  status_ = status;
}

}  // namespace ckptdb::internal
