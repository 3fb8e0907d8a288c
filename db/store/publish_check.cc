// The checks of a save: what Begin is asked for, and what Publish is given.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ckptdb/db/base/paths.h"
#include "ckptdb/db/disk/files.h"
#include "ckptdb/db/disk/rocks_status.h"
#include "ckptdb/db/meta/completeness.h"
#include "ckptdb/db/meta/consistency.h"
#include "ckptdb/db/meta/lineage.h"
#include "ckptdb/db/store/store_impl.h"
#include "ckptdb/schema/limits.h"
#include "ckptdb/schema/names.h"
#include "ckptdb/schema/page.h"
#include "ckptdb/schema/status.h"

#ifndef CKPTDB_VERSION
#error "the build names the library's version"
#endif

namespace ckptdb {

absl::Status internal::CheckMetrics(const Metrics& metrics) {
  if (metrics.size() > kMaxMetrics) {
    return absl::InvalidArgumentError(
        absl::StrCat(metrics.size(), " metrics; the limit is ", kMaxMetrics));
  }
  for (const auto& [name, value] : metrics) {
    CKPTDB_RETURN_IF_ERROR(CheckName("metric name", name));
  }
  return absl::OkStatus();
}

absl::Status internal::CheckUserMetadata(const UserMetadata& metadata) {
  uint64_t bytes = 0;
  for (const auto& [name, value] : metadata) {
    CKPTDB_RETURN_IF_ERROR(CheckName("metadata name", name));
    bytes += name.size() + value.size();
  }
  if (bytes <= kMaxMetadataBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "user metadata of ", bytes, " bytes; the limit is ", kMaxMetadataBytes));
}

// The comparison is false for a NaN, which is rejected too.
absl::Status internal::CheckChainBounds(const ChainBounds& bounds) {
  if (bounds.max_delta_ratio >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("ChainBounds::max_delta_ratio is ", bounds.max_delta_ratio,
                   "; it must be at least 0"));
}

namespace {

absl::Status Bad(absl::string_view why) {
  return absl::InvalidArgumentError(why);
}

absl::Status CheckBounds(const SaveSpec& spec) {
  const std::vector<uint32_t>& bounds = spec.slice_bounds;
  if (bounds.empty()) return absl::OkStatus();
  const bool right = bounds.size() == spec.world_size + size_t{1} &&
                     bounds.front() == 0 && bounds.back() == kSlices &&
                     std::is_sorted(bounds.begin(), bounds.end());
  if (right) return absl::OkStatus();
  return Bad(absl::StrCat("slice bounds [", absl::StrJoin(bounds, ", "),
                          "] do not rise from 0 to ", kSlices, " in ",
                          spec.world_size, " ranges"));
}

absl::Status CheckTime(absl::string_view what, std::optional<int64_t> micros) {
  if (micros.value_or(0) >= 0) return absl::OkStatus();
  return Bad(absl::StrCat(what, " ", *micros, " is below 0"));
}

absl::Status CheckPublishSpec(const PublishSpec& spec) {
  CKPTDB_RETURN_IF_ERROR(internal::CheckMetrics(spec.metrics));
  CKPTDB_RETURN_IF_ERROR(
      CheckTime("committed_at_micros", spec.committed_at_micros));
  CKPTDB_RETURN_IF_ERROR(internal::CheckChainBounds(spec.bounds));
  return internal::CheckUserMetadata(spec.user_metadata);
}

}  // namespace

absl::Status Store::Impl::CheckSpec(const SaveSpec& spec) const {
  if (spec.step < 0)
    return Bad(absl::StrCat("step ", spec.step, " is below 0"));
  CKPTDB_RETURN_IF_ERROR(CheckTime("begun_at_micros", spec.begun_at_micros));
  if (spec.world_size == 0 || spec.world_size > kMaxWorldSize) {
    return Bad(absl::StrCat("world size ", spec.world_size, " is not in 1 to ",
                            kMaxWorldSize));
  }
  CKPTDB_RETURN_IF_ERROR(CheckBounds(spec));
  return CheckFree(spec);
}

// The step is free to be taken.
absl::Status Store::Impl::CheckFree(const SaveSpec& spec) const {
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  if (spec.overwrite) return absl::OkStatus();
  const auto found = catalog_.steps.find(spec.step);
  if (found == catalog_.steps.end()) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(path_, ": step ", spec.step,
                                               " exists, as attempt ",
                                               found->second.version.attempt));
}

absl::Status Store::Impl::CheckStaged(const Version& version,
                                      const Progress& progress,
                                      const StagedRank& staged) const {
  const std::string place = absl::StrCat("staged rank ", staged.rank);
  if (staged.uuid != uuid_) {
    return Bad(
        absl::StrCat(place, " is of store ", staged.uuid, ", not of ", uuid_));
  }
  if (staged.version != version) {
    return Bad(absl::StrCat(place, " is of ", ToString(staged.version),
                            ", not of ", ToString(version)));
  }
  if (staged.world_size != progress.spec.world_size) {
    return Bad(absl::StrCat(place, " is of a world of ", staged.world_size,
                            ", not of ", progress.spec.world_size));
  }
  return CheckFiles(staged);
}

absl::Status Store::Impl::CheckFiles(const StagedRank& staged) const {
  const std::string folder = absl::StrCat(
      internal::StagingOf(staged.version.attempt), "/", staged.rank, "/");
  for (const StagedFile& file : staged.files) {
    if (!absl::StartsWith(file.path, folder) ||
        absl::StrContains(file.path, "..")) {
      return Bad(absl::StrCat("staged file \"", file.path, "\" is not below \"",
                              folder, "\""));
    }
    const std::string path = absl::StrCat(path_, "/", file.path);
    uint64_t bytes = 0;
    CKPTDB_RETURN_IF_ERROR(internal::FromRocksRead(
        database_->files()->GetFileSize(path, rocksdb::IOOptions(), &bytes,
                                        nullptr),
        absl::StrCat("staged file \"", path, "\"")));
    if (bytes != file.bytes) {
      return absl::DataLossError(
          absl::StrCat("staged file \"", path, "\" has ", bytes,
                       " bytes, not the ", file.bytes, " that were written"));
    }
  }
  return absl::OkStatus();
}

absl::Status Store::Impl::AddRank(const StagedRank& staged,
                                  Commit* commit) const {
  const std::string place = absl::StrCat("staged rank ", staged.rank);
  absl::StatusOr<RankRecord> record = DecodeRankRecord(staged.rank_record);
  CKPTDB_RETURN_IF_ERROR(internal::Annotate(record.status(), place));
  if (record->version != staged.version || record->rank != staged.rank) {
    return Bad(absl::StrCat(place, " has the record of ",
                            ToString(record->version), " rank ", record->rank));
  }
  uint64_t inline_bytes = 0;
  for (const auto& [key, value] : staged.inline_entries) {
    const absl::StatusOr<DataKey> parsed = ParseDataKey(key);
    CKPTDB_RETURN_IF_ERROR(internal::Annotate(parsed.status(), place));
    if (parsed->version != staged.version || parsed->rank != staged.rank) {
      return Bad(
          absl::StrCat(place, " has an entry of ", DescribeDataKey(key)));
    }
    inline_bytes += key.size() + value.size();
  }
  const uint64_t share = InlineShareBytes(staged.world_size);
  if (inline_bytes > share) {
    return Bad(absl::StrCat(place, " has entries of ", inline_bytes,
                            " bytes for the write batch; the limit of each of ",
                            staged.world_size, " ranks is ", share));
  }
  CKPTDB_RETURN_IF_ERROR(
      internal::Annotate(internal::CheckComplete(staged, *record), place));
  commit->inline_bytes += inline_bytes;
  for (const StagedFile& file : staged.files) {
    commit->files.push_back(absl::StrCat(path_, "/", file.path));
  }
  commit->ranks[staged.rank] = *std::move(record);
  commit->rank_bytes[staged.rank] = staged.rank_record;
  commit->staged[staged.rank] = &staged;
  return absl::OkStatus();
}

absl::Status Store::Impl::AddRetired(const Progress& progress,
                                     const PublishSpec& spec,
                                     Commit* commit) const {
  std::set<int64_t> steps(spec.retire.begin(), spec.retire.end());
  const std::lock_guard<std::mutex> lock(catalog_mutex_);
  if (progress.spec.parent.has_value() &&
      progress.spec.abandoned == AbandonedBranch::kRemove) {
    for (const StepRecord& gone :
         internal::DescendantsOf(catalog_, commit->step_parent)) {
      if (gone.version.step != progress.spec.step) {
        steps.insert(gone.version.step);
      }
    }
  }
  for (const int64_t step : steps) {
    if (step == progress.spec.step) {
      return Bad(absl::StrCat("step ", step, " cannot be retired by itself"));
    }
    CKPTDB_ASSIGN_OR_RETURN(const StepRecord record,
                            internal::Annotate(catalog_.FindStep(step), path_));
    if (record.pinned) {
      return absl::FailedPreconditionError(
          absl::StrCat(path_, ": step ", step, " is pinned"));
    }
    commit->retired.push_back(record);
    commit->removed_steps.push_back(step);
  }
  const auto replaced = catalog_.steps.find(progress.spec.step);
  if (replaced != catalog_.steps.end()) {
    if (replaced->second.pinned) {
      return absl::FailedPreconditionError(
          absl::StrCat(path_, ": step ", progress.spec.step, " is pinned"));
    }
    commit->retired.push_back(replaced->second);
  }
  return absl::OkStatus();
}

void Store::Impl::FillStep(const Version& version, const Progress& progress,
                           const PublishSpec& spec, Commit* commit) const {
  StepRecord& step = commit->step;
  step.version = version;
  step.store_uuid = uuid_;
  step.has_parent = commit->step_parent.version.attempt != 0;
  step.parent = commit->step_parent.version;
  if (step.has_parent) step.parent_digest = LineageDigest(commit->step_parent);
  {
    const std::lock_guard<std::mutex> lock(catalog_mutex_);
    step.branches =
        internal::BranchesOver(catalog_, commit->step_parent, version.attempt);
  }
  step.world_size = progress.spec.world_size;
  step.slice_bounds = progress.spec.slice_bounds;
  step.committed_at_micros =
      spec.committed_at_micros.value_or(environment_->NowMicros());
  step.save_micros = step.committed_at_micros - progress.begun_at_micros;
  step.ephemeral = spec.ephemeral;
  step.metrics = spec.metrics;
  step.user_metadata = spec.user_metadata;
  step.library_version = CKPTDB_VERSION;
  std::set<Version> references;
  for (const RankRecord& rank : commit->ranks) {
    step.rank_digests.push_back(HashBytes(commit->rank_bytes[rank.rank]));
    for (const Item& item : rank.items) {
      ++step.items;
      step.rows += item.rows;
      step.raw_bytes += item.raw_bytes;
      if (item.data == version) step.stored_bytes += item.stored_bytes;
      if (item.data != version) references.insert(item.data);
    }
  }
  step.references.assign(references.begin(), references.end());
}

uint64_t Store::Impl::BatchBytes(const Commit& commit) {
  uint64_t bytes = commit.inline_bytes;
  for (const std::string& rank : commit.rank_bytes) bytes += rank.size();
  for (const auto& [key, value] : commit.records) bytes += value.size();
  return bytes;
}

absl::StatusOr<Store::Impl::Commit> Store::Impl::Check(
    const Version& version, const Progress& progress,
    absl::Span<const StagedRank> ranks, const PublishSpec& spec) {
  CKPTDB_RETURN_IF_ERROR(CheckFree(progress.spec));
  CKPTDB_RETURN_IF_ERROR(CheckPublishSpec(spec));
  const uint32_t world_size = progress.spec.world_size;
  Commit commit;
  commit.ranks.resize(world_size);
  commit.rank_bytes.resize(world_size);
  commit.staged.resize(world_size);
  for (const StagedRank& staged : ranks) {
    CKPTDB_RETURN_IF_ERROR(CheckStaged(version, progress, staged));
    if (staged.rank >= world_size) {
      return Bad(absl::StrCat("staged rank ", staged.rank,
                              " is not below the world size ", world_size));
    }
    if (commit.staged[staged.rank] != nullptr) {
      return Bad(absl::StrCat("rank ", staged.rank, " is there twice"));
    }
    CKPTDB_RETURN_IF_ERROR(AddRank(staged, &commit));
  }
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < world_size; ++rank) {
    if (commit.staged[rank] == nullptr) missing.push_back(rank);
  }
  if (!missing.empty()) {
    return Bad(absl::StrCat("ranks ", absl::StrJoin(missing, ", "), " of ",
                            world_size, " are missing"));
  }
  CKPTDB_RETURN_IF_ERROR(internal::CheckRanksAgree(commit.ranks));
  CKPTDB_RETURN_IF_ERROR(AddParent(progress, &commit));
  CKPTDB_RETURN_IF_ERROR(AddRetired(progress, spec, &commit));
  FillStep(version, progress, spec, &commit);
  CKPTDB_RETURN_IF_ERROR(AddChain(progress, &commit));
  CKPTDB_RETURN_IF_ERROR(AddRecords(&commit));
  CKPTDB_RETURN_IF_ERROR(internal::CheckFreeBytes(
      database_->files().get(), path_,
      BatchBytes(commit) * internal::kBatchCopies + internal::kBatchOverhead,
      options_.reserve_bytes));
  return commit;
}

}  // namespace ckptdb
