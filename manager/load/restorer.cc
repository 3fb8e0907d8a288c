// SPDX-License-Identifier: Apache-2.0
#include "manager/load/restorer.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "db/base/mutex.h"
#include "manager/load/loaded_items.h"
#include "manager/load/step_items.h"
#include "manager/ranks/messages.h"
#include "manager/state/micros_since.h"
#include "manager/state/poll_cancelled.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

using Clock = std::chrono::steady_clock;

// Remedies for a step that does not fit.
constexpr char kRestoreRemedy[] =
    "register the items as they are in the step, or set "
    "RestoreRequest::evolve, which renames items, fills and converts slots, "
    "and leaves unchanged new items and those that it excludes";
constexpr char kEvolvedRemedy[] =
    "set how to restore them in EvolvePolicy: oname, exclude, cast or tables";
constexpr char kLoadRemedy[] =
    "map names with \"oname\", or load the rest with \"strict\": false";
// Remedies for another dtype.
constexpr char kRestoreCastRemedy[] =
    "set EvolvePolicy::cast, which converts it";
constexpr char kLoadCastRemedy[] = "a load rule with \"cast\" converts it";

std::string DescribeLatest(const absl::StatusOr<StepRecord>& latest) {
  if (!latest.ok()) return std::string(latest.status().message());
  return absl::StrCat("the newest is step ", latest->version.step);
}

// Returns the request for the step that a rule loads from.
absl::StatusOr<RestoreRequest> SourceOf(const LoadRule& rule) {
  if (rule.step.has_value() && rule.best.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "load rule: \"step\" is ", *rule.step, " and \"best\" is by \"",
        rule.best->metric, "\"; set only one of the two"));
  }
  RestoreRequest request;
  request.path = rule.path;
  request.step = rule.step;
  request.best_by = rule.best;
  return request;
}

// Describes a restored step. The report contains the store already.
void DescribeRestore(const OpenedStep& opened, const LoadPlan& plan,
                     RestoreReport* report) {
  report->record = opened.get().record();
  report->version = report->record.version;
  report->incremental = opened.changes != nullptr;
  report->loaded = plan.Describe();
  report->loaded.path = report->store;
  report->loaded_bytes = report->loaded.bytes();
  report->loaded_rows = report->loaded.rows();
}

// Returns the newest step's error, which was found first.
absl::Status NoStepLeft(const absl::Status& first_damage, size_t damaged) {
  return Reword(
      first_damage, absl::StatusCode::kDataLoss,
      absl::StrCat(first_damage.message(),
                   "; no undamaged step is left: this restore quarantined ",
                   damaged));
}

// Returns a restore's error, extended by the reason why the step was not
// quarantined.
absl::Status NotDamaged(const absl::Status& error, int64_t step,
                        const absl::Status& verified) {
  const std::string result =
      verified.ok()
          ? "has been verified and is undamaged, so the error is from the "
            "model's own code (BlobState::Load, LiveTable, a conversion)"
          : absl::StrCat("cannot be verified (", verified.message(), ")");
  return Reword(error, error.code(),
                absl::StrCat(error.message(), "; step ", step, " ", result,
                             ", and it was not quarantined"));
}

// A rule ignores errors, but not that its caller wants the load to end.
bool Ignores(const LoadRule& rule, const absl::Status& status) {
  return rule.ignore_error && !absl::IsCancelled(status);
}

// Waits until `end`, or until `poll` returns an error.
absl::Status WaitUntil(Clock::time_point end,
                       const std::function<absl::Status()>& poll) {
  Mutex mutex;
  ConditionVariable never;
  while (true) {
    CKPTDB_RETURN_IF_ERROR(poll());
    const Clock::time_point now = Clock::now();
    if (now >= end) return absl::OkStatus();
    const MutexLock lock(&mutex);
    never.WaitUntil(&mutex, std::min(end, now + kPollEvery));
  }
}

}  // namespace

Restorer::Restorer(const Parts& parts)
    : parts_(parts),
      opener_(parts.options, parts.ranks, parts.store, parts.reader) {}

absl::Status Restorer::AgreeOn(absl::string_view tag,
                               const absl::Status& status) {
  return Agree(parts_.ranks, tag, status, parts_.options.ranks.deadline);
}

absl::StatusOr<RestoreReport> Restorer::Restore(const RestoreRequest& request) {
  absl::StatusOr<RestoreReport> report = RestoreOrFallBack(request);
  if (report.ok()) return report;
  return NotFoundOnlyIfEmpty(report.status());
}

// A trainer may interpret NotFound as a fresh start. But there are other
// causes: a folder that one rank does not see, a step that was removed
// meanwhile, the trainer's code that loads an object.
absl::Status Restorer::NotFoundOnlyIfEmpty(const absl::Status& status) const {
  return internal::NotFoundOnlyIfEmpty(status, opener_.found_empty());
}

absl::StatusOr<std::optional<RestoreRequest>> Restorer::RequestAtStart(
    const RestoreRequest& request) {
  const bool elsewhere = !opener_.IsOwn(request.path);
  CKPTDB_ASSIGN_OR_RETURN(const RestoreTarget own, FindOwnStep());
  if (!absl::IsNotFound(own.error)) {
    if (!elsewhere) return request;
    // The request names the step that the first run began with, but this is a
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
                   "\" has no step, but step ", *request.step,
                   " was requested; leave RestoreRequest::step unset for a "
                   "fresh start, or check the folder"));
}

absl::StatusOr<RestoreReport> Restorer::RestoreOrFallBack(
    const RestoreRequest& request) {
  awaited_.reset();  // may be another step than the requested one
  std::vector<int64_t> damaged;
  absl::Status first_damage;
  while (true) {
    absl::StatusOr<RestoreReport> report = RestoreOnce(request, std::nullopt);
    if (report.ok()) {
      report->damaged_steps = std::move(damaged);
      return report;
    }
    const std::optional<Version>& picked = opener_.picked();
    if (!picked.has_value() && !damaged.empty() &&
        absl::IsDataLoss(report.status())) {
      return NoStepLeft(first_damage, damaged.size());
    }
    if (!MayFallBack(request, report.status())) return report;
    CKPTDB_RETURN_IF_ERROR(QuarantineIfDamaged(picked->step, report.status()));
    damaged.push_back(picked->step);
    first_damage.Update(report.status());
  }
}

// A step requested by number is never replaced by another, and steps of another
// store cannot be quarantined.
bool Restorer::MayFallBack(const RestoreRequest& request,
                           const absl::Status& error) const {
  return !parts_.options.read_only && request.fall_back &&
         !request.step.has_value() && opener_.IsOwn(request.path) &&
         opener_.picked().has_value() && absl::IsDataLoss(error);
}

// DataLoss may also be returned by the trainer's own code, such as
// BlobState::Load. Only damage in the store justifies a quarantine, so the
// owner verifies the step first, unless the restore already did.
absl::Status Restorer::QuarantineIfDamaged(int64_t step,
                                           const absl::Status& error) {
  RestoreTarget verified;
  absl::Status marked;
  if (is_owner()) {
    verified.error = damage_.ok() ? VerifyOwnStep(step) : damage_;
    if (absl::IsDataLoss(verified.error)) {
      marked = parts_.store->Quarantine(step);
    }
  }
  CKPTDB_ASSIGN_OR_RETURN(
      const std::string bytes,
      parts_.ranks->Broadcast("verified", Encode(verified),
                              parts_.options.ranks.deadline));
  CKPTDB_RETURN_IF_ERROR(Decode(bytes, &verified));
  CKPTDB_RETURN_IF_ERROR(AgreeOn("quarantine", marked));
  if (absl::IsDataLoss(verified.error)) return absl::OkStatus();
  return NotDamaged(error, step, verified.error);
}

absl::Status Restorer::VerifyOwnStep(int64_t step) const {
  CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<StepReader> reader,
                          parts_.store->OpenStep(step));
  return reader->Verify(parts_.options.restore.read);
}

std::optional<Version> Restorer::HeldVersion() const {
  const SaveLineage& lineage = *parts_.lineage;
  // Changes cannot be applied to a model that does not equal a step, as after a
  // load, nor to one that another policy restored.
  const bool equals_step =
      lineage.base_due_reason().empty() && !evolved_by_request_;
  return equals_step ? lineage.parent() : std::nullopt;
}

absl::StatusOr<Version> Restorer::OpenNewest() {
  awaited_.reset();
  const std::optional<Version> from = HeldVersion();
  CKPTDB_ASSIGN_OR_RETURN(OpenedStep opened, opener_.Open({}, from));
  awaited_.emplace(Awaited{std::move(opened), from});
  return awaited_->opened.get().record().version;
}

absl::StatusOr<RestoreReport> Restorer::RestoreNewest() {
  absl::StatusOr<RestoreReport> report = RestoreOnce({}, HeldVersion());
  if (report.ok()) return report;
  return NotFoundOnlyIfEmpty(report.status());
}

absl::StatusOr<OpenedStep> Restorer::Open(const RestoreRequest& request,
                                          const std::optional<Version>& from) {
  std::optional<Awaited> awaited = std::exchange(awaited_, std::nullopt);
  if (awaited.has_value() && awaited->from == from) {
    return std::move(awaited->opened);
  }
  return opener_.Open(request, from);
}

// Verification reads everything, so only the owner does it.
absl::Status Restorer::VerifyIfAsked(const RestoreRequest& request,
                                     const StepReader& step) {
  if (!is_owner() || !(request.verify || request.fall_back)) {
    return absl::OkStatus();
  }
  absl::Status status = step.Verify(parts_.options.restore.read);
  if (absl::IsDataLoss(status)) damage_ = status;
  return status;
}

absl::StatusOr<RestoreReport> Restorer::RestoreOnce(
    const RestoreRequest& request, const std::optional<Version>& from) {
  RestoreReport report;
  damage_ = absl::OkStatus();
  Clock::time_point begin = Clock::now();
  const auto lap = [&begin] {
    return MicrosSince(std::exchange(begin, Clock::now()));
  };
  CKPTDB_ASSIGN_OR_RETURN(const OpenedStep opened, Open(request, from));
  report.open_micros = lap();
  const StepReader& step = opened.get();
  absl::StatusOr<LoadPlan> plan = PlanFor(
      opened, kRestoreCastRemedy, [&] { return RuleOf(step, request); });
  CKPTDB_RETURN_IF_ERROR(AgreeOnUnexpected(step, &plan));
  absl::Status status = plan.status();
  if (status.ok()) status = CheckRestore(*plan, request);
  if (status.ok()) status = VerifyIfAsked(request, step);
  // No rank changes its model unless all ranks can load the step.
  CKPTDB_RETURN_IF_ERROR(AgreeOn("check the step", status));
  report.check_micros = lap();
  // From here on the model changes. If the restore fails, the next save must
  // not be based on a step that differs from the model.
  parts_.lineage->RequireBase("a restore has failed");
  const std::string restoring =
      absl::StrCat("the restore of step ", step.record().version.step);
  parts_.lineage->BeginWriting(restoring);
  CKPTDB_RETURN_IF_ERROR(
      AgreeOn("load the step", Annotate(plan->Run(), restoring)));
  report.load_micros = lap();
  evolved_by_request_ = request.evolve.has_value();
  excluded_ = plan->excluded();

  report.store =
      opener_.IsOwn(request.path) ? parts_.options.path : request.path;
  DescribeRestore(opened, *plan, &report);
  CKPTDB_RETURN_IF_ERROR(
      NoteRestored(step, *plan, report.store,
                   request.mode == LiveTable::RestoreMode::kMerge));
  parts_.lineage->EndWriting();
  return report;
}

const std::optional<EvolvePolicy>& Restorer::EvolveOf(
    const RestoreRequest& request) const {
  return request.evolve.has_value() ? request.evolve
                                    : parts_.options.restore.evolve;
}

LoadRule Restorer::RuleOf(const StepReader& step,
                          const RestoreRequest& request) const {
  LoadRule all;
  if (const std::optional<EvolvePolicy>& evolve = EvolveOf(request)) {
    all = internal::RuleOf(*evolve, step, parts_.model);
  }
  all.hashtable_clear = request.mode == LiveTable::RestoreMode::kClear;
  return all;
}

absl::StatusOr<LoadPlan> Restorer::PlanFor(
    const OpenedStep& opened, absl::string_view cast_remedy,
    const std::function<LoadRule()>& rule_of_model) const {
  CKPTDB_RETURN_IF_ERROR(CallGuarded("the model's provider", [&] {
    return parts_.model.Provide(&opened.get());
  }));
  return CallGuarded("ModelState", [&] {
    return LoadPlan::Make(
        {opened.get(), opened.changes.get(), parts_.model, parts_.options,
         parts_.shardings, parts_.shard, parts_.ranks, cast_remedy},
        rule_of_model());
  });
}

// A rank that has no plan takes part, so that the others do not wait for it.
absl::Status Restorer::AgreeOnUnexpected(const StepReader& step,
                                         absl::StatusOr<LoadPlan>* plan) const {
  std::vector<StepItem> own;
  if (plan->ok()) {
    own = (*plan)->unexpected();
  } else {
    const std::set<StepItem> all = ItemsOf(step);
    own.assign(all.begin(), all.end());
  }
  CKPTDB_ASSIGN_OR_RETURN(std::vector<StepItem> unexpected,
                          UnexpectedOnAllRanks(std::move(own), parts_.ranks,
                                               parts_.options.ranks.deadline));
  if (plan->ok()) (*plan)->set_unexpected(std::move(unexpected));
  return absl::OkStatus();
}

absl::Status Restorer::CheckRestore(const LoadPlan& plan,
                                    const RestoreRequest& request) const {
  CKPTDB_RETURN_IF_ERROR(
      EvolveOf(request).has_value()
          ? plan.Check(LoadPlan::Demand::kFit, kEvolvedRemedy)
          : plan.Check(LoadPlan::Demand::kAll, kRestoreRemedy));
  return plan.CheckCapacities();
}

absl::Status Restorer::NoteRestored(const StepReader& step,
                                    const LoadPlan& plan,
                                    const std::string& path, bool merged) {
  SaveLineage* const lineage = parts_.lineage;
  // A step of another store cannot be the parent of a step in this one.
  if (path != parts_.options.path) {
    lineage->ClearParent(absl::StrCat("the model was loaded from ", path));
    return absl::OkStatus();
  }
  lineage->SetParent(step.record(), plan.DifferingTables(parts_.model),
                     parts_.store);
  // Earlier marks are in the step.
  if (parts_.feed != nullptr) CKPTDB_RETURN_IF_ERROR(parts_.feed->Drop());
  // Rows that the model had before are not in the step.
  if (merged) lineage->RequireBase("a restore was merged into the model");
  return absl::OkStatus();
}

absl::StatusOr<LoadSummary> Restorer::Load(const std::vector<LoadRule>& rules,
                                           bool dry_run) {
  LoadSummary summary;
  for (const LoadRule& rule : rules) {
    LoadSummary::LoadedRule& loaded = summary.rules.emplace_back();
    loaded.path = rule.path.empty() ? parts_.options.path : rule.path;
    if (rule.skip) {
      loaded.note = "skipped";
      continue;
    }
    const absl::Status status =
        NotFoundOnlyIfEmpty(LoadByRule(rule, dry_run, &loaded));
    if (status.ok()) continue;
    if (!Ignores(rule, status)) return status;
    loaded.note = absl::StrCat("error ignored: ", status.ToString());
  }
  return summary;
}

// Returns the newest step of the manager's own store, or the error of finding
// it.
absl::StatusOr<RestoreTarget> Restorer::FindOwnStep() {
  RestoreTarget own;
  if (is_owner()) {
    // Only the owner has opened the store. Its result applies to all ranks,
    // because the store may change between two lookups.
    const absl::StatusOr<StepRecord> latest = opener_.LatestOwn();
    own.error = latest.status();
    if (latest.ok()) own.version = latest->version;
  }
  CKPTDB_ASSIGN_OR_RETURN(
      const std::string bytes,
      parts_.ranks->Broadcast("own step", Encode(own),
                              parts_.options.ranks.deadline));
  CKPTDB_RETURN_IF_ERROR(Decode(bytes, &own));
  return own;
}

absl::Status Restorer::LoadByRule(const LoadRule& rule, bool dry_run,
                                  LoadSummary::LoadedRule* loaded) {
  if (rule.only_if_empty) {
    CKPTDB_ASSIGN_OR_RETURN(const RestoreTarget own, FindOwnStep());
    if (own.error.ok()) {
      loaded->note = absl::StrCat("not loaded, because the store has step ",
                                  own.version.step);
      return absl::OkStatus();
    }
    if (!absl::IsNotFound(own.error)) return own.error;
  }
  return LoadStep(rule, dry_run, loaded);
}

absl::Status Restorer::LoadStep(const LoadRule& rule, bool dry_run,
                                LoadSummary::LoadedRule* loaded) {
  CKPTDB_ASSIGN_OR_RETURN(const RestoreRequest request, SourceOf(rule));
  CKPTDB_ASSIGN_OR_RETURN(const OpenedStep opened, opener_.Open(request));
  absl::StatusOr<LoadPlan> plan = PlanFor(opened, kLoadCastRemedy, [&] {
    return RuleFor(rule, opened.get(), parts_.model);
  });
  CKPTDB_RETURN_IF_ERROR(AgreeOnUnexpected(opened.get(), &plan));
  absl::Status status = plan.status();
  const auto describe = [&] {
    LoadedRule described = plan->Describe();
    described.path = loaded->path;
    *loaded = std::move(described);
  };
  if (plan.ok()) {
    if (!dry_run) plan->MarkNotLoaded();
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
  // The load's changes are not marked, and no step contains them.
  parts_.lineage->RequireBase(
      absl::StrCat("the model was loaded from ", loaded->path));
  parts_.lineage->BeginWriting(absl::StrCat("a load from step ",
                                            opened.get().record().version.step,
                                            " of ", loaded->path));
  status = plan->Run();
  describe();
  status = AgreeOn("load the step", status);
  // With ignore_error the caller accepts a partly written model.
  if (status.ok() || Ignores(rule, status)) parts_.lineage->EndWriting();
  return status;
}

// Compares attempts, which only grow, because the training may have been reset
// to an older step.
bool Restorer::HasNewer() const {
  const absl::StatusOr<StepRecord> latest = parts_.reader->Latest();
  return latest.ok() &&
         (!parts_.lineage->parent().has_value() ||
          StateOf(*latest).attempt > parts_.lineage->parent_attempt());
}

absl::Status Restorer::AwaitNewer(absl::Duration timeout,
                                  const std::function<absl::Status()>& poll) {
  const absl::Duration longest = absl::Hours(24) * 365;  // clocks overflow
  const Clock::time_point end =
      Clock::now() + absl::ToChronoNanoseconds(std::min(timeout, longest));
  const auto poll_every = absl::ToChronoNanoseconds(
      std::min(parts_.options.follow.poll_every, longest));
  while (true) {
    const absl::Status refreshed = parts_.reader->Refresh();
    // The trainer saves continuously: retry soon.
    if (!absl::IsUnavailable(refreshed)) CKPTDB_RETURN_IF_ERROR(refreshed);
    if (HasNewer()) return absl::OkStatus();
    const Clock::time_point now = Clock::now();
    if (now >= end) break;
    CKPTDB_RETURN_IF_ERROR(WaitUntil(std::min(end, now + poll_every), poll));
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "store \"", parts_.options.path, "\": no newer step was saved within ",
      absl::FormatDuration(timeout), "; ",
      DescribeLatest(parts_.reader->Latest())));
}

}  // namespace ckptdb::internal
