// SPDX-License-Identifier: Apache-2.0
#include "manager/core/save_runner.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "manager/internal/tensor_device.h"
#include "manager/policy/outlook.h"
#include "manager/state/micros_since.h"
#include "manager/state/poll_cancelled.h"
#include "manager/state/registered_state.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Returns the device of the model's tensors; null if all are in host memory.
TensorState::Device* DeviceOf(const ModelState& model) {
  for (const RegisteredTensor& tensor : model.tensors()) {
    if (tensor.state.device != nullptr) return tensor.state.device;
  }
  return nullptr;
}

}  // namespace

SaveRunner::SaveRunner(ManagerParts* parts, const Dependencies& deps)
    : parts_(parts),
      deps_(deps),
      arena_(parts->options.save.arena_bytes, DeviceOf(*parts->model)),
      publisher_(parts->options, parts->store.get(), deps.retirement,
                 deps.history),
      environment_{parts->options,
                   *parts->model,
                   parts->shardings,
                   parts->ranks.get(),
                   parts->background_ranks.get(),
                   parts->store.get(),
                   parts->feed.get(),
                   &arena_,
                   &publisher_,
                   parts->shipping} {}

SaveRunner::~SaveRunner() { FinishSave(Poll::kNever).IgnoreError(); }

const std::function<bool()>& SaveRunner::Polled(Poll poll) const {
  static const std::function<bool()> kNone;
  const bool polls = poll == Poll::kAlways ||
                     (poll == Poll::kAlone && parts_->world_size() == 1);
  return polls ? parts_->options.observers.cancelled : kNone;
}

absl::Status SaveRunner::Start(SaveStart start) {
  operation_ = std::make_unique<SaveOperation>(environment_, *deps_.lineage,
                                               std::move(start));
  {
    const MutexLock lock(&mutex_);
    current_ = operation_->pending();
  }
  left_ = false;
  // From here on, other threads can wait for the save.
  operation_->Capture(*deps_.lineage);
  // A thread that polls cannot also save.
  const bool on_thread =
      parts_->options.save.async || Polled(Poll::kAlone) != nullptr;
  in_background_ = on_thread && operation_->begun() && StartInBackground();
  if (!in_background_) RunOperation();
  absl::Status waited = operation_->interrupted();
  if (in_background_) {
    if (waited.ok()) waited = AwaitOwnSave();
    in_background_ = waited.ok() ? parts_->options.save.async : !CancelSave();
  }
  return waited;
}

// The training must not change the model before the save has read it. Returns
// at once if all of it was copied. The save's error is reported when it ends.
absl::Status SaveRunner::AwaitOwnSave() {
  const bool async = parts_->options.save.async;
  return WaitPolling(Polled(Poll::kAlone),
                     absl::StrCat("step ", operation_->step(), " to be ",
                                  async ? "staged" : "saved"),
                     [&](std::chrono::milliseconds time) {
                       return async ? operation_->pending()->StagedWithin(time)
                                    : thread_.WaitFor(time);
                     });
}

// Waits until the cancelled save has ended, as it may read the model, which the
// caller may change or free. Returns false if it is too late to cancel it: then
// it no longer reads the model, and continues as if an earlier call had begun
// it.
bool SaveRunner::CancelSave() {
  left_ = !operation_->pending()->Cancel();
  if (!left_) thread_.Wait();
  return !left_;
}

// Returns false if no thread can be created.
bool SaveRunner::StartInBackground() {
  return CallGuarded("starting the thread of saves",
                     [this] { thread_.Run([this] { RunOperation(); }); })
      .ok();
}

std::shared_ptr<PendingSave::State> SaveRunner::current() const {
  const MutexLock lock(&mutex_);
  return current_;
}

bool SaveRunner::in_progress() const {
  const std::shared_ptr<PendingSave::State> save = current();
  return save != nullptr && !save->finished();
}

std::optional<StepInfo> SaveRunner::unfinished() const {
  if (operation_ == nullptr) return std::nullopt;
  return operation_->step_info();
}

// Runs the operation. The trainer's code that it calls must not call the
// manager.
void SaveRunner::RunOperation() {
  const CallGate::Call call(deps_.calls);
  operation_->Run();
  EndOperation();
}

// Ends a save in three steps. First its error is added to the ledger, before
// anyone can see that the save has finished. Finish wakes those who wait for
// the commit. End follows when the callbacks have returned, so that whoever
// waits for it finds the save no longer running.
void SaveRunner::EndOperation() {
  SaveReport& report = operation_->report();
  failures_in_a_row_ = report.status.ok() ? 0 : failures_in_a_row_ + 1;
  tolerated_ = failures_in_a_row_ <= parts_->options.save.tolerated_failures;
  const absl::Status error = NoteError();
  if (report.status.ok()) {
    operation_->pending()->Finish(report.result);
  } else {
    operation_->pending()->Finish(report.status);
  }
  if (parts_->is_owner()) {
    // The sweep after this commit runs in the background, so this is the
    // outcome of the last sweep that has ended.
    report.sweep_status = parts_->store->sweep_status();
    report.unswept_entries = parts_->store->unswept().size();
  }
  if (parts_->shipping != nullptr) {
    report.shipping = parts_->shipping->statistics();
  }
  parts_->errors.NoteCallback(CallGuarded(
      "reporting a save", [&] { deps_.reporter->ReportSave(report); }));
  operation_->pending()->End(error);
}

// Returns the error that a later call has to report. It names the step, as the
// caller of that call cannot tell which save failed.
absl::Status SaveRunner::NoteError() {
  absl::Status error = operation_->status();
  if (tolerated_ || error.ok()) return absl::OkStatus();
  if (parts_->options.save.async || left_) {
    error = Annotate(error, absl::StrCat("save of step ", operation_->step()));
  }
  parts_->errors.NoteSave(operation_->pending(), error);
  return error;
}

absl::Status SaveRunner::FinishSave(Poll poll,
                                    std::optional<int64_t>* wait_micros) {
  if (operation_ == nullptr) return absl::OkStatus();
  if (in_background_) {
    const auto begin = std::chrono::steady_clock::now();
    CKPTDB_RETURN_IF_ERROR(WaitPolling(
        Polled(poll), absl::StrCat("the save of step ", operation_->step()),
        [this](std::chrono::milliseconds time) {
          return thread_.WaitFor(time);
        }));
    if (wait_micros != nullptr) {
      *wait_micros = wait_micros->value_or(0) + MicrosSince(begin);
    }
  }
  ApplyOutcome();
  return absl::OkStatus();
}

// The lineage, the decisions and the warnings, which call the caller's code,
// belong to the training thread.
void SaveRunner::ApplyOutcome() {
  const std::unique_ptr<SaveOperation> operation = std::move(operation_);
  if (operation->begun()) {
    deps_.decisions->OnSaveEnded(operation->report().total_micros);
  }
  Warnings& warnings = parts_->warnings;
  if (!arena_.pin_status().ok() && !std::exchange(warned_of_pinning_, true)) {
    warnings.Warn(absl::StrCat(
        "staging memory cannot be pinned, so copies from the device take "
        "longer: ",
        arena_.pin_status().ToString()));
  }
  const std::string warning = deps_.retirement->TakeWarning();
  if (!warning.empty()) warnings.Warn(warning);
  if (parts_->store != nullptr) warnings.WarnOfSweeps(*parts_->store);
  warnings.WarnOfStatistics(parts_->errors.TakeStatisticsError());
  if (parts_->store != nullptr) warnings.WarnOfPosts(*parts_->store);
  if (operation->status().ok()) {
    deps_.decisions->OnCommitted(operation->step_info());
    deps_.lineage->OnCommitted(operation->result(), parts_->store.get());
  } else {
    NoteFailure(operation.get());
  }
}

// Reopens the preemption, for the next step to answer, and returns the marks to
// their trackers, because the next delta would otherwise lack these rows. The
// ledger contains a failure that is not tolerated; the others become warnings.
void SaveRunner::NoteFailure(SaveOperation* operation) {
  const ManagerOptions& options = parts_->options;
  if (operation->answers_preemption()) deps_.preemption->Reopen();
  absl::Status failure = operation->status();
  if (parts_->feed != nullptr) {
    failure.Update(CallGuarded("returning the changed rows", [&] {
      return parts_->feed->Return(operation->TakeChanges());
    }));
  }
  if (!tolerated_) return;
  if (options.save.retry_after_steps > 0) {
    deps_.decisions->PutOff(
        StepsAfter(deps_.progress->global_step(),
                   options.save.retry_after_steps),
        {operation->kind(), absl::StrCat("the save of step ", operation->step(),
                                         " failed and is retried")});
  }
  parts_->warnings.Warn(absl::StrCat(
      "the save of step ", operation->step(), " failed, failure ",
      failures_in_a_row_,
      " in a row; ManagerOptions::save.tolerated_failures is ",
      options.save.tolerated_failures,
      "; the next save includes its changes: ", failure.ToString()));
}

}  // namespace ckptdb::internal
