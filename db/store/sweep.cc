// Mark and sweep over versions: what no step, reader, lease or save in
// progress needs goes, whatever left it there. docs/design.md, "Sweep".
#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ckptdb/db/base/call_guard.h"
#include "ckptdb/db/base/paths.h"
#include "ckptdb/db/crash_points.h"
#include "ckptdb/db/disk/files.h"
#include "ckptdb/db/disk/rocks_status.h"
#include "ckptdb/db/meta/lease.h"
#include "ckptdb/db/meta/posts.h"
#include "ckptdb/db/store/measure_usage.h"
#include "ckptdb/db/store/store_impl.h"
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

// What ReplaceFile leaves of OWNER and WATERMARK when the process dies in it.
bool IsTemporaryNote(absl::string_view name) {
  return internal::IsTemporaryName(name) &&
         (absl::StartsWith(name, "OWNER.") ||
          absl::StartsWith(name, "WATERMARK."));
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
    absl::Status status = internal::CallGuarded("the background sweep", [&] {
      return SweepOnce(/*thorough=*/false).status();
    });
    if (options_.background_fold) {
      status.Update(internal::CallGuarded("the background fold",
                                          [&] { return FoldNewest(); }));
    }
    lock.lock();
    sweep_status_ = status;
  }
}

absl::Status Store::Impl::sweep_status() const {
  const std::lock_guard<std::mutex> lock(sweeper_mutex_);
  return sweep_status_;
}

std::vector<UnsweptEntry> Store::Impl::unswept() const {
  const std::lock_guard<std::mutex> lock(sweeper_mutex_);
  return unswept_;
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
  CKPTDB_ASSIGN_OR_RETURN(Garbage garbage, Mark());
  CKPTDB_RETURN_IF_ERROR(Pass(point::kSweepMarked));
  std::map<Version, uint64_t> before = internal::BulkBytes(*database_);
  CKPTDB_RETURN_IF_ERROR(Free(garbage));
  CleanStaging(&garbage.unswept);
  internal::CleanPosts(database_->files().get(), path_,
                       environment_->NowMicros(), &garbage.unswept);
  CleanTemporaries("", IsTemporaryNote, &garbage.unswept);
  CleanTemporaries("db", internal::Database::IsLeftover, &garbage.unswept);
  CKPTDB_RETURN_IF_ERROR(Pass(point::kSweepFreed));
  SweepResult result;
  CKPTDB_RETURN_IF_ERROR(Forget(garbage));
  if (thorough && !garbage.versions.empty()) {
    CKPTDB_RETURN_IF_ERROR(CompactAway(garbage.versions, &result));
  }
  SetSpareAside();
  CKPTDB_RETURN_IF_ERROR(database_->ResumeCompactions());
  CKPTDB_RETURN_IF_ERROR(Pass(point::kSweepDone));
  {
    const std::lock_guard<std::mutex> lock(sweeper_mutex_);
    leased_garbage_ = garbage.leased;
    unswept_ = garbage.unswept;
  }
  result.removed = garbage.versions;
  result.quarantined = garbage.quarantined;
  result.unswept = garbage.unswept;
  std::map<Version, uint64_t> after = internal::BulkBytes(*database_);
  for (const auto& [version, bytes] : before) {
    result.freed_bytes += bytes - std::min(bytes, after[version]);
  }
  return result;
}

// Copies what the catalog knows of all versions, at one moment.
void Store::Impl::MarkSteps(Marks* marks) {
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  for (const auto& [step, record] : catalog_.steps) {
    marks->whole.insert(record.version);
  }
  for (const auto& [attempt, progress] : progress_) {
    marks->whole.insert({progress.spec.step, attempt});
  }
  marks->held.insert(holds_.begin(), holds_.end());
  marks->attempts = catalog_.attempts;
  // A fold that is under way, or that was cut short and can go on.
  for (const auto& [attempt, record] : marks->attempts) {
    const auto step = catalog_.steps.find(record.version.step);
    if (step != catalog_.steps.end() && IsFoldOf(record, step->second)) {
      marks->whole.insert(record.version);
    }
  }
  if (folding_.has_value()) marks->whole.insert(*folding_);
}

absl::StatusOr<Store::Impl::Garbage> Store::Impl::Mark() {
  Marks marks;
  // Before the catalog: what is there by now has its attempt in it.
  const std::map<Version, uint64_t> bulk = internal::BulkBytes(*database_);
  MarkSteps(&marks);
  MarkBorrowed(&marks);
  CKPTDB_RETURN_IF_ERROR(FlushRetirements());
  // Read after the retirements were written: a reader writes its lease first,
  // and looks for the step then.
  Garbage garbage;
  CKPTDB_ASSIGN_OR_RETURN(
      const std::vector<Lease> leases,
      internal::ReadLeases(database_->files().get(), path_,
                           environment_->NowMicros(),
                           /*remove_expired=*/true, &garbage.unswept));
  for (const Lease& lease : leases) {
    marks.leased.insert(lease.versions.begin(), lease.versions.end());
  }
  CollectGarbage(marks, &garbage);
  // Data of a version without an attempt record is kept for a person to look
  // at.
  for (const auto& [version, bytes] : bulk) {
    if (!marks.attempts.contains(version.attempt) &&
        !marks.whole.contains(version)) {
      garbage.quarantined.push_back(version);
    }
  }
  return garbage;
}

// Collects the versions, and parts of versions, that nothing needs.
void Store::Impl::CollectGarbage(const Marks& marks, Garbage* garbage) {
  std::vector<Version> held;
  for (const auto& [attempt, record] : marks.attempts) {
    const Version& version = record.version;
    if (marks.whole.contains(version)) continue;
    if (marks.held.contains(version)) {
      held.push_back(version);
      continue;
    }
    if (marks.leased.contains(version)) {
      garbage->leased = true;
      continue;
    }
    if (record.state == AttemptState::kCommitted) {
      garbage->quarantined.push_back(version);
      continue;
    }
    const auto partly = marks.items.find(version);
    if (partly == marks.items.end()) {
      garbage->versions.push_back(version);
    } else {
      AppendGaps(version, partly->second, &garbage->gaps);
    }
  }
  NoteHeldGarbage(held);
}

// The last of their holds to go asks for another sweep.
void Store::Impl::NoteHeldGarbage(const std::vector<Version>& versions) {
  bool free = false;
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    for (const Version& version : versions) {
      if (holds_.contains(version)) {
        held_garbage_.insert(version);
      } else {
        free = true;
      }
    }
  }
  if (free) RequestSweep();
}

// A retirement that only the log knows may be lost with it; the data may not be
// gone by then. One that is written after this look is of the next sweep: its
// step was marked.
absl::Status Store::Impl::FlushRetirements() {
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    if (!unflushed_) return absl::OkStatus();
    unflushed_ = false;
  }
  absl::Status status = CheckRoom(internal::kRecordOverhead, Spare::kUse);
  if (status.ok()) status = database_->Flush({Family::kMeta});
  if (status.ok()) {
    database_->NoteWatermark();
    return status;
  }
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  unflushed_ = true;
  return status;
}

// A step that needs a tensor or a run of an older version keeps that, not what
// else the version holds.
void Store::Impl::MarkBorrowed(Marks* marks) {
  std::vector<StepRecord> borrowers;
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    for (const auto& [step, record] : catalog_.steps) {
      const std::vector<Version> needed = internal::VersionsOf(record);
      const auto whole = [&](const Version& version) {
        return marks->whole.contains(version);
      };
      if (!std::all_of(needed.begin(), needed.end(), whole)) {
        borrowers.push_back(record);
      }
    }
  }
  for (const StepRecord& step : borrowers) {
    const absl::StatusOr<std::vector<BorrowedItem>> borrowed =
        FindBorrowed(step);
    if (!borrowed.ok()) {
      // Which items it needs is lost: all of those versions stay.
      for (const Version& version : internal::VersionsOf(step)) {
        marks->whole.insert(version);
      }
      continue;
    }
    // The records of all of them, whether they have any of the items or not.
    for (const Version& version : internal::VersionsOf(step)) {
      marks->items[version];
    }
    for (const BorrowedItem& item : *borrowed) {
      marks->items[item.version].emplace(item.prefix, item.placement);
    }
  }
}

absl::StatusOr<std::vector<BorrowedItem>> Store::Impl::FindBorrowed(
    const StepRecord& step) {
  internal::Borrower borrower;
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    const auto found = borrowed_.find(step.version);
    if (found != borrowed_.end()) return found->second;
    CKPTDB_ASSIGN_OR_RETURN(borrower, internal::FindBorrower(catalog_, step));
  }
  CKPTDB_ASSIGN_OR_RETURN(
      const std::vector<BorrowedItem> borrowed,
      internal::LoadBorrowedItems(
          borrower,
          [&](const StepRecord& record)
              -> absl::StatusOr<internal::RankRecords> {
            CKPTDB_ASSIGN_OR_RETURN(std::vector<RankRecord> ranks,
                                    internal::LoadRanks(*database_, record));
            return std::make_shared<const std::vector<RankRecord>>(
                std::move(ranks));
          }));
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  if (catalog_.FindVersion(step.version) != nullptr) {
    borrowed_[step.version] = borrowed;
  }
  return borrowed;
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
  // The MANIFEST grows before files go.
  if (!all.empty()) {
    CKPTDB_RETURN_IF_ERROR(CheckRoom(internal::kRecordOverhead, Spare::kUse));
  }
  CKPTDB_RETURN_IF_ERROR(database_->DeleteFiles(all));
  return database_->DeleteLeftovers(ranges);
}

bool Store::Impl::MayWriteStaging(uint32_t attempt) const {
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  if (progress_.contains(attempt)) return true;
  if (folding_.has_value() && folding_->attempt == attempt) return true;
  const auto found = catalog_.attempts.find(attempt);
  if (found == catalog_.attempts.end()) return false;
  const auto step = catalog_.steps.find(found->second.version.step);
  return step != catalog_.steps.end() && IsFoldOf(found->second, step->second);
}

// Folders of attempts that are not in progress, and links.
void Store::Impl::CleanStaging(std::vector<UnsweptEntry>* unswept) {
  rocksdb::FileSystem* const files = database_->files().get();
  const std::string staging = internal::StagingPath(path_);
  const auto names = internal::ListFolder(files, staging);
  if (!names.ok()) {
    unswept->push_back({"staging", std::string(names.status().message())});
    return;
  }
  for (const std::string& name : *names) {
    const std::string path = absl::StrCat(staging, "/", name);
    UnsweptEntry entry{absl::StrCat("staging/", name), ""};
    uint32_t attempt = 0;
    // New attempts are higher than all in the catalog, and are in it before
    // their folder is made.
    const bool own =
        absl::SimpleAtoi(name, &attempt) && absl::StrCat(attempt) == name;
    if (own && MayWriteStaging(attempt)) continue;
    const auto found = internal::LookAt(files, path);
    const bool link = found.ok() && found->kind == internal::EntryKind::kLink;
    if (!own && !link) {
      entry.reason = "it is no folder of a save";
      entry.foreign = true;
      unswept->push_back(std::move(entry));
      continue;
    }
    const absl::Status removed = internal::RemoveTree(files, path);
    if (removed.ok()) continue;
    entry.reason = std::string(removed.message());
    unswept->push_back(std::move(entry));
  }
}

void Store::Impl::CleanTemporaries(
    const std::string& folder,
    const std::function<bool(absl::string_view)>& is_own,
    std::vector<UnsweptEntry>* unswept) {
  rocksdb::FileSystem* const files = database_->files().get();
  const std::string below = folder.empty() ? "" : folder + "/";
  const auto names = internal::ListFolder(
      files, folder.empty() ? path_ : absl::StrCat(path_, "/", folder));
  if (!names.ok()) {
    unswept->push_back({folder, std::string(names.status().message())});
    return;
  }
  for (const std::string& name : *names) {
    if (!is_own(name)) continue;
    const std::string path = absl::StrCat(path_, "/", below, name);
    const auto entry = internal::LookAt(files, path);
    if (absl::IsNotFound(entry.status())) continue;
    absl::Status removed = entry.status();
    if (removed.ok()) {
      if (!internal::IsAbandoned(*entry, environment_->NowMicros())) continue;
      removed = internal::RemoveFile(files, path);
    }
    if (removed.ok()) continue;
    unswept->push_back({below + name, std::string(removed.message())});
  }
}

// The attempt record goes last: a crash before it leaves all to be done again.
absl::Status Store::Impl::Forget(const Garbage& garbage) {
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
    const std::string evaluations = EvaluationKeyPrefix(version);
    if (status.ok()) {
      status = batch.DeleteRange(meta, evaluations, PrefixEnd(evaluations));
    }
    if (status.ok()) status = batch.Delete(meta, RetiredKey(version));
    if (status.ok()) status = batch.Delete(meta, AttemptKey(version.attempt));
  }
  CKPTDB_RETURN_IF_ERROR(internal::FromRocks(status, "sweep batch"));
  if (garbage.versions.empty()) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(CheckRoomFor(batch, Spare::kUse));
  CKPTDB_RETURN_IF_ERROR(database_->Write(&batch, /*sync=*/false));
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    for (const Version& version : garbage.versions) {
      catalog_.attempts.erase(version.attempt);
      catalog_.retired.erase(version);
      runs_.erase(version);
      borrowed_.erase(version);
    }
  }
  return absl::OkStatus();
}

// Damage, and a disk that is too full to rewrite what stays, are in the result.
absl::Status Store::Impl::CompactAway(const std::vector<Version>& versions,
                                      SweepResult* result) {
  CKPTDB_RETURN_IF_ERROR(database_->Flush({Family::kMeta, Family::kInline}));
  const auto [first, last] =
      std::minmax_element(versions.begin(), versions.end());
  absl::Status compacted = CheckRoom(internal::kRecordOverhead +
                                     database_->TableBytes(Family::kInline));
  if (compacted.ok()) {
    compacted = database_->Compact(Family::kInline, VersionPrefix(*first),
                                   VersionEnd(*last));
  }
  if (absl::IsDataLoss(compacted)) {
    result->damage = std::string(compacted.message());
  } else if (absl::IsResourceExhausted(compacted)) {
    result->postponed = std::string(compacted.message());
  } else {
    return compacted;
  }
  return absl::OkStatus();
}

// Holds all that the steps need, as it reads their records.
absl::StatusOr<Usage> Store::Impl::GetUsage() {
  internal::Catalog catalog;
  std::set<uint32_t> in_progress;
  std::shared_ptr<void> hold;
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    catalog = catalog_;
    std::set<Version> needed;
    for (const auto& [step, record] : catalog_.steps) {
      const std::vector<Version> versions = internal::VersionsOf(record);
      needed.insert(versions.begin(), versions.end());
    }
    hold = Hold({needed.begin(), needed.end()});
    for (const auto& [attempt, progress] : progress_) {
      in_progress.insert(attempt);
    }
    for (const auto& [attempt, record] : catalog_.attempts) {
      const auto step = catalog_.steps.find(record.version.step);
      if (step != catalog_.steps.end() && IsFoldOf(record, step->second)) {
        in_progress.insert(attempt);
      }
    }
  }
  return internal::MeasureUsage(*database_, path_, catalog,
                                environment_->NowMicros(), &in_progress);
}

}  // namespace ckptdb
