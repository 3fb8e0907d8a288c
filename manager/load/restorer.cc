#include "ckptdb/manager/load/restorer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/base/call_guard.h"
#include "ckptdb/db/base/mutex.h"
#include "ckptdb/manager/load/loaded_items.h"
#include "ckptdb/manager/ranks/messages.h"
#include "ckptdb/manager/state/micros_since.h"
#include "ckptdb/schema/bytes/annotate.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

using Clock = std::chrono::steady_clock;

// The interval at which AwaitNewer checks whether it is cancelled.
// SetPreempted may be called by a signal handler, which cannot notify a
// condition: the wait looks for it so often.
constexpr std::chrono::milliseconds kNoticeEvery(100);

// What to do about a step that does not fit.
constexpr char kRestoreRemedy[] =
    "register the items as the step has them, or set RestoreRequest::evolve, "
    "which renames items, fills and converts slots, and leaves new items as "
    "they are";
constexpr char kEvolvedRemedy[] =
    "set how to restore them in EvolvePolicy: oname, exclude, cast or tables";
constexpr char kLoadRemedy[] =
    "map names with \"oname\", or load the rest with \"strict\": false";

std::string DescribeLatest(const absl::StatusOr<StepRecord>& latest) {
  if (!latest.ok()) return std::string(latest.status().message());
  return absl::StrCat("the newest is step ", latest->version.step);
}

// Returns the request of the step that a rule loads from.
absl::StatusOr<RestoreRequest> SourceOf(const LoadRule& rule) {
  if (rule.step.has_value() && rule.best.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "load rule: \"step\" is ", *rule.step, " and \"best\" is by \"",
        rule.best->metric, "\"; a rule names its step by one of the two"));
  }
  RestoreRequest request;
  request.path = rule.path;
  request.step = rule.step;
  request.best_by = rule.best;
  return request;
}

// Describes a step that was restored. The report has the store.
void DescribeRestore(const OpenedStep& opened, const LoadPlan& plan,
                     CheckpointManager::RestoreReport* report) {
  report->record = opened.get().record();
  report->version = report->record.version;
  report->incremental = opened.changes != nullptr;
  report->loaded = plan.Describe();
  report->loaded.path = report->store;
  report->loaded_bytes = report->loaded.bytes();
  report->loaded_rows = report->loaded.rows();
}

// The error of the newest step, as it is the one that the caller lost first.
absl::Status NoneLeft(const absl::Status& first_damage, size_t damaged) {
  return absl::DataLossError(absl::StrCat(
      first_damage.message(), "; no step is left that is whole: ", damaged,
      " were quarantined by this restore"));
}

// Waits until `end`. Returns Cancelled if `cancelled` returns true before that;
// it may not notify anybody.
absl::Status WaitUntil(Clock::time_point end,
                       const std::function<bool()>& cancelled) {
  Mutex mutex;
  ConditionVariable never;
  const MutexLock lock(&mutex);
  for (auto now = Clock::now(); now < end; now = Clock::now()) {
    if (!cancelled())
      never.WaitUntil(&mutex, std::min(end, now + kNoticeEvery));
    if (cancelled()) {
      return absl::CancelledError("preempted while waiting for a step");
    }
  }
  return absl::OkStatus();
}

}  // namespace

Restorer::Restorer(const Parts& parts)
    : parts_(parts),
      opener_(parts.options, parts.ranks, parts.store, parts.reader) {}

absl::Status Restorer::AgreeOn(absl::string_view tag,
                               const absl::Status& status) {
  return Agree(parts_.ranks, tag, status, parts_.options.deadline);
}

absl::StatusOr<CheckpointManager::RestoreReport> Restorer::Restore(
    const RestoreRequest& request) {
  absl::StatusOr<CheckpointManager::RestoreReport> report =
      RestoreOrFallBack(request);
  if (report.ok()) return report;
  return OnlyEmptyIsNotFound(report.status());
}

// A trainer may take NotFound for a fresh start. It comes from many places: a
// folder that one rank does not see, a step that was removed meanwhile, code of
// the trainer that loads an object.
absl::Status Restorer::OnlyEmptyIsNotFound(const absl::Status& status) const {
  return internal::OnlyEmptyIsNotFound(status, opener_.found_empty());
}

absl::StatusOr<std::optional<RestoreRequest>> Restorer::RequestAtStart(
    const RestoreRequest& request) {
  const bool elsewhere = !opener_.IsOwn(request.path);
  CKPTDB_ASSIGN_OR_RETURN(const RestoreTarget own, FindOwnStep());
  if (!absl::IsNotFound(own.error)) {
    if (!elsewhere) return request;
    // The request names the step that the first run began with, and this is a
    // later run.
    RestoreRequest newest;
    newest.mode = request.mode;
    newest.verify = request.verify;
    newest.fall_back = request.fall_back;
    newest.evolve = request.evolve;
    return newest;
  }
  if (elsewhere) return request;
  if (!request.step.has_value()) return std::nullopt;
  return absl::FailedPreconditionError(
      absl::StrCat("RestoreOrStart: store \"", parts_.options.path,
                   "\" has no step, and step ", *request.step,
                   " was asked for; leave RestoreRequest::step unset for a "
                   "fresh start, or check the folder"));
}

absl::StatusOr<CheckpointManager::RestoreReport> Restorer::RestoreOrFallBack(
    const RestoreRequest& request) {
  awaited_.reset();  // it need not be the step that is asked for
  std::vector<int64_t> damaged;
  absl::Status first_damage;
  while (true) {
    absl::StatusOr<CheckpointManager::RestoreReport> report =
        RestoreOnce(request, std::nullopt);
    if (report.ok()) {
      report->damaged_steps = std::move(damaged);
      return report;
    }
    const std::optional<Version>& picked = opener_.picked();
    if (!picked.has_value() && !damaged.empty() &&
        absl::IsDataLoss(report.status())) {
      return NoneLeft(first_damage, damaged.size());
    }
    // A step that was asked for by its number is never replaced by another one,
    // and a step of another store cannot be quarantined.
    const bool next = !parts_.options.read_only && request.fall_back &&
                      !request.step.has_value() &&
                      opener_.IsOwn(request.path) && picked.has_value() &&
                      absl::IsDataLoss(report.status());
    if (!next) return report;
    damaged.push_back(picked->step);
    first_damage.Update(report.status());
    absl::Status marked;
    if (is_owner()) marked = parts_.store->Quarantine(picked->step);
    CKPTDB_RETURN_IF_ERROR(AgreeOn("quarantine", marked));
  }
}

std::optional<Version> Restorer::Held() const {
  const SaveLineage& lineage = *parts_.lineage;
  // A model that is not exactly a step, as after a load, cannot be brought up
  // to date by changes, and neither can one that another policy restored.
  const bool as_a_step =
      lineage.base_due_reason().empty() && !evolved_by_request_;
  return as_a_step ? lineage.parent() : std::nullopt;
}

absl::StatusOr<Version> Restorer::OpenNewest() {
  awaited_.reset();
  const std::optional<Version> from = Held();
  CKPTDB_ASSIGN_OR_RETURN(OpenedStep opened, opener_.Open({}, from));
  awaited_.emplace(Awaited{std::move(opened), from});
  return awaited_->opened.get().record().version;
}

absl::StatusOr<CheckpointManager::RestoreReport> Restorer::RestoreNewest() {
  absl::StatusOr<CheckpointManager::RestoreReport> report =
      RestoreOnce({}, Held());
  if (report.ok()) return report;
  return OnlyEmptyIsNotFound(report.status());
}

absl::StatusOr<OpenedStep> Restorer::Open(const RestoreRequest& request,
                                          const std::optional<Version>& from) {
  std::optional<Awaited> awaited = std::exchange(awaited_, std::nullopt);
  if (awaited.has_value() && awaited->from == from) {
    return std::move(awaited->opened);
  }
  return opener_.Open(request, from);
}

absl::StatusOr<CheckpointManager::RestoreReport> Restorer::RestoreOnce(
    const RestoreRequest& request, const std::optional<Version>& from) {
  CheckpointManager::RestoreReport report;
  Clock::time_point begin = Clock::now();
  const auto lap = [&begin] {
    return MicrosSince(std::exchange(begin, Clock::now()));
  };
  CKPTDB_ASSIGN_OR_RETURN(const OpenedStep opened, Open(request, from));
  report.open_micros = lap();
  const StepReader& step = opened.get();
  absl::StatusOr<LoadPlan> plan = PlanRestore(opened, request);
  absl::Status status = plan.status();
  // Verification reads everything, so one rank does it for all.
  if (status.ok() && is_owner() && (request.verify || request.fall_back)) {
    status = step.Verify(parts_.options.read);
  }
  // No model is changed if one rank cannot load the step.
  CKPTDB_RETURN_IF_ERROR(AgreeOn("check the step", status));
  report.check_micros = lap();
  // From here on the model changes. If the restore fails, the next save must
  // not be based on a step that the model is not.
  parts_.lineage->RequireBase("a restore has failed");
  const std::string restoring =
      absl::StrCat("the restore of step ", step.record().version.step);
  parts_.lineage->BeginWriting(restoring);
  CKPTDB_RETURN_IF_ERROR(
      AgreeOn("load the step", Annotate(plan->Run(), restoring)));
  report.load_micros = lap();
  evolved_by_request_ = request.evolve.has_value();

  report.store =
      opener_.IsOwn(request.path) ? parts_.options.path : request.path;
  DescribeRestore(opened, *plan, &report);
  CKPTDB_RETURN_IF_ERROR(
      NoteRestored(step, *plan, report.store,
                   request.mode == LiveTable::RestoreMode::kMerge));
  parts_.lineage->EndWriting();
  return report;
}

// Plans a restore of all that is registered, and checks that it fits.
absl::StatusOr<LoadPlan> Restorer::PlanRestore(
    const OpenedStep& opened, const RestoreRequest& request) const {
  const std::optional<EvolvePolicy>& evolve =
      request.evolve.has_value() ? request.evolve : parts_.options.evolve;
  LoadRule all;
  if (evolve.has_value()) all = RuleOf(*evolve, opened.get(), parts_.model);
  all.hashtable_clear = request.mode == LiveTable::RestoreMode::kClear;
  CKPTDB_ASSIGN_OR_RETURN(LoadPlan plan, PlanFor(opened, all));
  CKPTDB_RETURN_IF_ERROR(
      evolve.has_value() ? plan.Check(LoadPlan::Demand::kToFit, kEvolvedRemedy)
                         : plan.Check(LoadPlan::Demand::kAll, kRestoreRemedy));
  CKPTDB_RETURN_IF_ERROR(plan.CheckCapacities());
  return plan;
}

absl::StatusOr<LoadPlan> Restorer::PlanFor(const OpenedStep& opened,
                                           const LoadRule& rule) const {
  return CallGuarded("ModelState", [&] {
    return LoadPlan::Make(
        {opened.get(), opened.changes.get(), parts_.model, parts_.options,
         parts_.shardings, parts_.shard, parts_.ranks},
        rule);
  });
}

absl::Status Restorer::NoteRestored(const StepReader& step,
                                    const LoadPlan& plan,
                                    const std::string& path, bool merged) {
  SaveLineage* const lineage = parts_.lineage;
  // A step of another store is no parent of a step of this one.
  if (path != parts_.options.path) {
    lineage->ClearParent(absl::StrCat("the model was loaded from ", path));
    return absl::OkStatus();
  }
  lineage->SetParent(step.record(), plan.OtherTables(parts_.model),
                     parts_.store);
  if (parts_.feed != nullptr) {
    // Earlier marks are in the step.
    CKPTDB_RETURN_IF_ERROR(parts_.feed->Take().status());
  }
  // Rows that were there besides are not in the step.
  if (merged) lineage->RequireBase("a restore was merged into the model");
  return absl::OkStatus();
}

absl::StatusOr<CheckpointManager::LoadSummary> Restorer::Load(
    const std::vector<LoadRule>& rules, bool dry_run) {
  CheckpointManager::LoadSummary summary;
  for (const LoadRule& rule : rules) {
    CheckpointManager::LoadedRule& loaded = summary.rules.emplace_back();
    loaded.path = rule.path.empty() ? parts_.options.path : rule.path;
    if (rule.skip) {
      loaded.note = "skipped";
      continue;
    }
    const absl::Status status =
        OnlyEmptyIsNotFound(LoadByRule(rule, dry_run, &loaded));
    if (status.ok()) continue;
    if (!rule.ignore_error) return status;
    loaded.note = absl::StrCat("error ignored: ", status.ToString());
  }
  return summary;
}

// The newest step of the manager's own store, or the error of finding it.
absl::StatusOr<RestoreTarget> Restorer::FindOwnStep() {
  RestoreTarget own;
  if (is_owner()) {
    // Only the owner has opened the store, and what it finds counts for all
    // ranks: the store may change between two looks.
    const absl::StatusOr<StepRecord> latest = opener_.LatestOwn();
    own.error = latest.status();
    if (latest.ok()) own.version = latest->version;
  }
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes,
                          parts_.ranks->Broadcast("own step", Encode(own),
                                                  parts_.options.deadline));
  CKPTDB_RETURN_IF_ERROR(Decode(bytes, &own));
  return own;
}

absl::Status Restorer::LoadByRule(const LoadRule& rule, bool dry_run,
                                  CheckpointManager::LoadedRule* loaded) {
  if (!rule.is_dynamic) {
    CKPTDB_ASSIGN_OR_RETURN(const RestoreTarget own, FindOwnStep());
    if (own.error.ok()) {
      loaded->note =
          absl::StrCat("not loaded, as the store has step ", own.version.step);
      return absl::OkStatus();
    }
    if (!absl::IsNotFound(own.error)) return own.error;
  }
  return LoadStep(rule, dry_run, loaded);
}

absl::Status Restorer::LoadStep(const LoadRule& rule, bool dry_run,
                                CheckpointManager::LoadedRule* loaded) {
  CKPTDB_ASSIGN_OR_RETURN(const RestoreRequest request, SourceOf(rule));
  CKPTDB_ASSIGN_OR_RETURN(const OpenedStep opened, opener_.Open(request));
  absl::StatusOr<LoadPlan> plan = PlanFor(opened, rule);
  absl::Status status = plan.status();
  const auto describe = [&] {
    LoadedRule described = plan->Describe();
    described.path = loaded->path;
    *loaded = std::move(described);
  };
  if (plan.ok()) {
    if (!dry_run) plan->SetNotLoaded();
    describe();
    if (!dry_run) {
      status = plan->Check(
          rule.strict ? LoadPlan::Demand::kAll : LoadPlan::Demand::kAny,
          kLoadRemedy);
      if (status.ok()) status = plan->CheckCapacities();
    }
  }
  CKPTDB_RETURN_IF_ERROR(AgreeOn("check the step", status));
  if (dry_run) return absl::OkStatus();
  // Its changes are not marked, and are in no step.
  parts_.lineage->RequireBase(
      absl::StrCat("the model was loaded from ", loaded->path));
  parts_.lineage->BeginWriting(absl::StrCat("a load from step ",
                                            opened.get().record().version.step,
                                            " of ", loaded->path));
  status = plan->Run();
  describe();
  status = AgreeOn("load the step", status);
  // With ignore_error the caller keeps a model that is partly written.
  if (status.ok() || rule.ignore_error) parts_.lineage->EndWriting();
  return status;
}

// Compares attempts, which only grow, as training may have gone back to an
// older step.
bool Restorer::HasNewer() const {
  const absl::StatusOr<StepRecord> latest = parts_.reader->Latest();
  return latest.ok() &&
         (!parts_.lineage->parent().has_value() ||
          StateOf(*latest).attempt > parts_.lineage->parent_attempt());
}

absl::Status Restorer::AwaitNewer(absl::Duration timeout,
                                  const std::function<bool()>& cancelled) {
  const absl::Duration longest = absl::Hours(24) * 365;  // for the clock
  const Clock::time_point end =
      Clock::now() + absl::ToChronoNanoseconds(std::min(timeout, longest));
  const auto poll_every =
      absl::ToChronoNanoseconds(std::min(parts_.options.poll_every, longest));
  while (true) {
    const absl::Status refreshed = parts_.reader->Refresh();
    // A trainer that saves all the time: the next look is soon.
    if (!absl::IsUnavailable(refreshed)) CKPTDB_RETURN_IF_ERROR(refreshed);
    if (HasNewer()) return absl::OkStatus();
    const Clock::time_point now = Clock::now();
    if (now >= end) break;
    CKPTDB_RETURN_IF_ERROR(
        WaitUntil(std::min(end, now + poll_every), cancelled));
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "store \"", parts_.options.path, "\": no newer step was saved within ",
      absl::FormatDuration(timeout), "; ",
      DescribeLatest(parts_.reader->Latest())));
}

}  // namespace ckptdb::internal
