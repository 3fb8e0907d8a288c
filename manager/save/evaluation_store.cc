// SPDX-License-Identifier: Apache-2.0
#include "manager/save/evaluation_store.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "db/base/call_guard.h"
#include "manager/ranks/messages.h"
#include "manager/ranks/tell_status.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/names.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

std::string Describe(const EvaluationState::Name& name) {
  return absl::StrCat("evaluation \"", name.evaluation, "\" of step ",
                      name.step);
}

// The tag contains the group, so that ranks with different groups fail.
std::string TagOf(absl::string_view call, const EvaluationState::Name& name) {
  return absl::StrCat(call, " ", Describe(name), ", group \"", name.group,
                      "\"");
}

absl::Status CheckLoader(const EvaluationState::Name& name,
                         const BlobState* loader) {
  if (loader != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Describe(name), ": the loader is null"));
}

// Returns the parts of all ranks, or the error of the lowest rank that has one;
// the error names the rank if there are several.
absl::StatusOr<std::vector<StepRecord::Evaluation>> DecodeParts(
    const std::vector<std::string>& messages) {
  std::vector<StepRecord::Evaluation> parts(messages.size());
  for (size_t rank = 0; rank < messages.size(); ++rank) {
    EvaluationParts one;
    CKPTDB_RETURN_IF_ERROR(Decode(messages[rank], &one));
    if (!one.status.ok() && messages.size() > 1) {
      return Annotate(one.status, absl::StrCat("rank ", rank));
    }
    CKPTDB_RETURN_IF_ERROR(one.status);
    if (one.parts.size() != 1) {
      return absl::InternalError(
          absl::StrCat("rank ", rank, " sent ", one.parts.size(),
                       " parts of an evaluation, expected 1"));
    }
    parts[rank] = std::move(one.parts.front());
  }
  return parts;
}

}  // namespace

EvaluationStore::EvaluationStore(std::string path, Store* store, Reader* reader,
                                 Coordinator* ranks, absl::Duration deadline)
    : path_(std::move(path)),
      store_(store),
      reader_(reader),
      ranks_(ranks),
      deadline_(deadline) {}

// Each rank registers its own groups; a mismatch is detected when a group is
// saved or loaded.
absl::Status EvaluationStore::AddGroup(const std::string& group,
                                       BlobState* meters) {
  CKPTDB_RETURN_IF_ERROR(CheckName("metrics group", group));
  if (meters == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("meters of group \"", group, "\" are null"));
  }
  if (groups_.emplace(group, meters).second) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("metrics group \"", group, "\" was added already"));
}

absl::StatusOr<BlobState*> EvaluationStore::FindGroup(
    const std::string& group) const {
  const auto found = groups_.find(group);
  if (found != groups_.end()) return found->second;
  const auto print = [](std::string* out, const auto& each) {
    absl::StrAppend(out, "\"", each.first, "\"");
  };
  return absl::NotFoundError(absl::StrCat(
      "metrics group \"", group, "\" was not added; the ", groups_.size(),
      " added groups: ", absl::StrJoin(groups_, ", ", print)));
}

void EvaluationStore::Close() {
  closed_ = true;
  store_ = nullptr;
  reader_ = nullptr;
}

absl::Status EvaluationStore::CheckOpen() const {
  if (!closed_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the manager of store \"", path_,
                   "\" is closed: no evaluation can be saved or loaded"));
}

absl::Status EvaluationStore::CheckWritable() const {
  CKPTDB_RETURN_IF_ERROR(CheckOpen());
  if (reader_ == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("store \"", path_,
                   "\" is open read-only: its evaluations cannot be saved or "
                   "removed"));
}

// Returns this rank's part: the current state of the meters and the loader.
absl::StatusOr<StepRecord::Evaluation> EvaluationStore::DumpPart(
    const EvaluationState::Name& name, BlobState* loader, uint64_t processed) {
  CKPTDB_RETURN_IF_ERROR(CheckLoader(name, loader));
  CKPTDB_ASSIGN_OR_RETURN(BlobState* const meters, FindGroup(name.group));
  StepRecord::Evaluation part;
  part.processed = processed;
  CKPTDB_ASSIGN_OR_RETURN(
      part.meters,
      Annotate(meters->Dump(), absl::StrCat("meters of \"", name.group, "\"")));
  CKPTDB_ASSIGN_OR_RETURN(part.loader, Annotate(loader->Dump(), "the loader"));
  return part;
}

absl::Status EvaluationStore::Save(const EvaluationState::Name& name,
                                   BlobState* loader, uint64_t processed) {
  CKPTDB_RETURN_IF_ERROR(CheckWritable());
  absl::StatusOr<StepRecord::Evaluation> own =
      CallGuarded("saving meters and loader",
                  [&] { return DumpPart(name, loader, processed); });
  EvaluationParts message;
  message.status = own.status();
  if (own.ok()) message.parts.push_back(*std::move(own));
  // Every rank gets here, even if its meters have failed: it sends the error in
  // place of its part, so no rank waits for it.
  const std::string tag = TagOf("save", name);
  const auto parts = ranks_->Gather(tag, Encode(message), deadline_);
  absl::Status status = parts.status();
  if (store_ != nullptr) status = SaveParts(name, parts);
  return TellStatus(ranks_, tag, status, deadline_);
}

// Saves the parts of all ranks, on the owner.
absl::Status EvaluationStore::SaveParts(
    const EvaluationState::Name& name,
    const absl::StatusOr<std::vector<std::string>>& parts) {
  CKPTDB_RETURN_IF_ERROR(parts.status());
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<StepRecord::Evaluation> ranks,
                          DecodeParts(*parts));
  return store_->SaveEvaluation(name.step, name.evaluation, name.group, ranks);
}

// Returns what a rank saved under the name: from the owner's store, or from a
// read-only manager's reader.
absl::StatusOr<std::optional<StepRecord::Evaluation>> EvaluationStore::Find(
    const EvaluationState::Name& name, uint32_t rank) const {
  if (store_ != nullptr) {
    return store_->FindEvaluation(name.step, name.evaluation, rank);
  }
  return reader_->FindEvaluation(name.step, name.evaluation, rank);
}

// Returns the parts of all ranks, on the owner; empty if nothing was saved. If
// each rank looked for its part, they could find different saves.
absl::StatusOr<std::vector<StepRecord::Evaluation>> EvaluationStore::FindParts(
    const EvaluationState::Name& name) const {
  if (reader_ != nullptr) {
    CKPTDB_RETURN_IF_ERROR(reader_->Refresh());
  }
  std::vector<StepRecord::Evaluation> parts;
  for (uint32_t rank = 0; rank < ranks_->world_size(); ++rank) {
    CKPTDB_ASSIGN_OR_RETURN(std::optional<StepRecord::Evaluation> found,
                            Find(name, rank));
    if (!found.has_value()) {
      // All parts are written in one batch, so a step has all or none of them.
      if (rank == 0) return parts;
      return absl::DataLossError(absl::StrCat(
          Describe(name), ": the part of rank ", rank, " is missing"));
    }
    CKPTDB_RETURN_IF_ERROR(CheckFound(name, *found));
    parts.push_back(*std::move(found));
  }
  return parts;
}

// Another group's meters could not parse the bytes, and loaders for another
// number of ranks would read some data twice or never.
absl::Status EvaluationStore::CheckFound(
    const EvaluationState::Name& name,
    const StepRecord::Evaluation& found) const {
  if (found.group != name.group) {
    return absl::FailedPreconditionError(
        absl::StrCat(Describe(name), ": expected metrics group \"", name.group,
                     "\", got \"", found.group, "\""));
  }
  if (found.world_size == ranks_->world_size()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(Describe(name), ": expected parts of ", ranks_->world_size(),
                   " ranks, got parts of ", found.world_size, " ranks"));
}

absl::StatusOr<uint64_t> EvaluationStore::Load(
    const EvaluationState::Name& name, BlobState* loader) {
  CKPTDB_RETURN_IF_ERROR(CheckOpen());
  absl::Status status = CheckLoader(name, loader);
  const absl::StatusOr<BlobState*> meters = FindGroup(name.group);
  status.Update(meters.status());
  // No rank changes its meters before all ranks have found theirs.
  CKPTDB_RETURN_IF_ERROR(
      Agree(ranks_, TagOf("check", name), status, deadline_));
  EvaluationParts message;
  if (ranks_->rank() == kOwnerRank) {
    auto found = FindParts(name);
    message.status = found.status();
    if (found.ok()) message.parts = *std::move(found);
  }
  CKPTDB_ASSIGN_OR_RETURN(
      const std::string bytes,
      ranks_->Broadcast(TagOf("find", name), Encode(message), deadline_));
  CKPTDB_RETURN_IF_ERROR(Decode(bytes, &message));
  CKPTDB_RETURN_IF_ERROR(message.status);
  if (message.parts.empty()) return 0;
  const StepRecord::Evaluation& part = message.parts[ranks_->rank()];
  status = Annotate(CallGuarded("BlobState::Load",
                                [&] { return (*meters)->Load(part.meters); }),
                    absl::StrCat("meters of \"", name.group, "\""));
  if (status.ok()) {
    status = Annotate(CallGuarded("BlobState::Load",
                                  [&] { return loader->Load(part.loader); }),
                      "the loader");
  }
  CKPTDB_RETURN_IF_ERROR(Agree(ranks_, TagOf("load", name), status, deadline_));
  return part.processed;
}

absl::Status EvaluationStore::Cleanup(int64_t step) {
  return Remove(absl::StrCat("remove evaluations of step ", step), {step});
}

absl::Status EvaluationStore::CleanupAll(std::optional<int64_t> except) {
  std::vector<int64_t> steps;
  // Only the owner knows and removes the steps; the others just call Agree.
  if (store_ != nullptr) {
    for (const StepRecord& record : store_->Steps()) {
      if (record.version.step != except) steps.push_back(record.version.step);
    }
  }
  return Remove(absl::StrCat("remove all evaluations but those of step ",
                             except.value_or(-1)),
                steps);
}

absl::Status EvaluationStore::Remove(absl::string_view tag,
                                     const std::vector<int64_t>& steps) {
  CKPTDB_RETURN_IF_ERROR(CheckWritable());
  absl::Status status;
  if (store_ != nullptr) status = store_->DeleteEvaluations(steps);
  return Agree(ranks_, tag, status, deadline_);
}

}  // namespace ckptdb::internal
