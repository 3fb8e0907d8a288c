// SPDX-License-Identifier: Apache-2.0
#include "db/store/measure_usage.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "db/disk/files.h"
#include "db/meta/borrowed.h"
#include "db/meta/lease.h"
#include "db/store/folder_usage.h"
#include "schema/bytes/keys.h"
#include "schema/records/records.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

using Reason = Usage::Held::Reason;

// Small saves share files, so their bytes are estimated from the indexes of
// these files and from the memtables.
uint64_t InlineBytes(const Database& database, const Version& version) {
  const std::string begin = VersionPrefix(version);
  const std::string end = VersionEnd(version);
  const rocksdb::Range range(begin, end);
  uint64_t bytes = 0;
  rocksdb::SizeApproximationOptions options;
  options.include_memtables = true;
  options.include_files = true;
  // If RocksDB cannot estimate, this returns 0.
  database
      .Guarded([&] {
        return database.rocks()->GetApproximateSizes(
            options, database.family(Family::kInline), &range, 1, &bytes);
      })
      .PermitUncheckedError();
  return bytes;
}

// Sums usage by item name. Add steps first, then the items they borrow.
class NameUsages {
 public:
  void AddStep(const std::vector<StepRecord::Rank>& ranks) {
    // A name counts once for each step that stored it, on any number of ranks.
    std::set<Usage::Name*> stored;
    for (const StepRecord::Rank& rank : ranks) {
      for (const Item& item : rank.items) {
        if (item.data_version != rank.version) continue;
        Usage::Name* const usage = Find(item.kind, item.name);
        usage->exclusive_bytes += item.stored_bytes;
        if (item.kind == Item::Kind::kRows && item.run == Item::Run::kDelta) {
          usage->delta_bytes += item.stored_bytes;
        }
        if (item.stored_bytes > 0) stored.insert(usage);
      }
    }
    for (Usage::Name* const usage : stored) ++usage->step_count;
  }
  // Adds an item of a version that is not a step, once for all steps that
  // borrow it.
  void AddKept(const BorrowedItem& item) {
    if (!kept_.insert(item.begin).second) return;
    Find(item.kind, item.name)->referenced_bytes += item.stored_bytes;
  }
  // Returns tensors first, then tables, then blobs.
  std::vector<Usage::Name> Take() {
    std::vector<Usage::Name> all;
    for (auto& [key, usage] : usages_) all.push_back(std::move(usage));
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return a.kind > b.kind;
    });
    return all;
  }

 private:
  Usage::Name* Find(Item::Kind kind, const std::string& item_name) {
    const std::string name = kind == Item::Kind::kRows ? item_name : "";
    Usage::Name& usage = usages_[{kind, name}];
    usage.kind = kind;
    usage.name = name;
    return &usage;
  }

  std::map<std::pair<Item::Kind, std::string>, Usage::Name> usages_;
  std::set<std::string> kept_;  // first keys
};

class Measurer {
 public:
  Measurer(const Database& database, const std::string& store,
           const Catalog& catalog, const std::set<uint32_t>* in_progress,
           bool by_name)
      : database_(database),
        store_(store),
        catalog_(catalog),
        in_progress_(in_progress),
        by_name_(by_name) {}

  // Steps are measured first, because their references decide how the other
  // versions are held. The folder is measured last, without locks; files may
  // appear and disappear meanwhile.
  absl::StatusOr<Usage> Run(int64_t now_micros) {
    CKPTDB_RETURN_IF_ERROR(AddSteps());
    CKPTDB_ASSIGN_OR_RETURN(
        const auto leases,
        ReadLeases(database_.files().get(), store_, now_micros,
                   /*remove_expired=*/false));
    for (const Lease& lease : leases) {
      leased_.insert(lease.versions.begin(), lease.versions.end());
    }
    AddOthers();
    usage_.names = names_.Take();
    MeasureFolder(
        database_.files().get(), store_,
        [this](uint32_t attempt) { return IsInProgress(attempt); }, &usage_);
    CKPTDB_ASSIGN_OR_RETURN(usage_.available_bytes,
                            FreeBytes(database_.files().get(), store_));
    return std::move(usage_);
  }

 private:
  absl::Status AddSteps() {
    for (const auto& [step, record] : catalog_.steps) {
      // All steps must be known before the first is added: after a rollback a
      // step may borrow from a step with a higher number.
      own_.insert(record.version);
    }
    for (const auto& [step, record] : catalog_.steps) {
      CKPTDB_RETURN_IF_ERROR(AddStep(record));
    }
    return absl::OkStatus();
  }

  absl::Status AddStep(const StepRecord& record) {
    Usage::Step& usage = usage_.steps.emplace_back();
    usage.version = record.version;
    usage.exclusive_bytes = record.exclusive_bytes;
    const std::vector<Version> needed = VersionsOf(record);
    referenced_.insert(needed.begin(), needed.end());
    if (by_name_) CKPTDB_RETURN_IF_ERROR(AddNames(record));
    // A step that needs only its own version borrows nothing, so its rank
    // records need not be read.
    if (needed.size() == 1) return absl::OkStatus();
    CKPTDB_ASSIGN_OR_RETURN(const Borrower borrower,
                            FindBorrower(catalog_, record));
    CKPTDB_ASSIGN_OR_RETURN(
        const auto borrowed,
        LoadBorrowedItems(borrower, [&](const StepRecord& needed_step) {
          return FindRanks(needed_step);
        }));
    for (const BorrowedItem& item : borrowed) {
      usage.borrowed_bytes += item.stored_bytes;
      if (by_name_ && !own_.contains(item.version)) {
        names_.AddKept(item);
      }
    }
    return absl::OkStatus();
  }

  // Does not use FindRanks, which would keep the records of all steps in
  // memory.
  absl::Status AddNames(const StepRecord& record) {
    CKPTDB_ASSIGN_OR_RETURN(const std::vector<StepRecord::Rank> ranks,
                            LoadRanks(database_, record));
    names_.AddStep(ranks);
    return absl::OkStatus();
  }

  // Caches the records, because every step of a chain needs those of the whole
  // chain.
  absl::StatusOr<RankRecords> FindRanks(const StepRecord& step) {
    RankRecords& ranks = ranks_[step.version];
    if (ranks == nullptr) {
      CKPTDB_ASSIGN_OR_RETURN(std::vector<StepRecord::Rank> loaded,
                              LoadRanks(database_, step));
      ranks = std::make_shared<const std::vector<StepRecord::Rank>>(
          std::move(loaded));
    }
    return ranks;
  }

  void AddOthers() {
    std::map<Version, uint64_t> bulk = BulkBytes(database_);
    for (const auto& [attempt, record] : catalog_.attempts) {
      const Version& version = record.version;
      const uint64_t bytes = bulk[version];
      bulk.erase(version);
      if (own_.contains(version)) continue;
      // A version that is not a step still holds bytes, and a reason why they
      // are not free yet.
      usage_.held_versions.push_back(
          {version, ReasonOf(record), bytes + InlineBytes(database_, version)});
    }
    for (const auto& [version, bytes] : bulk) {
      // The rest have no attempt record.
      usage_.held_versions.push_back({version, Reason::kQuarantined, bytes});
    }
  }

  // A save that began after the catalog was copied is in progress, too.
  bool IsInProgress(uint32_t attempt) const {
    if (attempt >= catalog_.root.next_attempt) return true;
    const auto found = catalog_.attempts.find(attempt);
    return found != catalog_.attempts.end() &&
           ReasonOf(found->second) == Reason::kInProgress;
  }

  // Referenced and leased versions stay regardless of their state. A committed
  // attempt that nothing references is kept for manual inspection.
  Reason ReasonOf(const AttemptRecord& record) const {
    if (referenced_.contains(record.version)) return Reason::kReferenced;
    if (leased_.contains(record.version)) return Reason::kLeased;
    if (record.state == AttemptState::kCommitted) return Reason::kQuarantined;
    const bool begun = record.state == AttemptState::kBegun &&
                       (in_progress_ == nullptr ||
                        in_progress_->contains(record.version.attempt));
    return begun ? Reason::kInProgress : Reason::kGarbage;
  }

  const Database& database_;
  const std::string& store_;
  const Catalog& catalog_;
  const std::set<uint32_t>* const in_progress_;
  const bool by_name_;
  std::map<Version, RankRecords> ranks_;
  std::set<Version> own_;
  std::set<Version> referenced_;
  std::set<Version> leased_;
  NameUsages names_;
  Usage usage_;
};

}  // namespace

std::map<Version, uint64_t> BulkBytes(const Database& database) {
  std::map<Version, uint64_t> bytes;
  // A file holds data of one version only, so its first key names the version.
  for (const rocksdb::LiveFileMetaData& file :
       database.FilesOf(Family::kBulk)) {
    const absl::StatusOr<Version> version =
        ParseVersionPrefix(file.smallestkey);
    if (version.ok()) bytes[*version] += file.size;
  }
  return bytes;
}

absl::StatusOr<Usage> MeasureUsage(const Database& database,
                                   const std::string& store,
                                   const Catalog& catalog, int64_t now_micros,
                                   const std::set<uint32_t>* in_progress,
                                   bool by_name) {
  return Measurer(database, store, catalog, in_progress, by_name)
      .Run(now_micros);
}

}  // namespace ckptdb::internal
