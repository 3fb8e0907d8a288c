// SPDX-License-Identifier: Apache-2.0
#include "manager/load/step_opener.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "manager/state/reader_options.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {

namespace {

std::vector<StepRecord> StepsOf(const Reader* reader, const Store* store) {
  return reader != nullptr ? reader->Steps() : store->Steps();
}

}  // namespace

absl::Status NotFoundOnlyIfEmpty(const absl::Status& status, bool empty) {
  if (!absl::IsNotFound(status) || empty) return status;
  return Reword(status, absl::StatusCode::kFailedPrecondition,
                status.message());
}

bool StepOpener::IsOwn(const std::string& path) const {
  if (path.empty() || path == options_.path) return true;
  // The path may be spelled differently.
  const absl::StatusOr<std::string> resolved =
      Store::ResolvePath(path, options_.store);
  return resolved.ok() && *resolved == options_.path;
}

absl::Status StepOpener::AgreeOn(absl::string_view tag,
                                 const absl::Status& status) {
  return Agree(ranks_, tag, status, options_.ranks.deadline);
}

absl::StatusOr<StepRecord> StepOpener::LatestOwn() const {
  if (store_ == nullptr) CKPTDB_RETURN_IF_ERROR(reader_->Refresh());
  return PickStep({}, reader_);
}

absl::StatusOr<StepRecord> StepOpener::BestStep() const {
  if (store_ != nullptr) return BestOf(store_->Steps(), options_.restore.best);
  CKPTDB_RETURN_IF_ERROR(reader_->Refresh());
  return BestOf(reader_->Steps(), options_.restore.best);
}

// FailedPrecondition rather than NotFound: steps may exist, but the option is
// missing.
absl::StatusOr<StepRecord> StepOpener::BestOf(
    const std::vector<StepRecord>& steps,
    const std::optional<KeepPolicy::BestOptions>& best) {
  if (best.has_value()) return ckptdb::BestStep(steps, *best);
  return absl::FailedPreconditionError(
      "ManagerOptions::restore.best is not set; set it to the metric that "
      "ranks the "
      "steps");
}

// Picks a step, on the owner. `other` is null for the manager's own store.
absl::StatusOr<StepRecord> StepOpener::PickStep(const RestoreRequest& request,
                                                Reader* other) const {
  const bool own = IsOwn(request.path);
  absl::StatusOr<StepRecord> picked;
  if (request.step.has_value()) {
    picked =
        PickNamed(*request.step, own ? options_.path : request.path, other);
  } else if (request.best || request.best_by.has_value()) {
    picked = BestOf(StepsOf(other, store_), request.best_by.has_value()
                                                ? request.best_by
                                                : options_.restore.best);
  } else {
    picked = other != nullptr ? other->Latest() : store_->Latest();
  }
  if (picked.ok()) return picked;
  const bool empty = own && StepsOf(other, store_).empty();
  return NotFoundOnlyIfEmpty(picked.status(), empty);
}

// The newest and the best step are never quarantined. A named step may be, and
// is not replaced by another.
absl::StatusOr<StepRecord> StepOpener::PickNamed(int64_t step,
                                                 const std::string& path,
                                                 Reader* other) const {
  CKPTDB_ASSIGN_OR_RETURN(StepRecord record, other != nullptr
                                                 ? other->FindStep(step)
                                                 : store_->FindStep(step));
  if (!record.quarantined) return record;
  return absl::FailedPreconditionError(
      absl::StrCat("step ", step, " of store \"", path,
                   "\" is quarantined; restore another step, or run \"ckptdb "
                   "quarantine --undo ",
                   step, "\" if it is undamaged"));
}

// The store's writer may retire or overwrite the picked step before it is open;
// then the owner picks again. A writer that keeps a single step and saves
// continuously wins about one time in four.
absl::StatusOr<OpenedStep> StepOpener::Open(
    const RestoreRequest& request, const std::optional<Version>& from) {
  constexpr int kTries = 50;  // a count, so that all ranks stop together
  for (int i = 1;; ++i) {
    picked_.reset();
    found_empty_ = false;
    absl::StatusOr<OpenedStep> opened = OpenOnce(request, from);
    const bool gone =
        picked_.has_value() && !request.step.has_value() &&
        (absl::IsNotFound(opened.status()) || absl::IsAborted(opened.status()));
    if (!gone || i == kTries) return opened;
  }
}

// Returns the store's reader, which *opened owns unless it is the manager's
// own; null for the owner, which reads its store directly.
absl::StatusOr<Reader*> StepOpener::OpenReader(const RestoreRequest& request,
                                               OpenedStep* opened) const {
  const bool own = IsOwn(request.path);
  if (own && reader_ != nullptr) {
    CKPTDB_RETURN_IF_ERROR(reader_->Refresh());
    return reader_;
  }
  if (own && store_ != nullptr) return nullptr;
  CKPTDB_ASSIGN_OR_RETURN(opened->reader,
                          Reader::Open(own ? options_.path : request.path,
                                       ReaderOptionsOf(options_)));
  return opened->reader.get();
}

absl::StatusOr<OpenedStep> StepOpener::OpenOnce(
    const RestoreRequest& request, const std::optional<Version>& from) {
  OpenedStep opened;
  const absl::StatusOr<Reader*> reader = OpenReader(request, &opened);
  CKPTDB_RETURN_IF_ERROR(AgreeOn("open the store", reader.status()));

  RestoreTarget target;
  if (ranks_->rank() == kOwnerRank) {
    const absl::StatusOr<StepRecord> picked = PickStep(request, *reader);
    target.error = picked.status();
    if (picked.ok()) target.version = StateOf(*picked);
  }
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes,
                          ranks_->Broadcast("step to restore", Encode(target),
                                            options_.ranks.deadline));
  CKPTDB_RETURN_IF_ERROR(Decode(bytes, &target));
  found_empty_ = absl::IsNotFound(target.error);
  CKPTDB_RETURN_IF_ERROR(target.error);
  picked_ = target.version;
  if (reader_ != nullptr && *reader == reader_) {
    CKPTDB_RETURN_IF_ERROR(OpenChanges(from, target.version.step, &opened));
  }
  CKPTDB_RETURN_IF_ERROR(
      AgreeOn("open the step", OpenAt(target, *reader, &opened)));
  return opened;
}

// Ranks may read a whole step together, but read changes alone. The trainer may
// commit or fold a step between the ranks' calls, so only some may find the
// changes. All ranks take part, whether or not they know `from`.
absl::Status StepOpener::OpenChanges(const std::optional<Version>& from,
                                     int64_t step, OpenedStep* opened) const {
  if (from.has_value()) {
    auto changes = reader_->OpenChanges(*from, step);
    // After an error the whole step is read, which detects its damage.
    if (changes.ok()) opened->changes = *std::move(changes);
  }
  if (ranks_->world_size() == 1) return absl::OkStatus();
  constexpr absl::string_view kTag = "open the changes";
  const std::string own = opened->changes != nullptr ? "yes" : "no";
  const auto answers = ranks_->Gather(kTag, own, options_.ranks.deadline);
  const bool all =
      answers.ok() && std::count(answers->begin(), answers->end(), "yes") ==
                          std::ptrdiff_t{ranks_->world_size()};
  CKPTDB_ASSIGN_OR_RETURN(
      const std::string agreed,
      ranks_->Tell(kTag, all ? "yes" : "no",
                   AfterGather(*ranks_, options_.ranks.deadline)));
  if (agreed != "yes") opened->changes.reset();
  return absl::OkStatus();
}

// Opens the version that the owner picked, unless it was overwritten since.
absl::Status StepOpener::OpenAt(const RestoreTarget& target, Reader* reader,
                                OpenedStep* opened) const {
  const int64_t step = target.version.step;
  if (opened->changes == nullptr) {
    CKPTDB_ASSIGN_OR_RETURN(opened->step, reader != nullptr
                                              ? reader->OpenStep(step)
                                              : store_->OpenStep(step));
  }
  if (StateOf(opened->get().record()) == target.version) {
    return absl::OkStatus();
  }
  return absl::AbortedError(absl::StrCat(
      "step ", step, " was overwritten while it was being opened"));
}

}  // namespace ckptdb::internal
