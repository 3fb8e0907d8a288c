// Folding: the chain of a step becomes base runs of the same step, under an
// attempt of its own. docs/design.md, "Fold".
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/base/call_guard.h"
#include "ckptdb/db/base/paths.h"
#include "ckptdb/db/crash_points.h"
#include "ckptdb/db/disk/files.h"
#include "ckptdb/db/fold/fold_parts.h"
#include "ckptdb/db/read/step_reader_impl.h"
#include "ckptdb/db/store/measure_usage.h"
#include "ckptdb/db/store/store_impl.h"
#include "ckptdb/schema/page.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {

// The attempt of a fold that was cut short, or a new one. Not one whose files
// are in the database already: those in staging are the same ones, and writing
// a part again would write over them.
absl::StatusOr<Version> Store::Impl::BeginFold(const StepRecord& step) {
  const std::lock_guard<std::mutex> change(change_mutex_);
  CKPTDB_RETURN_IF_ERROR(database_->status());
  CKPTDB_RETURN_IF_ERROR(internal::CheckFreeBytes(
      database_->files().get(), path_,
      step.base_bytes + step.delta_bytes + internal::kBatchOverhead,
      options_.reserve_bytes));
  const std::map<Version, uint64_t> bulk = internal::BulkBytes(*database_);
  AttemptRecord attempt;
  attempt.begun_at_micros = environment_->NowMicros();
  attempt.folds = step.version.attempt;
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    for (const auto& [number, record] : catalog_.attempts) {
      if (IsFoldOf(record, step) && !bulk.contains(record.version)) {
        folding_ = record.version;
        return record.version;
      }
    }
    attempt.version = {step.version.step, catalog_.root.next_attempt++};
    catalog_.attempts[attempt.version.attempt] = attempt;
    folding_ = attempt.version;
  }
  CKPTDB_RETURN_IF_ERROR(WriteAttempt(attempt, /*sync=*/true));
  CKPTDB_RETURN_IF_ERROR(Pass(point::kBegun));
  return attempt.version;
}

bool Store::Impl::IsFoldOf(const AttemptRecord& attempt,
                           const StepRecord& step) {
  return attempt.state == AttemptState::kBegun &&
         attempt.version.step == step.version.step &&
         attempt.folds == step.version.attempt;
}

absl::StatusOr<FoldResult> Store::Impl::Fold(int64_t step,
                                             const FoldOptions& options) {
  const std::lock_guard<std::mutex> fold(fold_mutex_);
  const StepReader::Impl* impl = nullptr;
  CKPTDB_ASSIGN_OR_RETURN(const auto reader, OpenStep(step, &impl));
  if (impl->record().kind == StepKind::kFull) {
    FoldResult result;
    result.version = impl->record().version;
    return result;
  }
  // What it writes is not swept before it has stopped writing, also when its
  // step is deleted meanwhile.
  std::shared_ptr<void> writing(nullptr, [this](void*) {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    folding_.reset();
  });
  absl::StatusOr<FoldResult> result = FoldOpened(*impl, options);
  writing.reset();
  if (result.ok() || absl::IsCancelled(result.status())) return result;
  const absl::Status still = CheckStillStep(impl->record().version);
  if (still.ok()) return result;
  RequestSweep();
  return still;
}

absl::Status Store::Impl::CheckStillStep(const Version& version) const {
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  const auto now = catalog_.steps.find(version.step);
  if (now != catalog_.steps.end() && now->second.version == version) {
    return absl::OkStatus();
  }
  return absl::AbortedError(
      absl::StrCat(path_, ": ", ToString(version),
                   " was deleted or overwritten while it was folded"));
}

absl::StatusOr<FoldResult> Store::Impl::FoldOpened(const StepReader::Impl& step,
                                                   const FoldOptions& options) {
  FoldResult result;
  internal::FoldTarget target;
  CKPTDB_ASSIGN_OR_RETURN(target.version, BeginFold(step.record()));
  target.store = path_;
  target.uuid = uuid_;
  target.files = database_->files();
  const std::string folder =
      absl::StrCat(path_, "/", internal::StagingOf(target.version.attempt));
  CKPTDB_RETURN_IF_ERROR(internal::MakeFolders(target.files.get(), folder));
  if (environment_->on_disk()) {
    CKPTDB_ASSIGN_OR_RETURN(
        target.direct_writes,
        internal::TakesDirectWrites(target.files.get(), folder));
  }
  CKPTDB_RETURN_IF_ERROR(Pass(point::kStaging));
  internal::FoldParts parts(step, target, options);
  CKPTDB_RETURN_IF_ERROR(parts.Run());
  CKPTDB_RETURN_IF_ERROR(Pass(point::kStaged));
  result.folded = true;
  result.parts = parts.count();
  result.parts_resumed = parts.resumed();
  return PublishFold(step.record().version, target.version, parts, result);
}

absl::StatusOr<FoldResult> Store::Impl::PublishFold(
    const Version& from, const Version& to, const internal::FoldParts& parts,
    FoldResult result) {
  const std::lock_guard<std::mutex> change(change_mutex_);
  CKPTDB_RETURN_IF_ERROR(database_->status());
  CKPTDB_RETURN_IF_ERROR(CheckStillStep(from));
  Commit commit;
  CKPTDB_ASSIGN_OR_RETURN(commit.step, FindStep(from.step));
  commit.retired.push_back(commit.step);
  commit.ranks = parts.Ranks();
  commit.files = parts.Files();
  CKPTDB_RETURN_IF_ERROR(FillFolded(to, &commit));
  CKPTDB_RETURN_IF_ERROR(AddRecords(&commit));
  CKPTDB_RETURN_IF_ERROR(internal::CheckFreeBytes(
      database_->files().get(), path_,
      BatchBytes(commit) * internal::kBatchCopies + internal::kBatchOverhead,
      options_.reserve_bytes));
  CKPTDB_RETURN_IF_ERROR(Pass(point::kChecked));
  result.version = to;
  result.rows = commit.step.rows;
  result.stored_bytes = commit.step.stored_bytes;
  CKPTDB_RETURN_IF_ERROR(WriteOut(commit));
  CKPTDB_RETURN_IF_ERROR(database_->FailOn(internal::CallGuarded(
      "acknowledging a fold", [&] { Acknowledge(std::move(commit)); })));
  return result;
}

// The same step with base runs for all its tables.
absl::Status Store::Impl::FillFolded(const Version& version, Commit* commit) {
  StepRecord& step = commit->step;
  step.has_increment = true;
  step.increment = step.version;
  step.version = version;
  step.kind = StepKind::kFull;
  step.chain = {version};
  step.rank_digests.clear();
  step.items = 0;
  step.rows = step.raw_bytes = step.stored_bytes = 0;
  step.base_bytes = step.delta_bytes = 0;
  std::set<Version> references;
  for (const RankRecord& rank : commit->ranks) {
    CKPTDB_ASSIGN_OR_RETURN(commit->rank_bytes.emplace_back(),
                            EncodeRankRecord(rank));
    step.rank_digests.push_back(HashBytes(commit->rank_bytes.back()));
    for (const Item& item : rank.items) {
      ++step.items;
      step.rows += item.rows;
      step.raw_bytes += item.raw_bytes;
      if (item.kind == ItemKind::kRows) step.base_bytes += item.stored_bytes;
      if (item.data == version) step.stored_bytes += item.stored_bytes;
      if (item.data != version) references.insert(item.data);
    }
  }
  step.references.assign(references.begin(), references.end());
  return absl::OkStatus();
}

// Of the sweeper: the newest step, when its chain has grown too long.
absl::Status Store::Impl::FoldNewest() {
  StepRecord newest;
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    const StepRecord* const found = catalog_.Newest();
    if (found == nullptr) return absl::OkStatus();
    newest = *found;
  }
  if (BaseDue(newest, options_.fold_bounds).empty()) return absl::OkStatus();
  FoldOptions options;
  options.cancelled = [this] {
    const std::lock_guard<std::mutex> lock(sweeper_mutex_);
    return stop_;
  };
  absl::Status status = Fold(newest.version.step, options).status();
  // Deleted meanwhile, or the store is closing: the next one goes on.
  if (absl::IsAborted(status) || absl::IsCancelled(status) ||
      absl::IsNotFound(status)) {
    return absl::OkStatus();
  }
  return status;
}

}  // namespace ckptdb
