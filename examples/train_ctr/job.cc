// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/job.h"

#include <atomic>
#include <cstdio>
#include <memory>
#include <utility>

#include <ckptdb/schema/status.h>
#include "absl/strings/str_cat.h"
#include "train_ctr/crash_drill.h"
#include "train_ctr/digest.h"
#include "train_ctr/reader.h"

namespace train_ctr {
namespace {

absl::StatusOr<std::unique_ptr<Trainer>> MakeTrainer(const Options& options,
                                                     examples::Ranks* own) {
  CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<Source> source, OpenSource(options));
  CKPTDB_ASSIGN_OR_RETURN(
      std::unique_ptr<Reader> reader,
      Reader::Create(std::move(source), options.shuffle_examples,
                     options.trainer.seed));
  return Trainer::Create(options.trainer, std::move(reader), own);
}

void PrintEvaluation(int64_t step, const Evaluation& evaluation,
                     uint64_t rows) {
  const std::string resumed =
      evaluation.resumed_after == 0
          ? ""
          : absl::StrCat(", ", evaluation.resumed_after, " of ",
                         evaluation.examples, " examples by a run before");
  std::fprintf(stderr, "step %lld: loss %.4f, auc %.4f, %llu rows%s\n",
               static_cast<long long>(step), evaluation.loss, evaluation.auc,
               static_cast<unsigned long long>(rows), resumed.c_str());
}

void PrintSave(const SaveReport& save) {
  const std::string why =
      save.base_reason.empty() ? "" : absl::StrCat(" (", save.base_reason, ")");
  std::fprintf(stderr,
               "step %lld saved: %s%s, %llu rows, %llu erased, %llu bytes, "
               "%.1f ms blocking, durable after %.1f ms\n",
               static_cast<long long>(save.step), save.kind.c_str(),
               why.c_str(), static_cast<unsigned long long>(save.rows_upserted),
               static_cast<unsigned long long>(save.rows_erased),
               static_cast<unsigned long long>(save.bytes), save.blocking_ms,
               save.save_ms);
}

// The state of a run between its steps.
class Job {
 public:
  Job(const Options& options, examples::Ranks* own,
      const std::atomic<bool>* stopped)
      : options_(options), own_(own), stopped_(stopped) {}

  absl::StatusOr<JobReport> Run();

 private:
  absl::Status Open();
  absl::Status Resume();
  absl::Status ResumeFrom(int64_t step);
  absl::Status Evaluate();
  absl::Status Train();
  absl::StatusOr<JobReport> Finish();
  absl::Status AfterStep(double train_loss);
  void TakeReports();
  absl::Status CountRows();
  std::string SharedOptions() const;
  absl::StatusOr<CheckpointOptions> NewCheckpointOptions() const;

  const Options& options_;
  examples::Ranks* const own_;
  const std::atomic<bool>* const stopped_;
  std::shared_ptr<CrashDrill> crash_drill_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Checkpoints> checkpoints_;
  JobReport report_;
};

absl::StatusOr<JobReport> Job::Run() {
  CKPTDB_RETURN_IF_ERROR(Open());
  CKPTDB_RETURN_IF_ERROR(Resume());
  CKPTDB_RETURN_IF_ERROR(Train());
  return Finish();
}

absl::Status Job::Open() {
  std::optional<CrashAt> crash_at;
  if (!options_.crash_at.empty()) {
    CKPTDB_ASSIGN_OR_RETURN(crash_at, ParseCrashAt(options_.crash_at));
  }
  if (options_.crash_rank >= own_->size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--crash-rank ", options_.crash_rank, ": there are ",
                     own_->size(), " ranks, numbered from 0"));
  }
  crash_drill_ = std::make_shared<CrashDrill>(
      std::move(crash_at), options_.crash_rank == own_->rank());
  CKPTDB_ASSIGN_OR_RETURN(trainer_, MakeTrainer(options_, own_));
  CKPTDB_RETURN_IF_ERROR(
      examples::CheckSame(own_, "options or data", SharedOptions()));
  CKPTDB_ASSIGN_OR_RETURN(const CheckpointOptions checkpoint,
                          NewCheckpointOptions());
  CKPTDB_ASSIGN_OR_RETURN(checkpoints_,
                          Checkpoints::Open(checkpoint, trainer_.get()));
  return absl::OkStatus();
}

// The options that must match on all ranks.
std::string Job::SharedOptions() const {
  return absl::StrCat(
      trainer_->progress(), options_.steps, " ", options_.save_every, " ",
      options_.eval_every, " ", options_.sync, options_.delta, options_.resume,
      " ", options_.crash_at, " ", static_cast<int>(trainer_->sharding()));
}

absl::StatusOr<CheckpointOptions> Job::NewCheckpointOptions() const {
  CheckpointOptions checkpoint;
  checkpoint.store = options_.store;
  checkpoint.save_every = options_.save_every;
  checkpoint.last_step = options_.steps;
  checkpoint.async = !options_.sync;
  checkpoint.keep_steps = options_.keep_steps;
  checkpoint.delta = options_.delta;
  checkpoint.base_every = options_.base_every;
  checkpoint.abandoned = options_.abandoned;
  checkpoint.eval_save_every = options_.eval_save_every;
  checkpoint.crash_drill = crash_drill_;
  if (!options_.config.empty()) {
    CKPTDB_ASSIGN_OR_RETURN(checkpoint.config, ReadConfig(options_.config));
  }
  return checkpoint;
}

absl::Status Job::Resume() {
  if (!options_.resume && !options_.resume_step) {
    return checkpoints_->CheckEmpty();
  }
  CKPTDB_ASSIGN_OR_RETURN(const std::optional<int64_t> step,
                          checkpoints_->RestoreOrStart(options_.resume_step));
  return step ? ResumeFrom(*step) : absl::OkStatus();
}

absl::Status Job::ResumeFrom(int64_t step) {
  if (step > options_.steps) {
    return absl::FailedPreconditionError(
        absl::StrCat("store ", options_.store, " is at step ", step,
                     ", after the last of ", options_.steps, " steps"));
  }
  report_.resumed_from = step;
  CKPTDB_RETURN_IF_ERROR(CountRows());
  if (own_->is_owner()) {
    std::fprintf(stderr, "resumed from step %lld: %llu rows\n",
                 static_cast<long long>(step),
                 static_cast<unsigned long long>(report_.rows));
  }
  if (step == options_.steps) return absl::OkStatus();  // Finish does
  CKPTDB_ASSIGN_OR_RETURN(const bool cut_off,
                          checkpoints_->EvaluationUnderWay());
  return cut_off ? Evaluate() : absl::OkStatus();
}

absl::Status Job::Evaluate() {
  CKPTDB_ASSIGN_OR_RETURN(report_.evaluation, checkpoints_->Evaluate());
  CKPTDB_RETURN_IF_ERROR(CountRows());
  if (own_->is_owner()) {
    PrintEvaluation(trainer_->step(), report_.evaluation, report_.rows);
  }
  return absl::OkStatus();
}

absl::Status Job::CountRows() {
  CKPTDB_ASSIGN_OR_RETURN(report_.rows,
                          examples::Sum(own_, "row counts", trainer_->rows()));
  return absl::OkStatus();
}

absl::Status Job::Train() {
  CKPTDB_RETURN_IF_ERROR(checkpoints_->StartTraining());
  while (trainer_->step() < options_.steps && !report_.preempted) {
    CKPTDB_ASSIGN_OR_RETURN(const double loss, trainer_->Step());
    CKPTDB_RETURN_IF_ERROR(AfterStep(loss));
  }
  return absl::OkStatus();
}

absl::Status Job::AfterStep(double train_loss) {
  const int64_t step = trainer_->step();
  crash_drill_->Trained(step);
  if (*stopped_) checkpoints_->SetPreempted();
  CKPTDB_ASSIGN_OR_RETURN(const ckptdb::StepOutcome outcome,
                          checkpoints_->AfterStep(train_loss));
  report_.preempted = outcome.preempted;
  TakeReports();
  const bool last = step == options_.steps || report_.preempted;
  if (last || options_.eval_every == 0 || step % options_.eval_every != 0) {
    return absl::OkStatus();
  }
  return Evaluate();
}

void Job::TakeReports() {
  for (SaveReport& save : checkpoints_->TakeReports()) {
    PrintSave(save);
    report_.saves.push_back(std::move(save));
  }
}

absl::StatusOr<JobReport> Job::Finish() {
  CKPTDB_RETURN_IF_ERROR(checkpoints_->Finish());
  TakeReports();
  // A preempted job has no time for it.
  if (!report_.preempted) CKPTDB_RETURN_IF_ERROR(Evaluate());
  report_.step = trainer_->step();
  CKPTDB_ASSIGN_OR_RETURN(report_.digest, SharedDigest(*trainer_));
  CKPTDB_RETURN_IF_ERROR(CountRows());
  report_.epoch = trainer_->epoch();
  if (own_->is_owner()) {
    std::fprintf(stderr, "digest %s\n", report_.digest.c_str());
  }
  return report_;
}

}  // namespace

absl::StatusOr<JobReport> RunJob(const Options& options, examples::Ranks* own,
                                 const std::atomic<bool>* stopped) {
  auto job = std::make_unique<Job>(options, own, stopped);
  absl::StatusOr<JobReport> report = job->Run();
  if (!report.ok() && own->size() > 1) {
    // Its destructor would wait for the save in progress, and so for ranks that
    // may be gone. The process is about to end.
    job.release();  // NOLINT(bugprone-unused-return-value)
  }
  return report;
}

}  // namespace train_ctr
