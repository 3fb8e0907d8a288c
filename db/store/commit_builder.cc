#include "ckptdb/db/store/commit_builder.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ckptdb/db/base/paths.h"
#include "ckptdb/db/disk/rocks_status.h"
#include "ckptdb/db/meta/completeness.h"
#include "ckptdb/db/meta/consistency.h"
#include "ckptdb/db/meta/lineage.h"
#include "ckptdb/db/store/commit_chain.h"
#include "ckptdb/db/store/save_checks.h"
#include "ckptdb/schema/bytes/annotate.h"
#include "ckptdb/schema/bytes/keys.h"
#include "ckptdb/schema/bytes/limits.h"
#include "ckptdb/schema/records/records.h"
#include "ckptdb/schema/records/staged.h"
#include "ckptdb/schema/status.h"
#include "ckptdb/schema/types.h"
#include "ckptdb/version.h"

namespace ckptdb::internal {
namespace {

// Returns the error of what the caller or a stager gave. Nothing has been
// written yet, so the same attempt can be published again.
absl::Status Refused(absl::string_view why) {
  return absl::InvalidArgumentError(why);
}

std::string PlaceOf(const internal::StagedRecord& staged) {
  return absl::StrCat("staged rank ", staged.rank);
}

}  // namespace

absl::StatusOr<Commit> CommitBuilder::Build(absl::Span<const StagedRank> ranks,
                                            const PublishSpec& spec) && {
  // Begin has checked this already, but another save of the step may have been
  // published since.
  CKPTDB_RETURN_IF_ERROR(catalog_.CheckStepAvailable(save_.spec));
  CKPTDB_RETURN_IF_ERROR(CheckPublishSpec(spec));
  CKPTDB_RETURN_IF_ERROR(AddRanks(ranks));
  CKPTDB_RETURN_IF_ERROR(CheckRanksAgree(commit_.ranks));
  // The parent comes before the retired steps, as those of an abandoned branch
  // are found from it. The chain comes after FillStep, whose references it adds
  // to.
  CKPTDB_RETURN_IF_ERROR(AddParent());
  CKPTDB_RETURN_IF_ERROR(AddRetired(spec));
  FillStep(spec);
  CKPTDB_RETURN_IF_ERROR(Annotate(AddChain(), folder_.path()));
  CKPTDB_RETURN_IF_ERROR(EncodeRecords(&commit_));
  return std::move(commit_);
}

// Puts the parts in the order of their ranks. A part is checked before its
// records are decoded, so that a part of another store or attempt is named as
// that and not as damage.
absl::Status CommitBuilder::AddRanks(absl::Span<const StagedRank> ranks) {
  const uint32_t world_size = save_.spec.world_size;
  commit_.ranks.resize(world_size);
  commit_.rank_bytes.resize(world_size);
  commit_.staged.resize(world_size);
  for (const StagedRank& part : ranks) {
    const internal::StagedRecord& staged = part.record();
    CKPTDB_RETURN_IF_ERROR(CheckStaged(staged));
    CKPTDB_RETURN_IF_ERROR(AddRank(staged));
  }
  // All missing ranks are named, as a job that lost a host lost several.
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < world_size; ++rank) {
    if (commit_.staged[rank] == nullptr) missing.push_back(rank);
  }
  if (missing.empty()) return absl::OkStatus();
  return Refused(absl::StrCat("missing ranks ", absl::StrJoin(missing, ", "),
                              " of world size ", world_size));
}

// Checks that a part is of this store, attempt and world size, and the only one
// of its rank.
absl::Status CommitBuilder::CheckStaged(
    const internal::StagedRecord& staged) const {
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
  // The rank is compared with the world size before it is used as an index.
  if (staged.rank >= world_size) {
    return Refused(
        absl::StrCat(place, " is not below the world size ", world_size));
  }
  if (commit_.staged[staged.rank] == nullptr) return absl::OkStatus();
  return Refused(absl::StrCat("duplicate rank ", staged.rank));
}

// The record comes from another process: its paths must not lead out of the
// staging folder, and the files must still be those that were written.
absl::Status CommitBuilder::CheckFiles(
    const internal::StagedRecord& staged) const {
  const std::string folder =
      absl::StrCat(StagingOf(staged.version.attempt), "/", staged.rank, "/");
  for (const internal::StagedFile& file : staged.files) {
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
    // The size is enough here: the blocks of a file have checksums, and
    // CheckComplete compares the number of entries.
    if (bytes != file.bytes) {
      return absl::DataLossError(absl::StrCat(
          "staged file \"", path, "\" has ", bytes, " bytes, expected ",
          file.bytes, "; it was cut or replaced after it was staged"));
    }
  }
  return absl::OkStatus();
}

// The envelope of a part and the rank record within it name the version and the
// rank independently, and both must be those of the save.
absl::Status CommitBuilder::CheckRecord(const internal::StagedRecord& staged,
                                        const StepRecord::Rank& record) const {
  if (record.version == staged.version && record.rank == staged.rank) {
    return absl::OkStatus();
  }
  return Refused(absl::StrCat(PlaceOf(staged), " has the record of ",
                              ToString(record.version), " rank ", record.rank,
                              ", expected ", ToString(staged.version), " rank ",
                              staged.rank));
}

// Counts the inline entries, and checks that they are the rank's.
absl::Status CommitBuilder::AddEntries(const internal::StagedRecord& staged) {
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
  // The limit bounds the one write batch of the commit, whatever the number of
  // ranks.
  const uint64_t share = InlineShareBytes(staged.world_size);
  if (bytes <= share) return absl::OkStatus();
  return Refused(absl::StrCat(place, " has ", bytes,
                              " bytes of inline entries; the limit of each of ",
                              staged.world_size, " ranks is ", share));
}

// Decodes and checks the part of one rank and adds it to the commit. The rank
// record is kept as the bytes that the stager made, so that its digest is of
// what is stored.
absl::Status CommitBuilder::AddRank(const internal::StagedRecord& staged) {
  const std::string place = PlaceOf(staged);
  absl::StatusOr<StepRecord::Rank> record =
      DecodeRankRecord(staged.rank_record);
  CKPTDB_RETURN_IF_ERROR(Annotate(record.status(), place));
  CKPTDB_RETURN_IF_ERROR(CheckRecord(staged, *record));
  CKPTDB_RETURN_IF_ERROR(AddEntries(staged));
  // A part that lost a file on its way would be committed as a step that cannot
  // be read.
  CKPTDB_RETURN_IF_ERROR(Annotate(CheckComplete(staged, *record), place));
  for (const internal::StagedFile& file : staged.files) {
    commit_.files.push_back(absl::StrCat(folder_.path(), "/", file.path));
  }
  commit_.ranks[staged.rank] = *std::move(record);
  commit_.rank_bytes[staged.rank] = staged.rank_record;
  commit_.staged[staged.rank] = &staged;
  return absl::OkStatus();
}

// The parent as it is now: it may have been folded since Begin, or be gone.
absl::Status CommitBuilder::AddParent() {
  // A save that names no parent was given the newest step at Begin. Its tables
  // are whole, so it does not matter that another step may be newer by now.
  commit_.parent = save_.parent;
  if (!save_.spec.parent.has_value()) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(commit_.parent,
                          Annotate(catalog_.Read([&](const Catalog& records) {
                            return FindParent(records, save_.spec);
                          }),
                                   folder_.path()));
  return absl::OkStatus();
}

// Both are looked up under one lock, so that they are of one moment. The caller
// has the turn to change records, so they stay true until the batch.
absl::Status CommitBuilder::AddRetired(const PublishSpec& spec) {
  return catalog_.Read([&](const Catalog& records) -> absl::Status {
    CKPTDB_RETURN_IF_ERROR(RetireSteps(records, spec.retire));
    RetireReplaced(records);
    return absl::OkStatus();
  });
}

// The steps that retention retires, and those of an abandoned branch except for
// pinned ones: a pin must not block the saves of the branch that replaces it.
absl::Status CommitBuilder::RetireSteps(const Catalog& records,
                                        const std::vector<int64_t>& retire) {
  const int64_t own = version_.step;
  // Retention and an abandoned branch may name the same step, which is removed
  // once.
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
    // Its key is deleted in the batch. That of a replaced step is not: the new
    // record takes its place.
    commit_.removed_steps.push_back(step);
  }
  return absl::OkStatus();
}

// Retires the version that the step has now, when the save overwrites it.
// CheckStepAvailable has refused a pinned one unless it is quarantined: then
// the pin passes to the version that replaces it.
void CommitBuilder::RetireReplaced(const Catalog& records) {
  const auto replaced = records.steps.find(version_.step);
  if (replaced == records.steps.end()) return;
  commit_.step.pinned = replaced->second.pinned;
  commit_.retired.push_back(replaced->second);
}

void CommitBuilder::FillStep(const PublishSpec& spec) {
  StepRecord& step = commit_.step;
  step.version = version_;
  step.store_uuid = folder_.uuid();
  // No version has attempt 0, so it stands for no parent.
  step.has_parent = commit_.parent.version.attempt != 0;
  step.parent = commit_.parent.version;
  // The digest covers the digests of all ancestors, so a chain cannot mix
  // versions of two runs.
  if (step.has_parent) step.parent_digest = LineageDigest(commit_.parent);
  step.branches = catalog_.Read([&](const Catalog& records) {
    return BranchesOver(records, commit_.parent, version_.attempt);
  });
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
  return ChainBuilder(folder_.database(), catalog_, summaries_,
                      save_.spec.parent.has_value(), &commit_)
      .Build();
}

}  // namespace ckptdb::internal
