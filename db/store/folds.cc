// SPDX-License-Identifier: Apache-2.0
#include "db/store/folds.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/option_checks.h"
#include "db/disk/files.h"
#include "db/disk/open_files.h"
#include "db/options.h"
#include "db/store/commit.h"
#include "db/store/measure_usage.h"
#include "schema/records/records.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Turns the original step record into the folded one: the same step under
// `version`, with base runs for all its tables.
absl::Status FillFolded(const Version& version, Commit* commit) {
  StepRecord& step = commit->step;
  step.folded = true;
  step.folded_from = step.version;
  step.version = version;
  step.kind = StepRecord::Kind::kFull;
  step.chain = {version};
  step.rank_digests.clear();
  step.items = 0;
  step.rows = step.raw_bytes = step.exclusive_bytes = 0;
  step.base_bytes = step.delta_bytes = 0;
  for (const StepRecord::Rank& rank : commit->ranks) {
    CKPTDB_ASSIGN_OR_RETURN(commit->rank_bytes.emplace_back(),
                            EncodeRankRecord(rank));
    for (const Item& item : rank.items) {
      if (item.kind == Item::Kind::kRows) step.base_bytes += item.stored_bytes;
    }
  }
  SumRanks(commit);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Store::FoldResult> Folds::Fold(int64_t step,
                                              const ReadOptions& options) {
  CKPTDB_RETURN_IF_ERROR(CheckThreads("ReadOptions::threads", options.threads));
  // One fold at a time, because StepCatalog protects only one folding attempt
  // from the sweep.
  const MutexLock lock(&mutex_);
  CKPTDB_ASSIGN_OR_RETURN(HeldChain held,
                          catalog_->HoldChain(step, HeldBy::kCall));
  const StepReader::Impl* opened = nullptr;
  CKPTDB_ASSIGN_OR_RETURN(
      const auto reader,
      StepReader::Impl::Load(&folder_->database(), std::move(held.chain),
                             std::move(held.hold), &opened));
  // A full step has only base runs, so nothing remains to fold.
  if (opened->record().kind == StepRecord::Kind::kFull) {
    Store::FoldResult result;
    result.version = opened->record().version;
    return result;
  }
  absl::StatusOr<Store::FoldResult> result = FoldOpened(*opened, options);
  if (result.ok() || absl::IsCancelled(result.status())) return result;
  // The error may be due to the step's deletion or overwriting. The staged
  // files are then garbage, so a sweep is requested.
  const absl::Status still = CheckStillStep(opened->record().version);
  if (still.ok()) return result;
  requests_->Request();
  return still;
}

// Returns Aborted if the step no longer exists, which explains any other error.
absl::Status Folds::CheckStillStep(const Version& version) const {
  const bool still = catalog_->Read([&](const Catalog& records) {
    const auto now = records.steps.find(version.step);
    return now != records.steps.end() && now->second.version == version;
  });
  if (still) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat(folder_->path(), ": ", ToString(version),
                   " was deleted or overwritten while it was folded"));
}

absl::StatusOr<Store::FoldResult> Folds::FoldOpened(
    const StepReader::Impl& step, const ReadOptions& options) {
  // The files are not swept while the fold writes, even if the step is deleted.
  const std::shared_ptr<void> writing(nullptr,
                                      [this](void*) { catalog_->EndFold(); });
  CKPTDB_ASSIGN_OR_RETURN(const Version version, BeginFold(step.record()));
  CKPTDB_ASSIGN_OR_RETURN(const OpenFileShare files, OpenFileShare::Take());
  CKPTDB_ASSIGN_OR_RETURN(FoldTarget target, MakeTarget(version));
  target.most_files = files.files();
  CKPTDB_RETURN_IF_ERROR(folder_->HitCrashPoint(point::kStaging));
  FoldParts parts(step, std::move(target), options);
  CKPTDB_RETURN_IF_ERROR(parts.Run());
  CKPTDB_RETURN_IF_ERROR(folder_->HitCrashPoint(point::kStaged));
  return PublishFold(step.record().version, version, parts);
}

// Takes the attempt of an interrupted fold, or a new one, whose record is
// durable before its first file. The versions with ingested files are read
// before the catalog decides which attempt can be resumed.
absl::StatusOr<Version> Folds::BeginFold(const StepRecord& step) {
  const MutexLock turn(committer_->changes());
  CKPTDB_RETURN_IF_ERROR(folder_->database().status());
  // The result has at most as many rows as all runs of the chain.
  CKPTDB_RETURN_IF_ERROR(folder_->CheckSaveSpace(
      step.base_bytes + step.delta_bytes + kBatchOverhead));
  const std::map<Version, uint64_t> ingested = BulkBytes(folder_->database());
  const BegunAttempt begun =
      catalog_->BeginFold(step, folder_->NowMicros(), ingested);
  // The record is written even when resuming: the attempt was listed before its
  // record was written, and that write may have failed.
  CKPTDB_RETURN_IF_ERROR(committer_->WriteAttempt(begun, /*sync=*/true));
  CKPTDB_RETURN_IF_ERROR(folder_->HitCrashPoint(point::kBegun));
  return begun.attempt.version;
}

// Direct writes are tried in the staging folder, because only its file system
// knows whether it supports them.
absl::StatusOr<FoldTarget> Folds::MakeTarget(const Version& version) const {
  FoldTarget target;
  target.version = version;
  target.store = folder_->path();
  target.uuid = folder_->uuid();
  target.files = folder_->database().files();
  const std::string folder = folder_->StagingFolder(version.attempt);
  CKPTDB_RETURN_IF_ERROR(MakeFolders(target.files.get(), folder));
  if (folder_->environment()->on_disk()) {
    CKPTDB_ASSIGN_OR_RETURN(target.direct_writes,
                            SupportsDirectWrites(target.files.get(), folder));
  }
  return target;
}

absl::StatusOr<Store::FoldResult> Folds::PublishFold(const Version& from,
                                                     const Version& to,
                                                     const FoldParts& parts) {
  // The merge did not hold changes(), so that saves could proceed.
  const MutexLock turn(committer_->changes());
  CKPTDB_RETURN_IF_ERROR(folder_->database().status());
  // The step may have been deleted or overwritten since the merge began. From
  // here on changes() keeps it as it is.
  CKPTDB_RETURN_IF_ERROR(CheckStillStep(from));
  Commit commit;
  // The record is read again, because flags and metrics may have changed during
  // the merge.
  CKPTDB_ASSIGN_OR_RETURN(commit.step, catalog_->FindStep(from.step));
  commit.retired.push_back(commit.step);
  commit.ranks = parts.Ranks();
  commit.files = parts.Files();
  CKPTDB_RETURN_IF_ERROR(FillFolded(to, &commit));
  CKPTDB_RETURN_IF_ERROR(EncodeRecords(&commit));
  CKPTDB_RETURN_IF_ERROR(committer_->CheckDiskSpace(commit));
  CKPTDB_RETURN_IF_ERROR(folder_->HitCrashPoint(point::kChecked));
  Store::FoldResult result;
  result.version = to;
  result.folded = true;
  result.written_rows = commit.step.rows;
  result.written_bytes = commit.step.exclusive_bytes;
  result.parts = parts.count();
  result.resumed_parts = parts.resumed();
  CKPTDB_RETURN_IF_ERROR(committer_->CommitStep(std::move(commit)));
  return result;
}

absl::Status Folds::FoldNewest(const std::function<bool()>& cancelled) {
  // Only the newest step is folded, because each later save extends its chain.
  const StoreOptions::ChainBounds& bounds = folder_->options().fold_bounds;
  const std::optional<int64_t> due =
      catalog_->Read([&](const Catalog& records) -> std::optional<int64_t> {
        const StepRecord* const newest = records.Newest();
        if (newest == nullptr || BaseDue(*newest, bounds).empty()) return {};
        return newest->version.step;
      });
  if (!due.has_value()) return absl::OkStatus();
  ReadOptions options;
  options.threads = 4;  // as Store::Fold
  options.cancelled = cancelled;
  absl::Status status = Fold(*due, options).status();
  // The step was deleted, or the store is closing; the next fold resumes.
  if (absl::IsAborted(status) || absl::IsCancelled(status) ||
      absl::IsNotFound(status)) {
    return absl::OkStatus();
  }
  return status;
}

}  // namespace ckptdb::internal
