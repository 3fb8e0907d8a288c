// How a manager restores: the owner picks a step, all ranks load their part.
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/base/call_guard.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/manager/config/statistics.h"
#include "ckptdb/manager/core/manager_impl.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {
namespace {

using internal::RestoreTarget;

// A step given up at a restore is one of these.
bool IsAfter(const StepRecord& a, const StepRecord& b) {
  return a.version.step > b.version.step ||
         StateOf(a).attempt > StateOf(b).attempt;
}

}  // namespace

bool CheckpointManager::Impl::IsOwn(const std::string& path) const {
  if (path.empty() || path == options_.path) return true;
  // It may be spelled another way.
  const absl::StatusOr<std::string> resolved =
      Store::ResolvePath(path, options_.store);
  return resolved.ok() && *resolved == options_.path;
}

absl::Status CheckpointManager::Impl::AgreeOn(absl::string_view tag,
                                              const absl::Status& status) {
  return Agree(ranks_.get(), tag, status, options_.deadline);
}

absl::StatusOr<RestoreReport> CheckpointManager::Impl::Restore(
    const RestoreRequest& request) {
  const Clock::time_point begin = Clock::now();
  Settle();
  CKPTDB_RETURN_IF_ERROR(AgreeOn("restore", TakeError()));
  std::vector<int64_t> damaged;
  while (true) {
    absl::StatusOr<RestoreReport> report = RestoreOnce(request);
    if (report.ok()) {
      report->damaged = std::move(damaged);
      Report(begin, &*report);
      return report;
    }
    const bool next = !read_only() && request.fall_back &&
                      !request.step.has_value() && IsOwn(request.path) &&
                      picked_.has_value() && absl::IsDataLoss(report.status());
    if (!next) return report;
    damaged.push_back(picked_->step);
    absl::Status marked;
    if (is_owner()) marked = store_->Quarantine(picked_->step);
    CKPTDB_RETURN_IF_ERROR(AgreeOn("quarantine", marked));
  }
}

void CheckpointManager::Impl::Report(Clock::time_point begin,
                                     RestoreReport* report) const {
  report->finished_micros = MicrosSince(begin);
  if (is_owner()) {
    NoteStatistics(
        internal::AppendStatistics(options_.statistics_path, *report));
  }
  if (!options_.on_restored) return;
  NoteCallback(internal::CallGuarded("ManagerOptions::on_restored",
                                     [&] { options_.on_restored(*report); }));
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
      const absl::StatusOr<StepRecord> latest = LatestOwn();
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
  // What it changes is not marked, and is of no step.
  base_due_ = absl::StrCat("the model was loaded from ", loaded->path);
  return AgreeOn("load the step", plan->Run());
}

absl::StatusOr<internal::LoadPlan> CheckpointManager::Impl::PlanFor(
    const OpenedStep& opened, const LoadRule& rule) const {
  return internal::CallGuarded("ModelState", [&] {
    return internal::LoadPlan::Make(opened.get(), opened.changes.get(), *model_,
                                    options_, shardings_,
                                    {ranks_->rank(), world_size()}, rule);
  });
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
  return BestOf(other != nullptr ? other->Steps() : store_->Steps());
}

absl::StatusOr<StepRecord> CheckpointManager::Impl::BestOf(
    const std::vector<StepRecord>& steps) const {
  if (options_.best.has_value()) {
    return ckptdb::BestStep(steps, *options_.best);
  }
  return absl::FailedPreconditionError(
      "which step is best was not said in ManagerOptions::best");
}

absl::StatusOr<StepRecord> CheckpointManager::Impl::BestStep() {
  if (!read_only()) {
    CKPTDB_RETURN_IF_ERROR(CheckOwner());
    return BestOf(store_->Steps());
  }
  CKPTDB_RETURN_IF_ERROR(reader_->Refresh());
  return BestOf(reader_->Steps());
}

absl::StatusOr<StepRecord> CheckpointManager::Impl::LatestOwn() const {
  if (store_ != nullptr) return store_->Latest();
  CKPTDB_RETURN_IF_ERROR(reader_->Refresh());
  return reader_->Latest();
}

// The step that the owner picks, open on all ranks. Who writes the store may
// retire it, or write over it, before it is open: then it picks again. One that
// keeps a single step and saves all the time wins about one in four.
absl::StatusOr<CheckpointManager::Impl::OpenedStep>
CheckpointManager::Impl::OpenForAll(const RestoreRequest& request,
                                    bool by_changes) {
  constexpr int kTries = 50;  // a number, so that all ranks end together
  for (int i = 1;; ++i) {
    picked_.reset();
    absl::StatusOr<OpenedStep> opened = OpenOnce(request, by_changes);
    const bool gone =
        picked_.has_value() && !request.step.has_value() &&
        (absl::IsNotFound(opened.status()) || absl::IsAborted(opened.status()));
    if (!gone || i == kTries) return opened;
  }
}

absl::StatusOr<CheckpointManager::Impl::OpenedStep>
CheckpointManager::Impl::OpenOnce(const RestoreRequest& request,
                                  bool by_changes) {
  const bool own = IsOwn(request.path);
  OpenedStep opened;
  Reader* reader = nullptr;
  absl::Status status;
  if (own && read_only()) {
    reader = reader_.get();
    status = reader->Refresh();
  } else if (!own || !is_owner()) {
    // The owner reads its own store by itself.
    absl::StatusOr<std::unique_ptr<Reader>> other =
        Reader::Open(own ? options_.path : request.path, HowToRead());
    status = other.status();
    if (other.ok()) opened.reader = *std::move(other);
    reader = opened.reader.get();
  }
  CKPTDB_RETURN_IF_ERROR(AgreeOn("open the store", status));

  RestoreTarget target;
  if (is_owner()) {
    const absl::StatusOr<StepRecord> picked = PickStep(request, reader);
    target.error = picked.status();
    if (picked.ok()) target.version = StateOf(*picked);
  }
  CKPTDB_ASSIGN_OR_RETURN(
      const std::string bytes,
      ranks_->Broadcast("step to restore", Encode(target), options_.deadline));
  CKPTDB_RETURN_IF_ERROR(Decode(bytes, &target));
  CKPTDB_RETURN_IF_ERROR(target.error);
  picked_ = target.version;
  CKPTDB_RETURN_IF_ERROR(
      AgreeOn("open the step", OpenAt(target, reader, by_changes, &opened)));
  return opened;
}

// What the owner picked, and nothing that was written over it since.
absl::Status CheckpointManager::Impl::OpenAt(const RestoreTarget& target,
                                             Reader* reader, bool by_changes,
                                             OpenedStep* opened) const {
  const int64_t step = target.version.step;
  if (by_changes) {
    auto changes = reader->OpenChanges(*parent_, step);
    // Else all of the step is read, and what is wrong with it is found there.
    if (changes.ok()) opened->changes = *std::move(changes);
  }
  if (opened->changes == nullptr) {
    CKPTDB_ASSIGN_OR_RETURN(opened->step, reader != nullptr
                                              ? reader->OpenStep(step)
                                              : store_->OpenStep(step));
  }
  if (StateOf(opened->get().record()) == target.version) {
    return absl::OkStatus();
  }
  return absl::AbortedError(
      absl::StrCat("step ", step, " was written over while it was opened"));
}

absl::StatusOr<RestoreReport> CheckpointManager::Impl::RestoreOnce(
    const RestoreRequest& request, bool by_changes) {
  RestoreReport report;
  Clock::time_point begin = Clock::now();
  const auto lap = [&begin] {
    return MicrosSince(std::exchange(begin, Clock::now()));
  };
  CKPTDB_ASSIGN_OR_RETURN(const OpenedStep opened,
                          OpenForAll(request, by_changes));
  report.open_micros = lap();
  const StepReader& step = opened.get();
  LoadRule all;
  all.hashtable_clear = request.mode == RestoreMode::kClear;
  const absl::StatusOr<internal::LoadPlan> plan = PlanFor(opened, all);
  absl::Status status = plan.ok() ? plan->CheckAll() : plan.status();
  if (status.ok() && is_owner() && (request.verify || request.fall_back)) {
    status = step.Verify(options_.read);
  }
  // No model is touched when one rank cannot load the step.
  CKPTDB_RETURN_IF_ERROR(AgreeOn("check the step", status));
  report.check_micros = lap();
  base_due_ = "a restore has failed";
  CKPTDB_RETURN_IF_ERROR(AgreeOn("load the step", plan->Run()));
  report.load_micros = lap();

  report.version = step.record().version;
  report.record = step.record();
  report.path = IsOwn(request.path) ? options_.path : request.path;
  report.by_changes = opened.changes != nullptr;
  report.loaded = plan->Describe();
  report.loaded.path = report.path;
  report.bytes = report.loaded.bytes();
  report.rows = report.loaded.rows();
  CKPTDB_RETURN_IF_ERROR(
      NoteRestored(step, report.path, /*merged=*/!all.hashtable_clear));
  return report;
}

// Sets the parent of the next save.
absl::Status CheckpointManager::Impl::NoteRestored(const StepReader& step,
                                                   const std::string& path,
                                                   bool merged) {
  restored_ = true;
  before_first_step_ = false;
  if (path == options_.path) {
    CKPTDB_RETURN_IF_ERROR(GoOnFrom(step));
    // Rows that were there besides are not in the step.
    if (merged) base_due_ = "a restore was merged into the model";
    return absl::OkStatus();
  }
  parent_.reset();
  source_.reset();
  deltas_ = 0;
  base_due_ = absl::StrCat("the model was loaded from ", path);
  return absl::OkStatus();
}

absl::Status CheckpointManager::Impl::GoOnFrom(const StepReader& step) {
  const StepRecord& record = step.record();
  global_step_ = record.version.step;
  parent_ = record.version;
  parent_state_ = StateOf(record).attempt;
  deltas_ = record.chain.size() - 1;
  base_due_.clear();
  source_ = record.version.step;
  abandoned_steps_.clear();
  owed_.reset();
  if (store_ != nullptr) {
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
