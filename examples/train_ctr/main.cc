// SPDX-License-Identifier: Apache-2.0
// train_ctr: trains a click-through-rate model and checkpoints it in a ckptdb
// store, alone or as the ranks of "mpirun train_ctr", or follows a process that
// does. Exit codes: 0 done, 1 failed or called wrongly, with the reason on
// stderr.
#include <ckptdb/schema/status.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "ranks/ranks.h"
#include "train_ctr/follower.h"
#include "train_ctr/options.h"
#include "train_ctr/trainer.h"

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
  CKPTDB_RETURN_IF_ERROR(checkpoints_->Close());
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

// Trains, by options that were checked, up to options.steps. A store that has
// steps is refused without options.resume or options.resume_step. Once
// `stopped` is true on any rank, the training ends after the step that it is
// at, which is saved. Rank 0 writes progress to stderr. All ranks get the
// report, but for `saves`, which rank 0 has.
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

// While it exists, SIGINT and SIGTERM call `stop` on a separate thread instead
// of ending the process. Construct it before starting other threads, so that
// they block these signals.
class StopSignals {
 public:
  explicit StopSignals(std::function<void()> stop) {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
    waiter_ = std::thread([this, stop = std::move(stop)] {
      int signal = 0;
      while (sigwait(&signals_, &signal) == 0 && !ending_) stop();
    });
  }
  ~StopSignals() {
    ending_ = true;
    pthread_kill(waiter_.native_handle(), SIGINT);
    waiter_.join();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  sigset_t signals_;
  sigset_t before_;
  std::atomic<bool> ending_ = false;
  std::thread waiter_;
};

// Returns InvalidArgument if the report cannot be written.
absl::Status CheckReport(const std::string& path) {
  if (path.empty() || std::ofstream(path, std::ios::app)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--json \"", path, "\" cannot be written"));
}

absl::Status WriteReport(const Json& report, const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::ofstream file(path, std::ios::trunc);
  file << report.dump(2) << '\n';
  file.close();
  if (file) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cannot write ", path));
}

absl::Status Follow(const Options& options) {
  Follower follower(options.checkpoint.store, options.follow_options);
  const StopSignals signals([&follower] { follower.Stop(); });
  CKPTDB_ASSIGN_OR_RETURN(const auto report, follower.Run());
  return WriteReport(report, options.json);
}

// Trains as one process, or as one of mpirun's ranks.
int Train(const Options& options) {
  std::atomic<bool> stopped = false;
  // Before MPI, whose threads would take the signals.
  const StopSignals signals([&stopped] { stopped = true; });
  return examples::RunRanks(
      {.program = "train_ctr",
       .deadline = absl::Seconds(options.deadline_seconds)},
      [&](examples::Ranks* own) -> absl::Status {
        CKPTDB_ASSIGN_OR_RETURN(const auto report,
                                RunJob(options, own, &stopped));
        return own->is_owner() ? WriteReport(report, options.json)
                               : absl::OkStatus();
      });
}

int Fail(const std::string& why) {
  std::fprintf(stderr, "train_ctr: %s\n", why.c_str());
  return 1;
}

}  // namespace
}  // namespace train_ctr

int main(int argc, char** argv) {
  CLI::App app(
      "Trains a click-through-rate model and checkpoints it, or follows a "
      "process that does.\n"
      "Example: train_ctr --store ctr_store --steps 1000 --batch 256 "
      "--save-every 100 --delta --resume\n"
      "         mpirun -np 4 train_ctr --store ctr_store --steps 1000 "
      "--save-every 100 --resume\n"
      "         train_ctr --store ctr_store --follow --until-step 1000");
  train_ctr::Options options;
  train_ctr::AddOptions(&app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    return train_ctr::Fail(error.what());
  }
  absl::Status done = train_ctr::CheckOptions(options);
  if (done.ok()) done = train_ctr::CheckReport(options.json);
  if (done.ok() && !options.follow) return train_ctr::Train(options);
  if (done.ok()) done = train_ctr::Follow(options);
  return done.ok() ? 0 : train_ctr::Fail(done.ToString());
}
