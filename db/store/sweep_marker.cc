#include "ckptdb/db/store/sweep_marker.h"

#include <memory>
#include <utility>

#include "ckptdb/db/meta/lease.h"
#include "ckptdb/db/store/measure_usage.h"
#include "ckptdb/schema/bytes/keys.h"
#include "ckptdb/schema/records/records.h"
#include "ckptdb/schema/status.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {
namespace {

// Appends the parts of a version between the items that must stay.
void AppendGaps(const Version& version,
                const std::map<std::string, Item::Placement>& kept,
                KeyRanges* gaps) {
  std::string begin = VersionPrefix(version);
  for (const auto& [prefix, placement] : kept) {
    if (begin < prefix) gaps->emplace_back(begin, prefix);
    // The prefix of an item ends with NUL, so it has an end.
    begin = PrefixEnd(prefix);
  }
  gaps->emplace_back(begin, VersionEnd(version));
}

}  // namespace

absl::StatusOr<Garbage> SweepMarker::Mark() {
  // The bytes are read before the catalog, which then has the attempts of all
  // of them.
  const std::map<Version, uint64_t> bulk = BulkBytes(folder_->database());
  CatalogMarks marks = catalog_->Mark();
  KeptItems kept;
  MarkBorrowed(&marks, &kept);
  // Marked, flushed, leases read: in this order a reader that wrote its lease
  // before the leases are read is seen, and one that writes it later finds the
  // step retired.
  CKPTDB_RETURN_IF_ERROR(FlushRetirements());
  Garbage garbage;
  CKPTDB_ASSIGN_OR_RETURN(const std::set<Version> leased, ReadLeased(&garbage));
  Collect(marks, kept, leased, &garbage);
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

// A step that needs a tensor or a run of an older version keeps that, not what
// else the version holds.
void SweepMarker::MarkBorrowed(CatalogMarks* marks, KeptItems* kept) {
  std::map<Version, std::vector<BorrowedItem>> before;
  // Lists of the last sweep are taken over for steps that are still there;
  // those of others go with `before`.
  before.swap(borrowed_);
  for (const StepRecord& step : marks->borrowers) {
    const std::vector<Version> needed = VersionsOf(step);
    if (auto known = before.extract(step.version); !known.empty()) {
      borrowed_.insert(std::move(known));
    } else {
      absl::StatusOr<std::vector<BorrowedItem>> loaded = LoadBorrowed(step);
      if (!loaded.ok()) {
        // The list of the items that it needs is lost: all of those versions
        // stay.
        marks->whole.insert(needed.begin(), needed.end());
        continue;
      }
      borrowed_[step.version] = *std::move(loaded);
    }
    // The records of all of them, whether they have any of the items or not.
    for (const Version& version : needed) (*kept)[version];
    for (const BorrowedItem& item : borrowed_[step.version]) {
      (*kept)[item.version].emplace(item.prefix, item.placement);
    }
  }
}

// Reads the rank records of a step without a lock. They stay, as only this
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

// A retirement that only the log knows may be lost with it; the data may not be
// gone by then. One that is written after this look is of the next sweep: its
// step was marked.
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
// first, and looks for the step then.
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
    // The order decides what is reported. A version that is held or leased
    // waits, whatever its state.
    if (marks.whole.contains(version)) continue;
    if (marks.held.contains(version)) {
      held.push_back(version);
      continue;
    }
    if (leased.contains(version)) {
      garbage->leased = true;
      continue;
    }
    // A committed version that is a step is in `whole`. One that is only
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
  // The last of their holds to go asks for another sweep.
  holds_->NoteGarbage(held);
}

}  // namespace ckptdb::internal
