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
  const std::vector<bool> keep = policy->Ask(steps, 0).keep;
  for (size_t i = 0; i < keep.size(); ++i) {
    if (!keep[i]) continue;
    return *std::find_if(all.begin(), all.end(), [&](const StepRecord& each) {
      return each.version.step == steps[i].step;
    });
  }
  return absl::NotFoundError(absl::StrCat(
      "none of ", all.size(), " steps has a metric \"", best.metric, "\""));
}

}  // namespace

bool CheckpointManager::Impl::IsOwn(const std::string& path) const {
  return path.empty() || path == options_.path;
}

absl::Status CheckpointManager::Impl::AgreeOn(absl::string_view tag,
                                              const absl::Status& status) {
  return Agree(ranks_.get(), tag, status, options_.deadline);
}

absl::StatusOr<RestoreReport> CheckpointManager::Impl::Restore(
    const RestoreRequest& request) {
  Settle();
  CKPTDB_RETURN_IF_ERROR(AgreeOn("restore", TakeError()));
  std::vector<int64_t> damaged;
  while (true) {
    picked_.reset();
    absl::StatusOr<RestoreReport> report = RestoreOnce(request);
    if (report.ok()) {
      report->damaged = std::move(damaged);
      if (options_.on_restored) options_.on_restored(*report);
      return report;
    }
    const bool next = request.fall_back && !request.step.has_value() &&
                      IsOwn(request.path) && picked_.has_value() &&
                      absl::IsDataLoss(report.status());
    if (!next) return report;
    damaged.push_back(picked_->step);
    absl::Status marked;
    if (is_owner()) marked = store_->Quarantine(picked_->step);
    CKPTDB_RETURN_IF_ERROR(AgreeOn("quarantine", marked));
  }
}

absl::StatusOr<LoadSummary> CheckpointManager::Impl::Load(
    const std::vector<LoadRule>& rules, bool dry_run) {
  Settle();
  CKPTDB_RETURN_IF_ERROR(AgreeOn("load", TakeError()));
  LoadSummary summary;
  for (const LoadRule& rule : rules) {
    LoadedRule& loaded = summary.rules.emplace_back();
    loaded.path = rule.path.empty() ? options_.path : rule.path;
    if (rule.skip) {
      loaded.note = "skipped";
      continue;
    }
    const absl::Status status = LoadByRule(rule, dry_run, &loaded);
    if (status.ok()) continue;
    if (!rule.ignore_error) return status;
    loaded.note = absl::StrCat("error ignored: ", status.ToString());
  }
  return summary;
}

absl::Status CheckpointManager::Impl::LoadByRule(const LoadRule& rule,
                                                 bool dry_run,
                                                 LoadedRule* loaded) {
  RestoreTarget own;  // the newest step of the manager's own store
  if (!rule.is_dynamic) {
    if (is_owner()) {
      const absl::StatusOr<StepRecord> latest = store_->Latest();
      own.error = latest.status();
      if (latest.ok()) own.version = latest->version;
    }
    CKPTDB_ASSIGN_OR_RETURN(
        const std::string bytes,
        ranks_->Broadcast("own step", Encode(own), options_.deadline));
    CKPTDB_RETURN_IF_ERROR(Decode(bytes, &own));
    if (own.error.ok()) {
      loaded->note =
          absl::StrCat("not loaded, as the store has step ", own.version.step);
      return absl::OkStatus();
    }
  }
  RestoreRequest request;
  request.path = rule.path;
  request.step = rule.step;
  CKPTDB_ASSIGN_OR_RETURN(const OpenedStep opened, OpenForAll(request));
  absl::StatusOr<internal::LoadPlan> plan = PlanFor(opened, rule);
  absl::Status status = plan.status();
  if (plan.ok()) {
    LoadedRule described = plan->Describe();
    described.path = loaded->path;
    *loaded = std::move(described);
    if (rule.strict && !dry_run) status = plan->CheckAll();
  }
  CKPTDB_RETURN_IF_ERROR(AgreeOn("check the step", status));
  if (dry_run) return absl::OkStatus();
  // What it changes is not marked.
  base_due_ = absl::StrCat("the model was loaded from ", loaded->path);
  return AgreeOn("load the step", plan->Run());
}

absl::StatusOr<internal::LoadPlan> CheckpointManager::Impl::PlanFor(
    const OpenedStep& opened, const LoadRule& rule) const {
  return internal::LoadPlan::Make(*opened.step, *model_, options_,
                                  {ranks_->rank(), world_size()}, rule);
}

// On the owner.
absl::StatusOr<StepRecord> CheckpointManager::Impl::PickStep(
    const RestoreRequest& request, Reader* other) const {
  if (request.step.has_value()) {
    CKPTDB_ASSIGN_OR_RETURN(StepRecord record,
                            other != nullptr ? other->FindStep(*request.step)
                                             : store_->FindStep(*request.step));
    if (!record.quarantined) return record;
    return absl::FailedPreconditionError(
        absl::StrCat("step ", *request.step, " of store ", options_.path,
                     " is quarantined: no training can go on from it"));
  }
  if (!request.best) {
    return other != nullptr ? other->Latest() : store_->Latest();
  }
  if (options_.best.has_value()) {
    return PickBest(other != nullptr ? other->Steps() : store_->Steps(),
                    *options_.best);
  }
  return absl::FailedPreconditionError(
      "which step is best was not said in ManagerOptions::best");
}

// The step that the owner picks, open on all ranks.
absl::StatusOr<CheckpointManager::Impl::OpenedStep>
CheckpointManager::Impl::OpenForAll(const RestoreRequest& request) {
  const bool own = IsOwn(request.path);
  OpenedStep opened;
  absl::Status status;
  // The owner reads its own store by itself.
  if (!own || !is_owner()) {
    absl::StatusOr<std::unique_ptr<Reader>> reader =
        Reader::Open(own ? options_.path : request.path);
    status = reader.status();
    if (reader.ok()) opened.reader = *std::move(reader);
  }
  CKPTDB_RETURN_IF_ERROR(AgreeOn("open the store", status));

  RestoreTarget target;
  if (is_owner()) {
    const absl::StatusOr<StepRecord> picked =
        PickStep(request, opened.reader.get());
    target.error = picked.status();
    if (picked.ok()) target.version = picked->version;
  }
  CKPTDB_ASSIGN_OR_RETURN(
      const std::string bytes,
      ranks_->Broadcast("step to restore", Encode(target), options_.deadline));
  CKPTDB_RETURN_IF_ERROR(Decode(bytes, &target));
  CKPTDB_RETURN_IF_ERROR(target.error);
  picked_ = target.version;

  absl::StatusOr<std::unique_ptr<StepReader>> step =
      opened.reader != nullptr ? opened.reader->OpenStep(target.version.step)
                               : store_->OpenStep(target.version.step);
  CKPTDB_RETURN_IF_ERROR(AgreeOn("open the step", step.status()));
  opened.step = *std::move(step);
  return opened;
}

absl::StatusOr<RestoreReport> CheckpointManager::Impl::RestoreOnce(
    const RestoreRequest& request) {
  CKPTDB_ASSIGN_OR_RETURN(const OpenedStep opened, OpenForAll(request));
  const StepReader& step = *opened.step;
  LoadRule all;
  all.hashtable_clear = request.mode == RestoreMode::kClear;
  const absl::StatusOr<internal::LoadPlan> plan = PlanFor(opened, all);
  absl::Status status = plan.ok() ? plan->CheckAll() : plan.status();
  if (status.ok() && is_owner() && (request.verify || request.fall_back)) {
    status = step.Verify(options_.read);
  }
  // No model is touched when one rank cannot load the step.
  CKPTDB_RETURN_IF_ERROR(AgreeOn("check the step", status));
  CKPTDB_RETURN_IF_ERROR(AgreeOn("load the step", plan->Run()));

  RestoreReport report;
  report.version = step.record().version;
  report.record = step.record();
  report.path = IsOwn(request.path) ? options_.path : request.path;
  report.loaded = plan->Describe();
  report.loaded.path = report.path;
  restored_ = true;
  if (IsOwn(request.path)) {
    CKPTDB_RETURN_IF_ERROR(GoOnFrom(step));
    // Rows that were there besides are not in the step.
    if (!all.hashtable_clear) base_due_ = "a restore was merged into the model";
  } else {
    base_due_ = absl::StrCat("the model was loaded from ", report.path);
  }
  return report;
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
