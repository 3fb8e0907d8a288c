// How a save ends, who is told of it, and how a manager is closed.
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/base/call_guard.h"
#include "ckptdb/manager/config/statistics.h"
#include "ckptdb/manager/core/manager_impl.h"
#include "ckptdb/schema/annotate.h"
#include "ckptdb/schema/printable.h"
#include "ckptdb/schema/status.h"

namespace ckptdb {

using internal::CallGuarded;

// What a save is to threads other than the training's.
std::shared_ptr<PendingSave::State> CheckpointManager::Impl::NewPending(
    int64_t step) {
  const std::lock_guard<std::mutex> lock(told_mutex_);
  current_ = std::make_shared<PendingSave::State>(step);
  return current_;
}

std::shared_ptr<PendingSave::State> CheckpointManager::Impl::current() const {
  const std::lock_guard<std::mutex> lock(told_mutex_);
  return current_;
}

// On the thread of the save. The error is there to be told before anybody can
// see that the save has ended.
void CheckpointManager::Impl::Finish(Round* round) {
  SaveReport& report = round->report;
  report.status = round->outcome.status;
  report.result = round->outcome.result;
  report.retired = round->outcome.retired;
  report.finished_micros = MicrosSince(round->begin);
  if (!options_.async) {
    report.blocking_micros = report.waited_micros + report.finished_micros;
  }
  failures_in_a_row_ = report.status.ok() ? 0 : failures_in_a_row_ + 1;
  round->tolerated = failures_in_a_row_ <= options_.tolerated_failures;
  const absl::Status error = NoteSaveError(*round);
  if (!report.status.ok()) {
    round->pending->Finish(report.status);
  } else {
    round->pending->Finish(report.result);
  }
  if (is_owner()) {
    report.sweep_status = store_->sweep_status();
    report.unswept = store_->unswept().size();
  }
  NoteCallback(CallGuarded("reporting a save", [&] { Report(report); }));
  round->pending->End(error);
}

// What the save leaves to be told. Who is told of it by a later call must learn
// which save it was of.
absl::Status CheckpointManager::Impl::NoteSaveError(const Round& round) {
  if (round.tolerated || round.report.status.ok()) return absl::OkStatus();
  absl::Status error = round.report.status;
  if (options_.async) {
    error = internal::Annotate(
        error, absl::StrCat("save of step ", round.report.step));
  }
  const std::lock_guard<std::mutex> lock(told_mutex_);
  if (save_error_.error.ok() || save_error_.save->told()) {
    save_error_ = {round.pending, error};
  }
  return error;
}

void CheckpointManager::Impl::Report(const SaveReport& report) {
  if (is_owner() && !report.status.ok()) {
    history_.NoteSaved(report.step,
                       absl::StrCat("not saved, although ", report.why, ": ",
                                    report.status.ToString()));
  }
  if (is_owner()) {
    NoteStatistics(
        internal::AppendStatistics(options_.statistics_path, report));
  }
  if (!options_.on_saved) return;
  NoteCallback(CallGuarded("ManagerOptions::on_saved",
                           [&] { options_.on_saved(report); }));
}

void CheckpointManager::Impl::Settle() {
  if (round_ == nullptr) return;
  const Clock::time_point begin = Clock::now();
  if (round_->beside) {
    save_thread_.Wait();
    waited_micros_ = waited_micros_.value_or(0) + MicrosSince(begin);
  }
  const std::unique_ptr<Round> round = std::move(round_);
  const absl::Status& status = round->outcome.status;
  last_save_micros_ = round->report.finished_micros;
  const std::string warning = retirement_.TakeWarning();
  if (!warning.empty()) Warn(warning);
  WarnOfSweeps();
  WarnOfStatistics();
  WarnOfPosts();
  if (status.ok()) return Adopt(*round);
  if (round->answers_preemption) preemption_open_ = true;
  absl::Status failure = status;
  if (feed_ != nullptr) {
    failure.Update(CallGuarded("returning the changed rows", [&] {
      return feed_->Return(std::move(round->changes));
    }));
  }
  if (!round->tolerated) return;
  if (options_.retry_after_steps > 0) {
    owed_ = {global_step_ + options_.retry_after_steps,
             {round->request.kind,
              absl::StrCat("the save of step ", round->announced.step,
                           " failed, and is tried again")}};
  }
  Warn(absl::StrCat("the save of step ", round->announced.step, " failed, ",
                    failures_in_a_row_, " in a row of ",
                    options_.tolerated_failures,
                    " that are tolerated; what it had to save is in the next "
                    "one: ",
                    failure.ToString()));
}

void CheckpointManager::Impl::Adopt(const Round& round) {
  const SaveResult& result = round.outcome.result;
  parent_ = result.version;
  parent_columns_ = round.columns;
  deltas_ = result.deltas;
  base_due_ = result.base_due;
  if (options_.abandoned == AbandonedBranch::kRemove) abandoned_steps_.clear();
  source_.reset();
}

void CheckpointManager::Impl::Warn(const std::string& warning) const {
  if (options_.on_warning) {
    NoteCallback(CallGuarded("ManagerOptions::on_warning",
                             [&] { options_.on_warning(warning); }));
  } else {
    std::fprintf(stderr, "ckptdb: %s\n", Printable(warning).c_str());
  }
}

void CheckpointManager::Impl::NoteStatistics(const absl::Status& status) const {
  const std::lock_guard<std::mutex> lock(told_mutex_);
  statistics_error_.Update(status);
}

void CheckpointManager::Impl::WarnOfStatistics() {
  absl::Status error;
  {
    const std::lock_guard<std::mutex> lock(told_mutex_);
    std::swap(error, statistics_error_);
  }
  if (error.ok() || told_of_statistics_) return;
  told_of_statistics_ = true;
  Warn(absl::StrCat(error.message(), "; so may be others that follow"));
}

// What a callback throws changes nothing of what was done.
void CheckpointManager::Impl::NoteCallback(const absl::Status& status) const {
  const std::lock_guard<std::mutex> lock(told_mutex_);
  callback_error_.Update(status);
}

bool CheckpointManager::Impl::IsSavingInProgress() const {
  const std::shared_ptr<PendingSave::State> save = current();
  return save != nullptr && !save->finished();
}

// Of saves that are settled: the other ranks are told of the same.
absl::Status CheckpointManager::Impl::TakeSaveError() {
  const std::lock_guard<std::mutex> lock(told_mutex_);
  const UntoldError taken = std::exchange(save_error_, UntoldError());
  if (taken.save != nullptr && taken.save->told()) return absl::OkStatus();
  return taken.error;
}

absl::Status CheckpointManager::Impl::TakeCallbackError() {
  const std::lock_guard<std::mutex> lock(told_mutex_);
  return std::exchange(callback_error_, absl::OkStatus());
}

absl::Status CheckpointManager::Impl::TakeError() {
  absl::Status error = TakeSaveError();
  error.Update(TakeCallbackError());
  return error;
}

absl::Status CheckpointManager::Impl::PeekError() const {
  const std::lock_guard<std::mutex> lock(told_mutex_);
  absl::Status error;
  if (save_error_.save != nullptr && !save_error_.save->told()) {
    error = save_error_.error;
  }
  error.Update(callback_error_);
  return error;
}

// Whether the calling thread is the one that trains, and no other is in a call
// of the training's: it can take note of the end of the save.
std::unique_lock<std::mutex> CheckpointManager::Impl::TryTraining() {
  if (training_thread_.load() != std::this_thread::get_id()) return {};
  return std::unique_lock<std::mutex>(training_mutex_, std::try_to_lock);
}

absl::Status CheckpointManager::Impl::CheckForErrors() {
  CKPTDB_RETURN_IF_ERROR(
      gate_.home().Check("CheckpointManager::CheckForErrors"));
  if (gate_.InCall()) return PeekError();
  const internal::CallGate::Call call(&gate_);
  if (!call.admitted()) return ClosedError("CheckForErrors");
  const std::unique_lock<std::mutex> training = TryTraining();
  if (!training.owns_lock()) return PeekError();
  if (IsSavingInProgress()) return absl::OkStatus();
  Settle();
  return TakeError();
}

absl::Status CheckpointManager::Impl::WaitUntilFinished() {
  CKPTDB_RETURN_IF_ERROR(
      gate_.home().Check("CheckpointManager::WaitUntilFinished"));
  if (gate_.InCall()) return ReentryError("WaitUntilFinished");
  const internal::CallGate::Call call(&gate_);
  if (!call.admitted()) return ClosedError("WaitUntilFinished");
  const std::unique_lock<std::mutex> training = TryTraining();
  if (training.owns_lock()) return SettleAndTell();
  const std::shared_ptr<PendingSave::State> save = current();
  if (save == nullptr || save->ended()) return PeekError();
  return save->WaitEnded(absl::InfiniteDuration());
}

absl::Status CheckpointManager::Impl::SettleAndTell() {
  Settle();
  return TakeError();
}

absl::Status CheckpointManager::Impl::ClosedError(
    absl::string_view what) const {
  return gate_.Refusal(
      what, absl::StrCat("the manager of store \"", options_.path, "\""));
}

absl::Status CheckpointManager::Impl::ReentryError(
    absl::string_view what) const {
  return absl::FailedPreconditionError(
      absl::StrCat(what, ": the manager of store \"", options_.path,
                   "\" cannot do so for code that it has called itself, such "
                   "as on_saved"));
}

// Nobody is waited for: each rank has only its own save to end.
absl::Status CheckpointManager::Impl::Close() {
  CKPTDB_RETURN_IF_ERROR(gate_.home().Check("CheckpointManager::Close"));
  if (gate_.InCall()) return ReentryError("CheckpointManager::Close");
  const std::lock_guard<std::mutex> training(training_mutex_);
  if (gate_.closed()) return absl::OkStatus();
  Settle();
  save_thread_.Stop();
  gate_.Close();  // waits for who waits for that save
  absl::Status closed;
  if (store_ != nullptr) closed = store_->Close();
  if (absl::IsFailedPrecondition(closed)) {
    gate_.Open();  // the store is still open, for its readers
    return closed;
  }
  if (evaluation_ != nullptr) evaluation_->Close();
  feed_.reset();
  reader_.reset();
  absl::Status status = TakeError();
  status.Update(closed);
  return status;
}

// A save of several ranks may wait for one that is gone.
void CheckpointManager::Impl::WaitAtExit() const {
  const std::shared_ptr<PendingSave::State> save = current();
  if (save == nullptr || gate_.InCall()) return;
  constexpr absl::Duration kPatience = absl::Minutes(1);
  save->WaitEnded(world_size() == 1 ? absl::InfiniteDuration() : kPatience)
      .IgnoreError();
}

}  // namespace ckptdb
