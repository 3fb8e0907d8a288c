// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/checkpoint.h"

#include <ckptdb/manager/checkpoint_manager.h>
#include <ckptdb/schema/status.h>

#include <cstdio>

#include "absl/strings/str_cat.h"

namespace train_ctr {
namespace {

constexpr double kMicrosPerMilli = 1000;

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoints>> Checkpoints::Open(
    const CheckpointOptions& options, Trainer* trainer) {
  std::unique_ptr<Checkpoints> checkpoints(new Checkpoints(options, trainer));
  CKPTDB_RETURN_IF_ERROR(checkpoints->model_.AddObject(
      std::string(kProgress), &checkpoints->progress_));
  CKPTDB_RETURN_IF_ERROR(trainer->model()->Register(&checkpoints->model_));
  CKPTDB_ASSIGN_OR_RETURN(const ckptdb::ManagerOptions manager_options,
                          checkpoints->NewManagerOptions());
  CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<ckptdb::Coordinator> ranks,
                          trainer->ranks()->NewCoordinator());
  CKPTDB_ASSIGN_OR_RETURN(
      checkpoints->manager_,
      ckptdb::CheckpointManager::Open(manager_options, &checkpoints->model_,
                                      std::move(ranks)));
  CKPTDB_ASSIGN_OR_RETURN(
      checkpoints->evaluator_,
      Evaluator::Create(trainer, checkpoints->manager_->evaluation(),
                        options.eval_save_every, options.crash_drill));
  return checkpoints;
}

ckptdb::SavePolicy Checkpoints::Schedule() const {
  if (options_.save_every <= 0) return {};
  return ckptdb::SaveEveryNSteps(options_.save_every) |
         ckptdb::SaveAtSteps({options_.last_step});
}

absl::StatusOr<ckptdb::ManagerOptions> Checkpoints::NewManagerOptions() {
  ckptdb::ManagerOptions manager;
  manager.path = options_.store;
  manager.store.on_point = [drill =
                                options_.crash_drill](absl::string_view point) {
    drill->Passed(point);
  };
  manager.schedule.permanent = Schedule();
  manager.retention.keep = ckptdb::LatestN(options_.keep_steps);
  manager.save.deltas = options_.delta;
  manager.save.base_every = options_.base_every;
  manager.restore.abandoned = options_.abandoned;
  manager.save.user_metadata = {{"trainer", "train_ctr"},
                                {"options", trainer_->identity()}};
  if (own_->is_owner()) {
    manager.observers.on_saved = [this](const ckptdb::SaveReport& saved) {
      OnSaved(saved);
    };
  }
  manager.save.first_save = ckptdb::ManagerOptions::FirstSave::kNever;
  manager.save.async = options_.async;
  manager.ranks.deadline = own_->deadline();
  CKPTDB_RETURN_IF_ERROR(
      ckptdb::ReadManagerConfig(options_.config.manager, &manager));
  CKPTDB_ASSIGN_OR_RETURN(load_, ckptdb::ParseLoadSpec(options_.config.load));
  if (manager.path != options_.store) {
    return absl::InvalidArgumentError(
        absl::StrCat("the configuration's path is \"", manager.path,
                     "\", but --store is \"", options_.store, "\""));
  }
  if (manager.read_only) {
    return absl::InvalidArgumentError("a trainer cannot be read_only");
  }
  if (options_.crash_drill->at_point()) {
    manager.save.async = false;
    manager.store.background_sweep = false;
  }
  return manager;
}

absl::Status Checkpoints::CheckEmpty() const {
  const absl::StatusOr<int64_t> latest = examples::AskOwner(
      own_, "the step saved last", [this]() -> absl::StatusOr<int64_t> {
        CKPTDB_ASSIGN_OR_RETURN(const auto record, manager_->store()->Latest());
        return record.version.step;
      });
  if (absl::IsNotFound(latest.status())) return absl::OkStatus();
  CKPTDB_RETURN_IF_ERROR(latest.status());
  return absl::AlreadyExistsError(
      absl::StrCat("store ", options_.store, " has step ", *latest,
                   "; go on from it with --resume, or name another store"));
}

absl::Status Checkpoints::CheckSaved(int64_t step) const {
  return examples::AskOwner(own_, "a saved step",
                            [&]() -> absl::StatusOr<int64_t> {
                              CKPTDB_ASSIGN_OR_RETURN(
                                  const auto record,
                                  manager_->store()->FindStep(step));
                              return record.version.step;
                            })
      .status();
}

absl::StatusOr<std::optional<int64_t>> Checkpoints::RestoreOrStart(
    std::optional<int64_t> step) {
  CKPTDB_ASSIGN_OR_RETURN(const auto start,
                          manager_->RestoreOrStart({.step = step}));
  if (start.fresh()) return std::nullopt;
  restored_ = true;
  CKPTDB_RETURN_IF_ERROR(trainer_->model()->OnRestored());
  return start.restored->version.step;
}

absl::Status Checkpoints::StartTraining() {
  if (!restored_ && !load_.empty()) {
    CKPTDB_ASSIGN_OR_RETURN(const ckptdb::LoadSummary loaded,
                            manager_->Load(load_));
    CKPTDB_RETURN_IF_ERROR(trainer_->model()->OnRestored());
    std::fprintf(stderr, "%s", loaded.ToString().c_str());
  }
  return manager_->StartTraining();
}

absl::StatusOr<ckptdb::StepOutcome> Checkpoints::AfterStep(double train_loss) {
  options_.crash_drill->Arm(trainer_->step());
  CKPTDB_ASSIGN_OR_RETURN(
      ckptdb::StepOutcome outcome,
      manager_->StepTo(trainer_->step(), MetricsOf(train_loss)));
  CKPTDB_RETURN_IF_ERROR(EndDrill(outcome.save.has_value()));
  return outcome;
}

// The owner's metrics become the step's.
ckptdb::Metrics Checkpoints::MetricsOf(double train_loss) const {
  return own_->is_owner() ? ckptdb::Metrics{{"train_loss", train_loss}}
                          : ckptdb::Metrics();
}

absl::Status Checkpoints::Save(double train_loss) {
  if (trainer_->step() != manager_->global_step()) {
    CKPTDB_RETURN_IF_ERROR(manager_->StepTo(trainer_->step()).status());
  }
  ckptdb::SaveRequest request;
  request.metrics = MetricsOf(train_loss);
  return manager_->Save(request).status();
}

// The sweep after a save that is drilled belongs to it.
absl::Status Checkpoints::EndDrill(bool saved) {
  if (saved && own_->is_owner() && options_.crash_drill->at_point()) {
    CKPTDB_RETURN_IF_ERROR(manager_->store()->Sweep().status());
  }
  return options_.crash_drill->Disarm();
}

absl::Status Checkpoints::Finish() { return manager_->FinishTraining(); }

absl::StatusOr<Evaluation> Checkpoints::Evaluate() {
  CKPTDB_RETURN_IF_ERROR(manager_->WaitUntilFinished());
  const absl::Status saved = CheckSaved(trainer_->step());
  if (absl::IsNotFound(saved)) return trainer_->Evaluate();
  CKPTDB_RETURN_IF_ERROR(saved);
  return evaluator_->Run();
}

absl::StatusOr<bool> Checkpoints::EvaluationUnderWay() const {
  CKPTDB_ASSIGN_OR_RETURN(
      const int64_t kept,
      examples::AskOwner(
          own_, "evaluations under way", [this]() -> absl::StatusOr<int64_t> {
            CKPTDB_ASSIGN_OR_RETURN(
                const auto found,
                manager_->store()->ListEvaluations(trainer_->step()));
            return static_cast<int64_t>(found.size());
          }));
  return kept > 0;
}

std::vector<SaveReport> Checkpoints::TakeReports() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(reports_, {});
}

void Checkpoints::OnSaved(const ckptdb::SaveReport& saved) {
  if (!saved.status.ok()) return;  // the training loop receives the error
  SaveReport report;
  report.step = saved.step;
  report.kind = std::string(ckptdb::StepKindName(saved.result.kind));
  report.bytes = saved.result.exclusive_bytes;
  report.blocking_ms =
      static_cast<double>(saved.blocking_micros) / kMicrosPerMilli;
  report.save_ms = static_cast<double>(saved.total_micros) / kMicrosPerMilli;
  report.commit_ms =
      static_cast<double>(saved.result.commit_micros) / kMicrosPerMilli;
  if (const absl::Status counted = CountRows(&report); !counted.ok()) {
    std::fprintf(stderr, "step %lld: %s\n", static_cast<long long>(report.step),
                 counted.ToString().c_str());
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  reports_.push_back(std::move(report));
}

absl::Status Checkpoints::CountRows(SaveReport* report) const {
  CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<ckptdb::StepReader> step,
                          manager_->store()->OpenStep(report->step));
  for (const ckptdb::StepRecord::Rank& rank : step->ranks()) {
    for (const ckptdb::Item& item : rank.items) {
      if (item.kind != ckptdb::Item::Kind::kRows) continue;
      report->rows_upserted += item.rows;
      report->rows_erased += item.erased_rows;
      if (report->base_reason.empty()) report->base_reason = item.base_reason;
    }
  }
  return absl::OkStatus();
}

}  // namespace train_ctr
