// SPDX-License-Identifier: Apache-2.0
#include "db/store/commit_builder.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ckptdb/version.h"
#include "db/base/paths.h"
#include "db/disk/rocks_status.h"
#include "db/meta/completeness.h"
#include "db/meta/consistency.h"
#include "db/meta/lineage.h"
#include "db/stage/published_blobs.h"
#include "db/store/save_checks.h"
#include "db/store/step_catalog.h"
#include "db/store/store_folder.h"
#include "db/store/table_summaries.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/limits.h"
#include "schema/records/records.h"
#include "schema/records/shards.h"
#include "schema/records/staged.h"
#include "schema/records/table_schema.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

// The error of an argument or of a staged part. Nothing has been written yet,
// so the attempt can be published again.
absl::Status Refused(absl::string_view why) {
  return absl::InvalidArgumentError(why);
}

std::string PlaceOf(const StagedRecord& staged) {
  return absl::StrCat("staged rank ", staged.rank);
}

// The part and the rank record in it both name a version and a rank, which must
// be the same.
absl::Status CheckRecord(const StagedRecord& staged,
                         const StepRecord::Rank& record) {
  if (record.version == staged.version && record.rank == staged.rank) {
    return absl::OkStatus();
  }
  return Refused(absl::StrCat(PlaceOf(staged), " has the record of ",
                              ToString(record.version), " rank ", record.rank,
                              ", expected ", ToString(staged.version), " rank ",
                              staged.rank));
}

// Makes the commit of one publish.
class CommitBuilder {
 public:
  // All arguments but `version` must outlive this object.
  CommitBuilder(const StoreComponents& store, const Version& version,
                const SaveInProgress& save)
      : folder_(*store.folder),
        catalog_(*store.catalog),
        summaries_(store.summaries),
        version_(version),
        save_(save) {}

  absl::StatusOr<Commit> Build(absl::Span<const StagedRank> ranks,
                               const SaveSpec& spec) &&;

 private:
  absl::Status AddRanks(absl::Span<const StagedRank> ranks);
  absl::Status CheckStaged(const StagedRecord& staged) const;
  absl::Status CheckFiles(const StagedRecord& staged) const;
  absl::Status AddEntries(const StagedRecord& staged);
  absl::Status AddRank(const StagedRecord& staged);
  absl::Status AddBlobs(const SaveSpec& spec);
  absl::Status AddParent();
  absl::Status AddRetired(const SaveSpec& spec);
  absl::Status RetireSteps(const Catalog& records,
                           const std::vector<int64_t>& retire);
  void RetireReplaced(const Catalog& records);
  void FillStep(const SaveSpec& spec);

  // Sets the step's kind, chain and bytes, and adds the versions it refers to.
  absl::Status AddChain();
  absl::Status ExtendChain(const TableSummaries& own);
  absl::StatusOr<size_t> AddOldRuns(const Item& table, std::set<Version>* data);
  void AddReferences(const std::set<Version>& data);

  const StoreFolder& folder_;
  const StepCatalog& catalog_;
  TableSummaryCache* const summaries_;
  const Version version_;
  const SaveInProgress& save_;
  Commit commit_;
  std::vector<StepRecord> parent_chain_;
};

absl::StatusOr<Commit> CommitBuilder::Build(absl::Span<const StagedRank> ranks,
                                            const SaveSpec& spec) && {
  // Another save of the step may have been published since Begin checked this.
  CKPTDB_RETURN_IF_ERROR(catalog_.CheckStepAvailable(save_.spec));
  CKPTDB_RETURN_IF_ERROR(CheckPublication(spec));
  CKPTDB_RETURN_IF_ERROR(AddRanks(ranks));
  CKPTDB_RETURN_IF_ERROR(AddBlobs(spec));
  CKPTDB_RETURN_IF_ERROR(CheckRanksAgree(commit_.ranks));
  // AddRetired finds the steps of an abandoned branch by the parent, and
  // AddChain adds to the references that FillStep sets.
  CKPTDB_RETURN_IF_ERROR(AddParent());
  CKPTDB_RETURN_IF_ERROR(AddRetired(spec));
  FillStep(spec);
  CKPTDB_RETURN_IF_ERROR(Annotate(AddChain(), folder_.path()));
  CKPTDB_RETURN_IF_ERROR(EncodeRecords(&commit_));
  return std::move(commit_);
}

// Orders the parts by rank. A part is checked before its record is decoded, so
// that a part of another store or attempt is not reported as damaged.
absl::Status CommitBuilder::AddRanks(absl::Span<const StagedRank> ranks) {
  const uint32_t world_size = save_.spec.world_size;
  commit_.ranks.resize(world_size);
  commit_.rank_bytes.resize(world_size);
  commit_.staged.resize(world_size);
  for (const StagedRank& part : ranks) {
    const StagedRecord& staged = part.record();
    CKPTDB_RETURN_IF_ERROR(CheckStaged(staged));
    CKPTDB_RETURN_IF_ERROR(AddRank(staged));
  }
  // A job that lost a host lost several ranks, so all are named.
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < world_size; ++rank) {
    if (commit_.staged[rank] == nullptr) missing.push_back(rank);
  }
  if (missing.empty()) return absl::OkStatus();
  return Refused(absl::StrCat("missing ranks ", absl::StrJoin(missing, ", "),
                              " of world size ", world_size));
}

// Checks that a part belongs to this store, attempt and world size, and that no
// other has its rank.
absl::Status CommitBuilder::CheckStaged(const StagedRecord& staged) const {
  const std::string place = PlaceOf(staged);
  const uint32_t world_size = save_.spec.world_size;
  if (staged.uuid != folder_.uuid()) {
    return Refused(absl::StrCat(place, " belongs to store ", staged.uuid,
                                ", expected ", folder_.uuid()));
  }
  if (staged.version != version_) {
    return Refused(absl::StrCat(place, " was staged for ",
                                ToString(staged.version), ", expected ",
                                ToString(version_)));
  }
  if (staged.world_size != world_size) {
    return Refused(absl::StrCat(place, " has world size ", staged.world_size,
                                ", expected ", world_size));
  }
  CKPTDB_RETURN_IF_ERROR(CheckFiles(staged));
  if (staged.rank >= world_size) {
    return Refused(
        absl::StrCat(place, " is not below the world size ", world_size));
  }
  if (commit_.staged[staged.rank] == nullptr) return absl::OkStatus();
  return Refused(absl::StrCat("duplicate rank ", staged.rank));
}

// Another process made the record: its paths must stay in the staging folder,
// and the files must still be as they were written.
absl::Status CommitBuilder::CheckFiles(const StagedRecord& staged) const {
  const std::string folder =
      absl::StrCat(StagingOf(staged.version.attempt), "/", staged.rank, "/");
  for (const StagedFile& file : staged.files) {
    if (!absl::StartsWith(file.path, folder) ||
        absl::StrContains(file.path, "..")) {
      return Refused(absl::StrCat("staged file \"", file.path,
                                  "\" is not below \"", folder, "\""));
    }
    const std::string path = absl::StrCat(folder_.path(), "/", file.path);
    uint64_t bytes = 0;
    CKPTDB_RETURN_IF_ERROR(
        FromRocksRead(folder_.files()->GetFileSize(path, rocksdb::IOOptions(),
                                                   &bytes, nullptr),
                      absl::StrCat("staged file \"", path, "\"")));
    // The size suffices: blocks have checksums, and CheckComplete compares the
    // number of entries.
    if (bytes != file.bytes) {
      return absl::DataLossError(absl::StrCat(
          "staged file \"", path, "\" has ", bytes, " bytes, expected ",
          file.bytes, "; it was truncated or replaced after staging"));
    }
  }
  return absl::OkStatus();
}

// Counts the inline entries, and checks that they are the rank's.
absl::Status CommitBuilder::AddEntries(const StagedRecord& staged) {
  const std::string place = PlaceOf(staged);
  uint64_t bytes = 0;
  for (const auto& [key, value] : staged.inline_entries) {
    // An entry under a key of another version would overwrite that version's
    // data in the batch.
    const absl::StatusOr<DataKey> parsed = ParseDataKey(key);
    CKPTDB_RETURN_IF_ERROR(Annotate(parsed.status(), place));
    if (parsed->version != staged.version || parsed->rank != staged.rank) {
      return Refused(absl::StrCat(
          place, " has an entry of ", DescribeDataKey(key), ", expected ",
          ToString(staged.version), " rank ", staged.rank));
    }
    bytes += key.size() + value.size();
  }
  commit_.inline_bytes += bytes;
  // The share bounds the commit's write batch for any number of ranks.
  const uint64_t share = InlineShareBytes(staged.world_size);
  if (bytes <= share) return absl::OkStatus();
  return Refused(absl::StrCat(place, " has ", bytes,
                              " bytes of inline entries; the limit of each of ",
                              staged.world_size, " ranks is ", share));
}

// Decodes and checks the part of one rank and adds it to the commit, with the
// rank record's bytes as the stager encoded them: these are stored and
// digested.
absl::Status CommitBuilder::AddRank(const StagedRecord& staged) {
  const std::string place = PlaceOf(staged);
  absl::StatusOr<StepRecord::Rank> record =
      DecodeRankRecord(staged.rank_record);
  CKPTDB_RETURN_IF_ERROR(Annotate(record.status(), place));
  CKPTDB_RETURN_IF_ERROR(CheckRecord(staged, *record));
  CKPTDB_RETURN_IF_ERROR(AddEntries(staged));
  // Without a file that its part lost, the step could not be read.
  CKPTDB_RETURN_IF_ERROR(Annotate(CheckComplete(staged, *record), place));
  for (const StagedFile& file : staged.files) {
    commit_.files.push_back(absl::StrCat(folder_.path(), "/", file.path));
  }
  commit_.ranks[staged.rank] = *std::move(record);
  commit_.rank_bytes[staged.rank] = staged.rank_record;
  commit_.staged[staged.rank] = &staged;
  return absl::OkStatus();
}

absl::Status CommitBuilder::AddBlobs(const SaveSpec& spec) {
  if (spec.blobs.empty()) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(PublishedBlobs blobs,
                          MakeBlobs(version_, spec.blobs));
  std::vector<Item>& items = commit_.ranks[0].items;
  for (Item& blob : blobs.items) {
    const auto at =
        std::lower_bound(items.begin(), items.end(), blob, ItemLess);
    if (at != items.end() && !ItemLess(blob, *at)) {
      return Refused(absl::StrCat("blob \"", blob.name,
                                  "\" of SaveSpec::blobs was also staged by "
                                  "rank 0; give one of them another name"));
    }
    items.insert(at, std::move(blob));
  }
  CKPTDB_ASSIGN_OR_RETURN(commit_.rank_bytes[0],
                          EncodeRankRecord(commit_.ranks[0]));
  commit_.blob_entries = std::move(blobs.entries);
  for (const auto& [key, value] : commit_.blob_entries) {
    commit_.inline_bytes += key.size() + value.size();
  }
  return absl::OkStatus();
}

// Looks the parent up again: it may have been folded or removed since Begin.
absl::Status CommitBuilder::AddParent() {
  // A save that names no parent got the newest step at Begin. It saves all
  // rows, so it may keep that parent although another step is newer by now.
  commit_.parent = save_.parent;
  if (!save_.spec.parent.has_value()) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(commit_.parent,
                          Annotate(catalog_.Read([&](const Catalog& records) {
                            return FindParent(records, save_.spec);
                          }),
                                   folder_.path()));
  return absl::OkStatus();
}

// Looks both up at once, under one lock. The caller holds Committer::changes(),
// so neither changes before the commit.
absl::Status CommitBuilder::AddRetired(const SaveSpec& spec) {
  return catalog_.Read([&](const Catalog& records) -> absl::Status {
    CKPTDB_RETURN_IF_ERROR(RetireSteps(records, spec.retire));
    RetireReplaced(records);
    return absl::OkStatus();
  });
}

// Retires the steps that retention names, and those of an abandoned branch. A
// pinned step stays in the abandoned branch: a pin must not block the saves of
// the branch that replaces it.
absl::Status CommitBuilder::RetireSteps(const Catalog& records,
                                        const std::vector<int64_t>& retire) {
  const int64_t own = version_.step;
  // Both may name a step, which is removed once.
  std::set<int64_t> steps(retire.begin(), retire.end());
  if (save_.spec.parent.has_value() &&
      save_.spec.abandoned == SaveSpec::Abandoned::kRemove) {
    for (const StepRecord& gone : DescendantsOf(records, commit_.parent)) {
      // The step that this save replaces is retired by RetireReplaced.
      if (gone.version.step == own || gone.pinned) continue;
      steps.insert(gone.version.step);
    }
  }
  for (const int64_t step : steps) {
    if (step == own) {
      return Refused(absl::StrCat(
          "step ", step, " cannot be retired by the save that replaces it"));
    }
    CKPTDB_ASSIGN_OR_RETURN(const StepRecord record,
                            Annotate(records.FindStep(step), folder_.path()));
    if (record.pinned) return Annotate(PinnedError(record), folder_.path());
    commit_.retired.push_back(record);
    // The batch deletes its key. The key of a replaced step stays, with the new
    // record.
    commit_.removed_steps.push_back(step);
  }
  return absl::OkStatus();
}

// Retires the version that this save overwrites. If that is pinned, it is also
// quarantined, because CheckStepAvailable has refused others; the pin passes to
// the new version.
void CommitBuilder::RetireReplaced(const Catalog& records) {
  const auto replaced = records.steps.find(version_.step);
  if (replaced == records.steps.end()) return;
  commit_.step.pinned = replaced->second.pinned;
  commit_.retired.push_back(replaced->second);
}

void CommitBuilder::FillStep(const SaveSpec& spec) {
  StepRecord& step = commit_.step;
  step.version = version_;
  step.store_uuid = folder_.uuid();
  // Attempt 0 stands for no parent.
  step.has_parent = commit_.parent.version.attempt != 0;
  step.parent = commit_.parent.version;
  // The digest covers all ancestors, so a chain cannot mix versions of two
  // runs.
  if (step.has_parent) step.parent_digest = LineageDigest(commit_.parent);
  step.branches = catalog_.Read([&](const Catalog& records) {
    return BranchesOver(records, commit_.parent, version_.attempt);
  });
  step.owners =
      OwnersOver(commit_.parent, version_.attempt, folder_.owner_id());
  step.world_size = save_.spec.world_size;
  step.slice_bounds = save_.spec.slice_bounds;
  step.committed_at_micros =
      spec.committed_at_micros.value_or(folder_.NowMicros());
  step.save_micros = step.committed_at_micros - save_.begun_at_micros;
  step.ephemeral = spec.ephemeral;
  step.metrics = spec.metrics;
  step.user_metadata = spec.user_metadata;
  step.library_version = CKPTDB_VERSION;
  SumRanks(&commit_);
}

absl::Status CommitBuilder::AddChain() {
  StepRecord& step = commit_.step;
  // A table saved in full needs no older version. One table of changed rows
  // makes the step a delta.
  step.chain = {step.version};
  const TableSummaries own = SummarizeTables(commit_.ranks);
  for (const auto& [name, table] : own) {
    const bool delta = table.item.run == Item::Run::kDelta;
    if (delta) step.kind = StepRecord::Kind::kDelta;
    (delta ? step.delta_bytes : step.base_bytes) += table.stored_bytes;
  }
  return step.kind == StepRecord::Kind::kFull ? absl::OkStatus()
                                              : ExtendChain(own);
}

// Begins the chain at the oldest base run that a table needs.
absl::Status CommitBuilder::ExtendChain(const TableSummaries& own) {
  if (!save_.spec.parent.has_value()) {
    return absl::InvalidArgumentError("a delta save requires SaveSpec::parent");
  }
  // Checks the lineage of all members, so that no save extends a chain that
  // cannot be restored.
  CKPTDB_ASSIGN_OR_RETURN(parent_chain_,
                          catalog_.Read([&](const Catalog& records) {
                            return ChainOf(records, commit_.parent);
                          }));
  StepRecord& step = commit_.step;
  std::set<Version> data;
  size_t first = parent_chain_.size();
  for (const auto& [name, table] : own) {
    if (table.item.run == Item::Run::kBase) continue;
    CKPTDB_ASSIGN_OR_RETURN(const size_t base, AddOldRuns(table.item, &data));
    first = std::min(first, base);
  }
  step.chain.clear();
  for (size_t i = first; i < parent_chain_.size(); ++i) {
    // Members whose tables are not needed stay, because each lineage digest
    // vouches for the parent before it.
    step.chain.push_back(parent_chain_[i].version);
  }
  step.chain.push_back(step.version);
  AddReferences(data);
  return absl::OkStatus();
}

// Adds the runs below the changed rows of a table, down to its base run.
// Returns the index of the base run's version in the parent's chain.
absl::StatusOr<size_t> CommitBuilder::AddOldRuns(const Item& table,
                                                 std::set<Version>* data) {
  StepRecord& step = commit_.step;
  const auto refuse = [&](absl::string_view why) {
    // Not DataLoss: the table can be saved in full.
    return absl::FailedPreconditionError(
        absl::StrCat("changes of table \"", table.name, "\" over parent ",
                     ToString(step.parent), ": ", why));
  };
  size_t member = parent_chain_.size();
  for (bool base = false; !base;) {
    if (member == 0) return refuse("the base run is missing");
    CKPTDB_ASSIGN_OR_RETURN(
        const auto tables,
        summaries_->Load(folder_.database(), parent_chain_[--member]));
    const auto found = tables->find(table.name);
    if (found == tables->end())
      return refuse("it has no such table; save the table in full");
    const TableSummary& old = found->second;
    if (!SameSchema(old.item, table.slots, table.slice_hash)) {
      return refuse(
          "its schema differs from the parent's; save the table in full");
    }
    base = old.item.run == Item::Run::kBase;
    (base ? step.base_bytes : step.delta_bytes) += old.stored_bytes;
    data->insert(old.data.begin(), old.data.end());
  }
  return member;
}

// Adds the versions outside the chain that hold its runs: a folded step borrows
// the tables that were saved in full from the version that was folded, which is
// in no chain.
void CommitBuilder::AddReferences(const std::set<Version>& data) {
  StepRecord& step = commit_.step;
  std::set<Version> references = data;
  for (const Version& member : step.chain) references.erase(member);
  references.insert(step.references.begin(), step.references.end());
  step.references.assign(references.begin(), references.end());
}

}  // namespace

absl::StatusOr<Commit> BuildCommit(const StoreComponents& store,
                                   const Version& version,
                                   const SaveInProgress& save,
                                   absl::Span<const StagedRank> ranks,
                                   const SaveSpec& spec) {
  return CommitBuilder(store, version, save).Build(ranks, spec);
}

}  // namespace ckptdb::internal
