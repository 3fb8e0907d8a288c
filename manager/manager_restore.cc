// How a manager restores: the owner picks a step, all ranks load their part.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/manager/manager_impl.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {
namespace {

using internal::RestoreTarget;

// A step given up at a restore is one of these.
bool IsAfter(const StepRecord& a, const StepRecord& b) {
  return a.version.step > b.version.step ||
         StateOf(a).attempt > StateOf(b).attempt;
}

// The best by the order of BestN, of those that are not quarantined.
absl::StatusOr<StepRecord> PickBest(const std::vector<StepRecord>& all,
                                    BestOptions best) {
  best.count = 1;
  best.keep_without_metric = false;
  CKPTDB_ASSIGN_OR_RETURN(const KeepPolicyPtr policy, BestN(best));
  std::vector<StepInfo> steps;
  for (const StepRecord& record : all) {
    if (!record.quarantined) steps.push_back(StepInfoOf(record));
  }
  const std::vector<Verdict> verdicts = policy->Decide(steps, 0);
  for (size_t i = 0; i < verdicts.size(); ++i) {
    if (!verdicts[i].yes) continue;
    return *std::find_if(all.begin(), all.end(), [&](const StepRecord& each) {
      return each.version.step == steps[i].step;
    });
  }
  return absl::NotFoundError(absl::StrCat(
      "none of ", all.size(), " steps has a metric \"", best.metric, "\""));
}

// The step saved last.
absl::StatusOr<StepRecord> PickLatest(const std::vector<StepRecord>& all) {
  const StepRecord* latest = nullptr;
  for (const StepRecord& record : all) {
    if (record.quarantined) continue;
    if (latest == nullptr ||
        StateOf(*latest).attempt < StateOf(record).attempt) {
      latest = &record;
    }
  }
  if (latest != nullptr) return *latest;
  return absl::NotFoundError(
      all.empty() ? "no step is committed"
                  : absl::StrCat("all ", all.size(), " steps are quarantined"));
}

}  // namespace

bool CheckpointManager::Impl::IsOwn(const RestoreRequest& request) const {
  return request.path.empty() || request.path == options_.path;
}

absl::StatusOr<RestoreReport> CheckpointManager::Impl::Restore(
    const RestoreRequest& request) {
  Settle();
  CKPTDB_RETURN_IF_ERROR(
      Agree(ranks_.get(), "restore", TakeError(), options_.deadline));
  std::vector<int64_t> damaged;
  while (true) {
    absl::StatusOr<RestoreReport> report = RestoreOnce(request);
    if (report.ok()) {
      report->damaged = std::move(damaged);
      if (options_.on_restored) options_.on_restored(*report);
      return report;
    }
    if (!absl::IsDataLoss(report.status()) || !request.fall_back ||
        request.step.has_value() || !IsOwn(request) || !picked_.has_value()) {
      return report;
    }
    damaged.push_back(picked_->step);
    absl::Status marked;
    if (is_owner()) marked = store_->Quarantine(picked_->step);
    CKPTDB_RETURN_IF_ERROR(
        Agree(ranks_.get(), "quarantine", marked, options_.deadline));
  }
}

// On the owner.
absl::StatusOr<StepRecord> CheckpointManager::Impl::PickStep(
    const RestoreRequest& request, Reader* other) const {
  const std::vector<StepRecord> steps =
      other != nullptr ? other->Steps() : store_->Steps();
  if (request.step.has_value()) {
    CKPTDB_ASSIGN_OR_RETURN(StepRecord record,
                            other != nullptr ? other->FindStep(*request.step)
                                             : store_->FindStep(*request.step));
    if (!record.quarantined) return record;
    return absl::FailedPreconditionError(
        absl::StrCat("step ", *request.step, " of store ", options_.path,
                     " is quarantined: no training can go on from it"));
  }
  if (!request.best) return PickLatest(steps);
  if (options_.best.has_value()) return PickBest(steps, *options_.best);
  return absl::FailedPreconditionError(
      "which step is best was not said in ManagerOptions::best");
}

absl::StatusOr<RestoreReport> CheckpointManager::Impl::RestoreOnce(
    const RestoreRequest& request) {
  picked_.reset();
  const bool own = IsOwn(request);
  const std::string& path = own ? options_.path : request.path;
  // The owner reads its own store by itself.
  std::unique_ptr<Reader> reader;
  absl::Status opened;
  if (!own || !is_owner()) {
    absl::StatusOr<std::unique_ptr<Reader>> other = Reader::Open(path);
    opened = other.status();
    if (other.ok()) reader = *std::move(other);
  }
  CKPTDB_RETURN_IF_ERROR(
      Agree(ranks_.get(), "open to restore", opened, options_.deadline));

  RestoreTarget target;
  if (is_owner()) {
    const absl::StatusOr<StepRecord> picked = PickStep(request, reader.get());
    target.error = picked.status();
    if (picked.ok()) target.version = picked->version;
  }
  CKPTDB_ASSIGN_OR_RETURN(
      const std::string bytes,
      ranks_->Broadcast("step to restore", Encode(target), options_.deadline));
  CKPTDB_RETURN_IF_ERROR(Decode(bytes, &target));
  CKPTDB_RETURN_IF_ERROR(target.error);
  picked_ = target.version;

  RestoreReport report;
  report.version = target.version;
  report.path = path;
  absl::StatusOr<std::unique_ptr<StepReader>> step =
      reader != nullptr ? reader->OpenStep(target.version.step)
                        : store_->OpenStep(target.version.step);
  // No model is touched when one rank cannot load the step.
  absl::Status status = step.status();
  if (step.ok()) status = Check(request, **step);
  CKPTDB_RETURN_IF_ERROR(
      Agree(ranks_.get(), "check the step", status, options_.deadline));
  report.record = (*step)->record();
  CKPTDB_RETURN_IF_ERROR(
      Agree(ranks_.get(), "load the step",
            LoadStep(**step, *model_, options_, SpecOf(request), &report),
            options_.deadline));
  if (own) CKPTDB_RETURN_IF_ERROR(GoOnFrom(**step));
  return report;
}

internal::LoadSpec CheckpointManager::Impl::SpecOf(
    const RestoreRequest& request) const {
  return {ranks_->rank(), world_size(), request.mode};
}

absl::Status CheckpointManager::Impl::Check(const RestoreRequest& request,
                                            const StepReader& step) const {
  CKPTDB_RETURN_IF_ERROR(
      internal::CheckStep(step, *model_, options_, SpecOf(request)));
  if (!is_owner() || (!request.verify && !request.fall_back)) {
    return absl::OkStatus();
  }
  return step.Verify(options_.read);
}

absl::Status CheckpointManager::Impl::GoOnFrom(const StepReader& step) {
  const StepRecord& record = step.record();
  global_step_ = record.version.step;
  parent_ = record.version;
  deltas_ = record.chain.size() - 1;
  base_due_.clear();
  source_ = record.version.step;
  abandoned_steps_.clear();
  coalesced_.reset();
  if (is_owner()) {
    for (const StepRecord& other : store_->Steps()) {
      if (!other.quarantined && IsAfter(other, record)) {
        abandoned_steps_.insert(other.version.step);
      }
    }
  }
  parent_columns_.clear();
  for (const ModelState::Table& table : model_->tables()) {
    CKPTDB_ASSIGN_OR_RETURN(const TableSpec spec, step.FindTable(table.name));
    parent_columns_[table.name] = spec.slots;
  }
  if (feed_ == nullptr) return absl::OkStatus();
  // What was marked before is in the step.
  return feed_->Take().status();
}

}  // namespace ckptdb
