// SPDX-License-Identifier: Apache-2.0
#include "db/store/sweep_marker.h"

#include <memory>
#include <utility>

#include "db/meta/lease.h"
#include "db/store/measure_usage.h"
#include "schema/bytes/keys.h"
#include "schema/records/records.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

// Appends the key ranges of a version between the items that must stay. The
// first begins after the version's prefix, the key of the separator that
// Database::PrepareIngest puts before damaged tables.
void AppendGaps(const Version& version,
                const std::map<std::string, std::string>& kept,
                KeyRanges* gaps) {
  std::string begin = VersionPrefix(version) + '\0';
  for (const auto& [first, end] : kept) {
    if (begin < first) gaps->emplace_back(begin, first);
    begin = end;
  }
  gaps->emplace_back(begin, VersionEnd(version));
}

}  // namespace

absl::StatusOr<Garbage> SweepMarker::Mark() {
  // The bytes are read before the catalog, so that the catalog has the attempts
  // of all of them.
  const std::map<Version, uint64_t> bulk = BulkBytes(folder_->database());
  catalog_->AbandonFolds(bulk);
  CatalogMarks marks = catalog_->Mark();
  KeptItems kept;
  MarkBorrowed(&marks, &kept);
  // Mark, flush, then read the leases: in this order, a lease written before
  // the leases are read is seen, and a reader that writes its lease later finds
  // the step retired.
  CKPTDB_RETURN_IF_ERROR(FlushRetirements());
  Garbage garbage;
  CKPTDB_ASSIGN_OR_RETURN(const std::set<Version> leased, ReadLeased(&garbage));
  Collect(marks, kept, leased, &garbage);
  // Data of a version without an attempt record is kept for manual inspection.
  for (const auto& [version, bytes] : bulk) {
    if (!marks.attempts.contains(version.attempt) &&
        !marks.whole.contains(version)) {
      garbage.quarantined.push_back(version);
    }
  }
  return garbage;
}

// A step that needs a tensor or a run of an older version keeps only that, not
// the version's other data.
void SweepMarker::MarkBorrowed(CatalogMarks* marks, KeptItems* kept) {
  std::map<Version, std::vector<BorrowedItem>> before;
  // The lists of the last sweep are reused for steps that still exist; the
  // others are dropped with `before`.
  before.swap(borrowed_);
  for (const StepRecord& step : marks->borrowers) {
    const std::vector<Version> needed = VersionsOf(step);
    if (auto known = before.extract(step.version); !known.empty()) {
      borrowed_.insert(std::move(known));
    } else {
      absl::StatusOr<std::vector<BorrowedItem>> loaded = LoadBorrowed(step);
      if (!loaded.ok()) {
        // The list of needed items cannot be read, so all of those versions
        // stay.
        marks->whole.insert(needed.begin(), needed.end());
        continue;
      }
      borrowed_[step.version] = *std::move(loaded);
    }
    // The records of all these versions stay, whether or not they hold any of
    // the items.
    for (const Version& version : needed) (*kept)[version];
    for (const BorrowedItem& item : borrowed_[step.version]) {
      (*kept)[item.version].emplace(item.begin, item.end);
    }
  }
}

// Reads a step's rank records without a lock. They stay, because only this
// sweep could remove them.
absl::StatusOr<std::vector<BorrowedItem>> SweepMarker::LoadBorrowed(
    const StepRecord& step) const {
  CKPTDB_ASSIGN_OR_RETURN(const Borrower borrower,
                          catalog_->Read([&](const Catalog& records) {
                            return FindBorrower(records, step);
                          }));
  return LoadBorrowedItems(
      borrower, [&](const StepRecord& record) -> absl::StatusOr<RankRecords> {
        CKPTDB_ASSIGN_OR_RETURN(std::vector<StepRecord::Rank> ranks,
                                LoadRanks(folder_->database(), record));
        return std::make_shared<const std::vector<StepRecord::Rank>>(
            std::move(ranks));
      });
}

// A retirement that is only in the log may be lost with it, so it is flushed
// before data is removed. A retirement written after this check is left to the
// next sweep: its step was marked.
absl::Status SweepMarker::FlushRetirements() {
  if (!catalog_->TakeUnflushed()) return absl::OkStatus();
  absl::Status status = folder_->CheckDiskSpace(kRecordOverhead, Spare::kUse);
  if (status.ok()) status = folder_->database().Flush({Family::kMeta});
  if (status.ok()) {
    folder_->database().NoteWatermark();
  } else {
    catalog_->GiveBackUnflushed();
  }
  return status;
}

// Leases are read after the retirements were written: a reader writes its lease
// first and then looks for the step.
absl::StatusOr<std::set<Version>> SweepMarker::ReadLeased(
    Garbage* garbage) const {
  CKPTDB_ASSIGN_OR_RETURN(
      const std::vector<Lease> leases,
      ReadLeases(folder_->files(), folder_->path(), folder_->NowMicros(),
                 /*remove_expired=*/true, &garbage->unswept));
  std::set<Version> leased;
  for (const Lease& lease : leases) {
    leased.insert(lease.versions.begin(), lease.versions.end());
  }
  return leased;
}

void SweepMarker::Collect(const CatalogMarks& marks, const KeptItems& kept,
                          const std::set<Version>& leased,
                          Garbage* garbage) const {
  std::vector<Version> held;
  for (const auto& [attempt, record] : marks.attempts) {
    const Version& version = record.version;
    // The order decides what is reported. A held or leased version waits,
    // whatever its state.
    if (marks.whole.contains(version)) continue;
    if (marks.held.contains(version)) {
      held.push_back(version);
      continue;
    }
    if (leased.contains(version)) {
      garbage->leased = true;
      continue;
    }
    // A committed version that is a step is in `whole`; one that is only
    // borrowed from was retired. So this one has lost its step record.
    if (record.state == AttemptState::kCommitted) {
      garbage->quarantined.push_back(version);
      continue;
    }
    const auto partly = kept.find(version);
    if (partly == kept.end()) {
      garbage->versions.push_back(version);
    } else {
      AppendGaps(version, partly->second, &garbage->gaps);
    }
  }
  // Releasing the last of these holds requests another sweep.
  holds_->NoteGarbage(held);
}

}  // namespace ckptdb::internal
