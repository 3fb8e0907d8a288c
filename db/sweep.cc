// Mark and sweep over versions: what no step, reader, lease or save in
// progress needs goes, whatever left it there. docs/design.md, "Sweep".
#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ckptdb/db/crash_points.h"
#include "ckptdb/db/files.h"
#include "ckptdb/db/lease.h"
#include "ckptdb/db/measure_usage.h"
#include "ckptdb/db/rocks_status.h"
#include "ckptdb/db/store_impl.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {
namespace {

using internal::BorrowedItem;
using internal::Family;
using internal::KeyRanges;

// How long garbage that a reader leases waits for another look.
constexpr std::chrono::seconds kLeasePause(5);

KeyRanges RangesOf(const std::vector<Version>& versions) {
  KeyRanges ranges;
  for (const Version& version : versions) {
    ranges.emplace_back(VersionPrefix(version), VersionEnd(version));
  }
  return ranges;
}

// The parts of a version between the items that must stay.
void AppendGaps(const Version& version,
                const std::map<std::string, Placement>& kept, KeyRanges* gaps) {
  std::string begin = VersionPrefix(version);
  for (const auto& [prefix, placement] : kept) {
    if (begin < prefix) gaps->emplace_back(begin, prefix);
    begin = PrefixEnd(prefix);
  }
  gaps->emplace_back(begin, VersionEnd(version));
}

}  // namespace

void Store::Impl::RequestSweep() {
  {
    const std::lock_guard<std::mutex> lock(sweeper_mutex_);
    sweep_requested_ = true;
  }
  sweeper_wakes_.notify_all();
}

void Store::Impl::SweepInBackground() {
  std::unique_lock<std::mutex> lock(sweeper_mutex_);
  while (true) {
    const auto wanted = [&] { return sweep_requested_ || stop_; };
    if (leased_garbage_) {
      sweeper_wakes_.wait_for(lock, kLeasePause, wanted);
    } else {
      sweeper_wakes_.wait(lock, wanted);
    }
    if (stop_) return;
    sweep_requested_ = false;
    lock.unlock();
    const absl::Status status = SweepOnce(/*thorough=*/false).status();
    lock.lock();
    sweep_status_ = status;
  }
}

absl::Status Store::Impl::sweep_status() const {
  const std::lock_guard<std::mutex> lock(sweeper_mutex_);
  return sweep_status_;
}

absl::StatusOr<SweepResult> Store::Impl::Sweep() {
  absl::StatusOr<SweepResult> result = SweepOnce(/*thorough=*/true);
  const std::lock_guard<std::mutex> lock(sweeper_mutex_);
  sweep_status_ = result.status();
  return result;
}

absl::StatusOr<SweepResult> Store::Impl::SweepOnce(bool thorough) {
  const std::lock_guard<std::mutex> sweep(sweep_mutex_);
  CKPTDB_RETURN_IF_ERROR(database_->status());
  CKPTDB_ASSIGN_OR_RETURN(const Garbage garbage, Mark());
  Pass(point::kSweepMarked);
  std::map<Version, uint64_t> before = internal::BulkBytes(*database_);
  CKPTDB_RETURN_IF_ERROR(Free(garbage));
  Pass(point::kSweepFreed);
  CKPTDB_RETURN_IF_ERROR(Forget(garbage, thorough));
  Pass(point::kSweepDone);
  {
    const std::lock_guard<std::mutex> lock(sweeper_mutex_);
    leased_garbage_ = garbage.leased;
  }
  SweepResult result;
  result.removed = garbage.versions;
  result.quarantined = garbage.quarantined;
  std::map<Version, uint64_t> after = internal::BulkBytes(*database_);
  for (const auto& [version, bytes] : before) {
    result.freed_bytes += bytes - std::min(bytes, after[version]);
  }
  return result;
}

absl::StatusOr<Store::Impl::Garbage> Store::Impl::Mark() {
  Marks marks;
  std::vector<StepRecord> borrowers;
  std::map<uint32_t, AttemptRecord> attempts;
  bool flush = false;
  // Before the catalog: what is there by now has its attempt in it.
  const std::map<Version, uint64_t> bulk = internal::BulkBytes(*database_);
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    for (const auto& [step, record] : catalog_.steps) {
      marks.whole.insert(record.chain.begin(), record.chain.end());
      if (!record.references.empty()) borrowers.push_back(record);
    }
    for (const auto& [attempt, progress] : progress_) {
      marks.whole.insert({progress.spec.step, attempt});
    }
    marks.whole.insert(holds_.begin(), holds_.end());
    attempts = catalog_.attempts;
    std::swap(flush, unflushed_);
  }
  CKPTDB_RETURN_IF_ERROR(MarkBorrowed(borrowers, &marks));
  // A retirement that only the log knows may be lost with it; the data may
  // not be gone by then.
  if (flush) {
    CKPTDB_RETURN_IF_ERROR(database_->Flush({Family::kMeta}));
    database_->NoteWatermark();
  }
  // Read after the retirements were written: a reader writes its lease first,
  // and looks for the step then.
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<Lease> leases,
                          internal::ReadLeases(database_->files().get(), path_,
                                               environment_->NowMicros(),
                                               /*remove_expired=*/true));
  std::set<Version> leased;
  for (const Lease& lease : leases) {
    leased.insert(lease.versions.begin(), lease.versions.end());
  }
  Garbage garbage;
  for (const auto& [attempt, record] : attempts) {
    const Version& version = record.version;
    if (marks.whole.contains(version)) continue;
    if (leased.contains(version)) {
      garbage.leased = true;
      continue;
    }
    const auto partly = marks.items.find(version);
    if (partly != marks.items.end()) {
      AppendGaps(version, partly->second, &garbage.gaps);
    } else if (record.state == AttemptState::kCommitted) {
      garbage.quarantined.push_back(version);
    } else {
      garbage.versions.push_back(version);
    }
  }
  // Data of a version that no attempt record tells of: kept, for a person.
  for (const auto& [version, bytes] : bulk) {
    if (!attempts.contains(version.attempt) && !marks.whole.contains(version)) {
      garbage.quarantined.push_back(version);
    }
  }
  return garbage;
}

// A step that refers to a tensor of an older version keeps the tensor, not
// what else that version holds.
absl::Status Store::Impl::MarkBorrowed(const std::vector<StepRecord>& steps,
                                       Marks* marks) {
  for (const StepRecord& step : steps) {
    std::vector<BorrowedItem> borrowed;
    bool known = false;
    {
      const std::lock_guard<std::mutex> lock(catalog_mutex_);
      const auto found = borrowed_.find(step.version);
      known = found != borrowed_.end();
      if (known) borrowed = found->second;
    }
    if (!known) {
      absl::StatusOr<std::vector<BorrowedItem>> loaded =
          internal::LoadBorrowedItems(*database_, step);
      if (!loaded.ok()) {
        // Which items it needs is lost: all of those versions stay.
        marks->whole.insert(step.references.begin(), step.references.end());
        continue;
      }
      borrowed = *std::move(loaded);
      const std::lock_guard<std::mutex> lock(catalog_mutex_);
      borrowed_[step.version] = borrowed;
    }
    for (const BorrowedItem& item : borrowed) {
      marks->items[item.version].emplace(item.prefix, item.placement);
    }
  }
  return absl::OkStatus();
}

absl::Status Store::Impl::Free(const Garbage& garbage) {
  KeyRanges ranges = RangesOf(garbage.versions);
  const std::map<Version, uint64_t> bulk = internal::BulkBytes(*database_);
  std::erase_if(ranges, [&](const auto& range) {
    const absl::StatusOr<Version> version = ParseVersionPrefix(range.first);
    return version.ok() && !bulk.contains(*version);
  });
  KeyRanges all = ranges;
  all.insert(all.end(), garbage.gaps.begin(), garbage.gaps.end());
  CKPTDB_RETURN_IF_ERROR(database_->DeleteFiles(all));
  CKPTDB_RETURN_IF_ERROR(database_->DeleteLeftovers(ranges));
  return CleanStaging();
}

// Folders of attempts that are not in progress.
absl::Status Store::Impl::CleanStaging() {
  const std::string staging = internal::StagingPath(path_);
  CKPTDB_ASSIGN_OR_RETURN(
      const auto names,
      internal::ListFolder(database_->files().get(), staging));
  for (const std::string& name : names) {
    uint32_t attempt = 0;
    if (absl::SimpleAtoi(name, &attempt)) {
      // New attempts are higher than all in the catalog, and are in it before
      // their folder is made.
      const std::lock_guard<std::mutex> lock(catalog_mutex_);
      if (progress_.contains(attempt)) continue;
    }
    CKPTDB_RETURN_IF_ERROR(internal::RemoveTree(
        database_->files().get(), absl::StrCat(staging, "/", name)));
  }
  return absl::OkStatus();
}

// The attempt record goes last: a crash before it leaves all to be done again.
absl::Status Store::Impl::Forget(const Garbage& garbage, bool thorough) {
  rocksdb::WriteBatch batch;
  rocksdb::ColumnFamilyHandle* const meta = database_->family(Family::kMeta);
  rocksdb::Status status;
  for (const Version& version : garbage.versions) {
    const std::string ranks = RankKeyPrefix(version);
    if (status.ok()) {
      status = batch.DeleteRange(database_->family(Family::kInline),
                                 VersionPrefix(version), VersionEnd(version));
    }
    if (status.ok()) status = batch.DeleteRange(meta, ranks, PrefixEnd(ranks));
    if (status.ok()) status = batch.Delete(meta, AttemptKey(version.attempt));
  }
  CKPTDB_RETURN_IF_ERROR(internal::FromRocks(status, "sweep batch"));
  if (garbage.versions.empty()) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(CheckRoom());
  CKPTDB_RETURN_IF_ERROR(database_->Write(&batch, /*sync=*/false));
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    for (const Version& version : garbage.versions) {
      catalog_.attempts.erase(version.attempt);
    }
  }
  if (!thorough) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(database_->Flush({Family::kMeta, Family::kInline}));
  const auto [first, last] =
      std::minmax_element(garbage.versions.begin(), garbage.versions.end());
  return database_->Compact(Family::kInline, VersionPrefix(*first),
                            VersionEnd(*last));
}

absl::StatusOr<Usage> Store::Impl::GetUsage() {
  internal::Catalog catalog;
  std::set<uint32_t> in_progress;
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    catalog = catalog_;
    for (const auto& [attempt, progress] : progress_) {
      in_progress.insert(attempt);
    }
  }
  return internal::MeasureUsage(*database_, path_, catalog,
                                environment_->NowMicros(), &in_progress);
}

}  // namespace ckptdb
