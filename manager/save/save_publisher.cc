// SPDX-License-Identifier: Apache-2.0
#include "manager/save/save_publisher.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "manager/policy/now_micros.h"
#include "manager/policy/retention.h"
#include "manager/state/micros_since.h"
#include "manager/state/value_types.h"
#include "schema/bytes/user_metadata.h"
#include "schema/status.h"

namespace ckptdb::internal {

Outcome SavePublisher::Publish(
    Publication publication,
    const absl::StatusOr<std::vector<StagedRank>>& staged,
    int64_t* planning_micros) {
  Outcome outcome;
  outcome.status = staged.status();
  if (staged.ok()) {
    SaveSpec spec = SpecOf(publication);
    // Another thread may pin or delete a step between the plan and the commit.
    // Then nothing was published, and the retirement is planned again. The
    // number of tries is limited, because an unusable store returns
    // FailedPrecondition each time.
    constexpr int kTries = 10;
    for (int i = 0; i < kTries; ++i) {
      outcome.status = PlanAndPublish(*staged, &publication, &spec,
                                      &outcome.result, planning_micros);
      const bool changed = absl::IsFailedPrecondition(outcome.status) ||
                           absl::IsNotFound(outcome.status);
      if (!changed || spec.retire.empty()) break;
    }
    if (outcome.status.ok()) outcome.retired = std::move(spec.retire);
  }
  if (!outcome.status.ok()) Abandon(publication.announced.version);
  return outcome;
}

void SavePublisher::Abandon(const Version& version) {
  // A later sweep deletes the attempt's files, whether or not this succeeds.
  store_->Abandon(version).IgnoreError();
}

SaveSpec SavePublisher::SpecOf(const Publication& publication) const {
  const SaveRequest& request = publication.request;
  SaveSpec spec;
  spec.metrics = request.metrics;
  spec.user_metadata = options_.save.user_metadata;
  for (const auto& [name, value] : request.user_metadata) {
    spec.user_metadata[name] = value;
  }
  // Set last, so that no user metadata replaces the reason.
  spec.user_metadata[kSavedBecause] = publication.announced.decision.reason;
  spec.user_metadata[kRetention] = RetentionJson(options_.retention);
  // If the types of very many values exceed the metadata limit, the step is
  // saved without them.
  if (!publication.value_types.empty()) {
    spec.user_metadata[kValueTypes] = publication.value_types;
    if (!CheckUserMetadata(spec.user_metadata).ok()) {
      spec.user_metadata.erase(kValueTypes);
    }
  }
  spec.ephemeral = request.kind == SavePolicy::Kind::kEphemeral;
  spec.bounds = options_.save.bounds;
  return spec;
}

absl::Status SavePublisher::PlanAndPublish(
    const std::vector<StagedRank>& staged, Publication* publication,
    SaveSpec* spec, SaveResult* result, int64_t* planning_micros) {
  // Steps planned by the previous try may be deleted or pinned by now.
  spec->retire.clear();
  const auto begin = std::chrono::steady_clock::now();
  // Retention needs current metrics and pins. Warnings::WarnOfPosts reports an
  // error of a post, which does not fail the save.
  store_->TakePosts().IgnoreError();
  spec->take_posts = false;
  absl::StatusOr<std::vector<int64_t>> retired = CallGuarded(
      "RetentionOptions::keep or ManagerOptions::observers.now_micros", [&] {
        publication->commit.now_micros = NowMicros(options_);
        spec->committed_at_micros = publication->commit.now_micros;
        return StepsToRetire(*publication);
      });
  *planning_micros += MicrosSince(begin);
  CKPTDB_RETURN_IF_ERROR(retired.status());
  spec->retire = *std::move(retired);
  CKPTDB_ASSIGN_OR_RETURN(
      *result, store_->Publish(publication->announced.version, staged, *spec));
  return absl::OkStatus();
}

// Notes removals before the commit. If the commit fails, the store still
// contains the step, and ExplainStep asks the plan instead.
std::vector<int64_t> SavePublisher::StepsToRetire(
    const Publication& publication) {
  std::vector<int64_t> retired;
  const auto retire = [&](int64_t step, absl::string_view reason) {
    retired.push_back(step);
    history_->NoteKept(step, absl::StrCat("removed: ", reason));
  };
  for (const RetentionDecision& decision :
       retirement_->Plan(*store_, publication.commit)) {
    retire(decision.step, decision.reason);
  }
  // The store itself removes the steps after a parent.
  if (!publication.announced.whole) return retired;
  for (const int64_t step : publication.commit.abandoned) {
    if (step != publication.commit.saved.step && IsRemovable(step)) {
      retire(step, "it was abandoned");
    }
  }
  return retired;
}

bool SavePublisher::IsRemovable(int64_t step) const {
  bool removable = false;
  store_->VisitStep(
      step, [&](const StepRecord& record) { removable = !record.pinned; });
  return removable;
}

}  // namespace ckptdb::internal
