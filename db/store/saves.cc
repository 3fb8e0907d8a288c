// SPDX-License-Identifier: Apache-2.0
#include "db/store/saves.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "db/base/paths.h"
#include "db/disk/files.h"
#include "db/meta/borrow_cost.h"
#include "db/meta/borrowed.h"
#include "db/options.h"
#include "db/state.h"
#include "db/store/commit.h"
#include "db/store/commit_builder.h"
#include "db/store/committer.h"
#include "db/store/post_taker.h"
#include "db/store/save_checks.h"
#include "db/store/step_catalog.h"
#include "db/store/store_folder.h"
#include "db/store/sweep_requests.h"
#include "schema/records/staged.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Returns the tables that a save may add delta runs to, each once, whichever
// rank has it: a rank that had no rows before may have changes now.
absl::StatusOr<std::shared_ptr<const StepRecord::Rank>> ParentTables(
    const Database& database, const StepRecord& parent) {
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<StepRecord::Rank> ranks,
                          LoadRanks(database, parent));
  std::map<std::string, Item> tables;
  for (const StepRecord::Rank& rank : ranks) {
    for (const Item& item : rank.items) {
      if (item.kind != Item::Kind::kRows) continue;
      Item table;
      table.kind = item.kind;
      table.name = item.name;
      table.data_version = item.data_version;
      table.slots = item.slots;
      table.errors = item.errors;  // the record of a lossy slot has them
      table.slice_hash = item.slice_hash;
      table.rows_per_page = item.rows_per_page;
      tables.emplace(item.name, std::move(table));
    }
  }
  auto all = std::make_shared<StepRecord::Rank>();
  all->version = parent.version;
  for (auto& [name, item] : tables) all->items.push_back(std::move(item));
  return all;
}

// Called before the commit, which consumes the records. The caller adds times.
SaveResult ResultOf(const Commit& commit,
                    const StoreOptions::ChainBounds& bounds) {
  SaveResult result;
  result.version = commit.step.version;
  result.raw_bytes = commit.step.raw_bytes;
  result.exclusive_bytes = commit.step.exclusive_bytes;
  result.borrowed_bytes = ReusedBytes(commit);
  result.kind = commit.step.kind;
  result.deltas = commit.step.chain.size() - 1;
  result.base_due_reason = BaseDue(commit.step, bounds);
  return result;
}

// Returns the stored bytes of the tensors and blobs in files.
uint64_t DenseBytes(const StepRecord::Rank& rank) {
  uint64_t bytes = 0;
  for (const Item& item : rank.items) {
    if (item.kind != Item::Kind::kRows &&
        item.placement == Item::Placement::kBulk) {
      bytes += item.stored_bytes;
    }
  }
  return bytes;
}

// Returns the rank's record of a version that the parent borrows from. Sets
// `kept` if nothing else keeps that version's files: it is not a step any more,
// and no table is restored from it.
absl::StatusOr<StepRecord::Rank> LoadLender(const StoreComponents& store,
                                            const StepRecord& parent,
                                            uint32_t rank,
                                            const Version& version,
                                            bool* kept) {
  std::optional<StepRecord> step;
  store.catalog->Read([&](const Catalog& records) {
    const StepRecord* const found = records.FindVersion(version);
    if (found != nullptr) step = *found;
    *kept = records.retired.contains(version) &&
            std::ranges::find(parent.chain, version) == parent.chain.end();
  });
  if (!step.has_value() || rank >= step->world_size) {
    return absl::NotFoundError("the version has no record of the rank");
  }
  return LoadRank(store.folder->database(), *step, rank);
}

// Returns the files that the parent borrows from and the next step should not,
// because most of what shares them may have changed since. Files that only
// borrowing keeps may have as many unused bytes as the step has of tensors and
// blobs. Files whose records cannot be read are left as they are.
std::vector<BorrowedFile> FilesToLeave(const StoreComponents& store,
                                       const StepRecord& parent,
                                       const StepRecord::Rank& record) {
  std::map<Version, ItemKeys> borrowed;
  for (const BorrowedItem& item : BorrowedItems(record)) {
    if (item.placement == Item::Placement::kBulk) {
      borrowed[item.version].insert(KeyOf(item));
    }
  }
  std::vector<BorrowedFile> leave;
  std::vector<BorrowedFile> kept_files;
  for (const auto& each : borrowed) {
    const ItemKeys& keys = each.second;
    bool kept = false;
    const auto stored =
        LoadLender(store, parent, record.rank, each.first, &kept);
    if (!stored.ok()) continue;
    for (BorrowedFile& file : BorrowedFiles(*stored, [&](const Item& item) {
           return keys.contains(KeyOf(item));
         })) {
      if (file.IsCostly()) {
        leave.push_back(std::move(file));
      } else if (kept) {
        kept_files.push_back(std::move(file));
      }
    }
  }
  std::ranges::move(LeastUsed(std::move(kept_files), DenseBytes(record)),
                    std::back_inserter(leave));
  return leave;
}

void LeaveOutCostly(const StoreComponents& store, const StepRecord& parent,
                    StepRecord::Rank* record) {
  for (const BorrowedFile& file : FilesToLeave(store, parent, *record)) {
    std::erase_if(record->items, [&](const Item& item) {
      return item.data_version == file.version &&
             file.borrowed.contains(KeyOf(item));
    });
  }
}

// Small saves share a family with a damaged one, whose tables are never
// compacted again, and tables written by older versions share blocks.
bool HasDamagedSteps(const StoreComponents& store) {
  return store.catalog->Read([](const Catalog& records) {
    return std::ranges::any_of(records.steps, [](const auto& step) {
      return step.second.quarantined;
    });
  });
}

absl::StatusOr<std::vector<Ticket>> MakeTickets(const StoreComponents& store,
                                                const BegunAttempt& begun,
                                                const SaveSpec& spec) {
  const Version& version = begun.attempt.version;
  const StepRecord& parent = begun.parent;
  // Only a save that names its parent may store changes.
  std::shared_ptr<const StepRecord::Rank> parent_tables;
  if (spec.parent.has_value()) {
    CKPTDB_ASSIGN_OR_RETURN(parent_tables,
                            ParentTables(store.folder->database(), parent));
  }
  const bool in_files = HasDamagedSteps(store);
  std::vector<Ticket> tickets;
  tickets.reserve(spec.world_size);
  for (uint32_t rank = 0; rank < spec.world_size; ++rank) {
    internal::TicketRecord ticket;
    ticket.uuid = store.folder->uuid();
    ticket.version = version;
    ticket.world_size = spec.world_size;
    ticket.rank = rank;
    if (!spec.slice_bounds.empty()) {
      ticket.slices = {spec.slice_bounds[rank],
                       spec.slice_bounds[rank + size_t{1}]};
    }
    ticket.parent_tables = parent_tables;
    ticket.staging = absl::StrCat(StagingOf(version.attempt), "/", rank);
    ticket.in_files = in_files;
    // A rank borrows from the same rank of the parent, so the new ranks of a
    // larger world borrow nothing.
    if (parent.version.attempt != 0 && rank < parent.world_size) {
      // If the parent is damaged, the save reuses nothing.
      absl::StatusOr<StepRecord::Rank> record =
          LoadRank(store.folder->database(), parent, rank);
      if (record.ok()) {
        LeaveOutCostly(store, parent, &*record);
        ticket.parent =
            std::make_shared<const StepRecord::Rank>(*std::move(record));
      }
    }
    tickets.emplace_back(std::move(ticket));
  }
  return tickets;
}

// Writes the attempt's record, and makes the staging folder and the ranks'
// tickets.
absl::StatusOr<Store::Attempt> RecordAttempt(const StoreComponents& store,
                                             const BegunAttempt& begun,
                                             const SaveSpec& spec, bool sync)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(store.committer->changes());
absl::StatusOr<Store::Attempt> RecordAttempt(const StoreComponents& store,
                                             const BegunAttempt& begun,
                                             const SaveSpec& spec, bool sync) {
  CKPTDB_RETURN_IF_ERROR(store.committer->WriteAttempt(begun, sync));
  Store::Attempt handle;
  handle.version = begun.attempt.version;
  // The folder is made after the attempt's record is written, because a store
  // must not contain data without a record. A stager looks for the folder to
  // see whether the attempt is in progress.
  CKPTDB_RETURN_IF_ERROR(
      MakeFolders(store.folder->files(),
                  store.folder->StagingFolder(handle.version.attempt)));
  CKPTDB_ASSIGN_OR_RETURN(handle.tickets, MakeTickets(store, begun, spec));
  return handle;
}

}  // namespace

absl::StatusOr<Store::Attempt> BeginSave(const StoreComponents& store,
                                         const SaveSpec& spec, bool sync) {
  const MutexLock turn(store.committer->changes());
  CKPTDB_RETURN_IF_ERROR(store.folder->database().status());
  CKPTDB_RETURN_IF_ERROR(CheckSaveSpec(spec));
  // Publish checks this again; this early check spares ranks from staging in
  // vain.
  CKPTDB_RETURN_IF_ERROR(store.catalog->CheckStepAvailable(spec));
  CKPTDB_RETURN_IF_ERROR(store.folder->CheckSaveSpace(kBatchOverhead));
  CKPTDB_ASSIGN_OR_RETURN(
      const BegunAttempt begun,
      store.catalog->BeginSave(
          spec, spec.begun_at_micros.value_or(store.folder->NowMicros())));
  absl::StatusOr<Store::Attempt> handle =
      RecordAttempt(store, begun, spec, sync);
  // If the attempt's record was written, the next sweep removes it.
  absl::Status status = handle.status();
  if (status.ok()) status = store.folder->HitCrashPoint(point::kBegun);
  if (status.ok()) return handle;
  store.catalog->EndSave(begun.attempt.version).IgnoreError();
  return status;
}

absl::Status AbandonSave(const StoreComponents& store, const Version& version) {
  const MutexLock turn(store.committer->changes());
  // Nothing is written: the sweep removes the attempt's record and its files.
  CKPTDB_RETURN_IF_ERROR(store.catalog->EndSave(version));
  store.requests->Request();
  return absl::OkStatus();
}

absl::StatusOr<SaveResult> PublishSave(const StoreComponents& store,
                                       const Version& version,
                                       absl::Span<const StagedRank> ranks,
                                       const SaveSpec& spec) {
  // Errors are listed in skipped_posts, and do not fail a save. TakePosts
  // acquires changes() itself, so it is called first.
  if (spec.take_posts) store.posts->TakePosts().IgnoreError();
  const MutexLock turn(store.committer->changes());
  const int64_t started = store.folder->NowMicros();
  CKPTDB_RETURN_IF_ERROR(store.folder->database().status());
  CKPTDB_ASSIGN_OR_RETURN(const SaveInProgress save,
                          store.catalog->FindSave(version));
  // 3a. Check.
  CKPTDB_ASSIGN_OR_RETURN(Commit commit,
                          BuildCommit(store, version, save, ranks, spec));
  CKPTDB_RETURN_IF_ERROR(store.committer->CheckDiskSpace(commit));
  CKPTDB_RETURN_IF_ERROR(store.folder->HitCrashPoint(point::kChecked));
  SaveResult result = ResultOf(commit, spec.bounds);
  CKPTDB_RETURN_IF_ERROR(store.committer->CommitStep(std::move(commit)));
  result.commit_micros = store.folder->NowMicros() - started;
  return result;
}

absl::StatusOr<SaveResult> SaveAlone(const StoreComponents& store,
                                     const SaveSpec& spec,
                                     const RankState& state) {
  if (spec.world_size != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Store::Save takes a world size of 1, not ", spec.world_size,
        "; use Begin, Stage and Publish for several ranks"));
  }
  const int64_t started = store.folder->NowMicros();
  // No other process stages for this attempt, so its record need not be durable
  // before files are ingested, and a small save is one write.
  CKPTDB_ASSIGN_OR_RETURN(const Store::Attempt handle,
                          BeginSave(store, spec, /*sync=*/false));
  absl::StatusOr<StagedRank> staged = Stage(
      store.folder->path(), handle.tickets[0], state, store.folder->options());
  const int64_t stage_micros = store.folder->NowMicros() - started;
  absl::StatusOr<SaveResult> result =
      staged.ok() ? PublishSave(store, handle.version, {&*staged, 1}, spec)
                  : staged.status();
  if (result.ok()) {
    result->stage_micros = stage_micros;
    return result;
  }
  // NotFound means that nothing is left to abandon.
  AbandonSave(store, handle.version).IgnoreError();
  return result;
}

}  // namespace ckptdb::internal
