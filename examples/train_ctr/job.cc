// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/job.h"

#include <ckptdb/schema/status.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "train_ctr/digest.h"

namespace train_ctr {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const SaveReport& save) {
  Json json = {{"step", save.step},
               {"kind", save.kind},
               {"bytes", save.bytes},
               {"rows_upserted", save.rows_upserted},
               {"rows_erased", save.rows_erased},
               {"blocking_ms", save.blocking_ms},
               {"save_ms", save.save_ms},
               {"commit_ms", save.commit_ms}};
  if (!save.base_reason.empty()) json["base_reason"] = save.base_reason;
  return json;
}

// The state of a run between its steps.
class Job {
 public:
  Job(const Options& options, examples::Ranks* own,
      const std::atomic<bool>* stopped)
      : options_(options), own_(own), stopped_(stopped) {}

  absl::StatusOr<Json> Run();

 private:
  absl::Status Open();
  absl::Status Resume();
  absl::Status ResumeFrom(int64_t step);
  absl::Status Evaluate();
  absl::Status Train();
  absl::Status AfterStep(double train_loss);
  void TakeReports();
  absl::Status CountRows();
  template <typename... Values>
  void Print(const absl::FormatSpec<Values...>& format,
             const Values&... values) const {
    if (own_->is_owner()) absl::FPrintF(stderr, format, values...);
  }

  const Options& options_;
  examples::Ranks* const own_;
  const std::atomic<bool>* const stopped_;
  std::shared_ptr<CrashDrill> crash_drill_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Checkpoints> checkpoints_;
  bool preempted_ = false;
  uint64_t rows_ = 0;  // of all ranks
  Evaluation evaluation_;
  Json resumed_from_ = nullptr;
  Json saves_ = Json::array();
};

absl::StatusOr<Json> Job::Run() {
  CKPTDB_RETURN_IF_ERROR(Open());
  CKPTDB_RETURN_IF_ERROR(Resume());
  CKPTDB_RETURN_IF_ERROR(Train());
  CKPTDB_RETURN_IF_ERROR(checkpoints_->Finish());
  TakeReports();
  // A preempted job has no time for it.
  if (!preempted_) CKPTDB_RETURN_IF_ERROR(Evaluate());
  CKPTDB_ASSIGN_OR_RETURN(const std::string digest, SharedDigest(*trainer_));
  CKPTDB_RETURN_IF_ERROR(CountRows());
  Print("digest %s\n", digest);
  return Json{{"step", trainer_->step()},
              {"loss", evaluation_.loss},
              {"auc", evaluation_.auc},
              {"evaluation_resumed_after", evaluation_.resumed_after},
              {"preempted", preempted_},
              {"digest", digest},
              {"rows", rows_},
              {"resumed_from", resumed_from_},
              {"saves", saves_}};
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
  CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<Log> log, OpenLog(options_));
  CKPTDB_ASSIGN_OR_RETURN(
      auto reader, Reader::Create(std::move(log), options_.shuffle_examples,
                                  options_.trainer.seed));
  CKPTDB_ASSIGN_OR_RETURN(
      trainer_, Trainer::Create(options_.trainer, std::move(reader), own_));
  CheckpointOptions checkpoint = options_.checkpoint;
  checkpoint.last_step = options_.steps;
  checkpoint.crash_drill = crash_drill_;
  // These must match on all ranks.
  CKPTDB_RETURN_IF_ERROR(examples::CheckSame(
      own_, "options or data",
      absl::StrCat(trainer_->progress(), options_.steps, " ",
                   checkpoint.save_every, " ", options_.eval_every, " ",
                   checkpoint.sync, checkpoint.delta, options_.resume, " ",
                   options_.crash_at, " ",
                   static_cast<int>(options_.trainer.sharding))));
  CKPTDB_ASSIGN_OR_RETURN(checkpoints_,
                          Checkpoints::Open(checkpoint, trainer_.get()));
  return absl::OkStatus();
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
        absl::StrCat("store ", options_.checkpoint.store, " is at step ", step,
                     ", after the last of ", options_.steps, " steps"));
  }
  resumed_from_ = step;
  CKPTDB_RETURN_IF_ERROR(CountRows());
  Print("resumed from step %d: %d rows\n", step, rows_);
  if (step == options_.steps) return absl::OkStatus();  // Run evaluates
  CKPTDB_ASSIGN_OR_RETURN(const bool cut_off,
                          checkpoints_->EvaluationUnderWay());
  return cut_off ? Evaluate() : absl::OkStatus();
}

absl::Status Job::Evaluate() {
  CKPTDB_ASSIGN_OR_RETURN(evaluation_, checkpoints_->Evaluate());
  CKPTDB_RETURN_IF_ERROR(CountRows());
  const std::string resumed =
      evaluation_.resumed_after == 0
          ? ""
          : absl::StrCat(", ", evaluation_.resumed_after, " of ",
                         evaluation_.examples, " examples by a run before");
  Print("step %d: loss %.4f, auc %.4f, %d rows%s\n", trainer_->step(),
        evaluation_.loss, evaluation_.auc, rows_, resumed);
  return absl::OkStatus();
}

absl::Status Job::CountRows() {
  CKPTDB_ASSIGN_OR_RETURN(rows_,
                          examples::Sum(own_, "row counts", trainer_->rows()));
  return absl::OkStatus();
}

absl::Status Job::Train() {
  CKPTDB_RETURN_IF_ERROR(checkpoints_->StartTraining());
  while (trainer_->step() < options_.steps && !preempted_) {
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
  preempted_ = outcome.preempted;
  TakeReports();
  const bool last = step == options_.steps || preempted_;
  if (last || options_.eval_every == 0 || step % options_.eval_every != 0) {
    return absl::OkStatus();
  }
  return Evaluate();
}

void Job::TakeReports() {
  for (const SaveReport& save : checkpoints_->TakeReports()) {
    const std::string why = save.base_reason.empty()
                                ? ""
                                : absl::StrCat(" (", save.base_reason, ")");
    Print(
        "step %d saved: %s%s, %d rows, %d erased, %d bytes, %.1f ms blocking, "
        "durable after %.1f ms\n",
        save.step, save.kind, why, save.rows_upserted, save.rows_erased,
        save.bytes, save.blocking_ms, save.save_ms);
    saves_.push_back(ToJson(save));
  }
}

}  // namespace

absl::StatusOr<Json> RunJob(const Options& options, examples::Ranks* own,
                            const std::atomic<bool>* stopped) {
  auto job = std::make_unique<Job>(options, own, stopped);
  absl::StatusOr<Json> report = job->Run();
  if (!report.ok() && own->size() > 1) {
    // Its destructor would wait for the save in progress, and so for ranks that
    // may be gone. The process is about to end.
    job.release();  // NOLINT(bugprone-unused-return-value)
  }
  return report;
}

}  // namespace train_ctr
