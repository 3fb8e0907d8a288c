// SPDX-License-Identifier: Apache-2.0
// CheckpointManager, for training loops: decides when to save, saves in the
// background on all ranks, removes old steps, and restores.
//
//   ManagerOptions options{.path = "checkpoints",
//                          .schedule = {.permanent = SaveEveryNSteps(1000)},
//                          .retention = {.keep = LatestN(3)}};
//   CKPTDB_ASSIGN_OR_RETURN(auto manager,
//                           CheckpointManager::Open(options, &model));
//   CKPTDB_ASSIGN_OR_RETURN(const TrainingStart start,
//                           manager->RestoreOrStart());
//   log(start.ToString());
//   while (manager->global_step() < steps) {
//     train();
//     CKPTDB_ASSIGN_OR_RETURN(const StepOutcome outcome, manager->Step());
//     if (outcome.preempted) break;
//   }
//   CKPTDB_RETURN_IF_ERROR(manager->FinishTraining());
//   CKPTDB_RETURN_IF_ERROR(manager->Close());
//
// Every rank opens a manager with its Coordinator; the owner's manager holds
// the store. All ranks make the same calls in the same order and get the same
// results: the owner decides, and a call that fails on one rank fails on all.
//
// A save copies the state into memory, and the training continues. If the state
// exceeds ManagerOptions::save.arena_bytes, only the part written last is
// copied, and the training waits until the rest is read. Marks of changed rows
// are taken with the copy, and are kept for the next save if this one fails.
//
// A read-only manager follows a store that another job writes, from any
// process, and writes only leases to it:
//
//   ManagerOptions options;
//   options.path = "checkpoints";
//   options.read_only = true;
//   CKPTDB_ASSIGN_OR_RETURN(auto manager,
//                           CheckpointManager::Open(options, &model));
//   while (evaluating()) {
//     CKPTDB_ASSIGN_OR_RETURN(const RestoreReport report,
//                             manager->WaitForStep(absl::Minutes(10)));
//     evaluate(report.version.step);
//   }
//
// Threads. Only one thread at a time may make the training calls: Open,
// StartTraining, FinishTraining, Step, StepTo, Save, Restore, RestoreOrStart,
// AbandonSteps, WaitForStep, AwaitStep, ApplyStep, Load, Delete and Close. The
// thread that made the last of them is the training thread. Methods documented
// as thread-safe, and those of the Store and the Reader, may run concurrently
// with them. Destroy the manager when no call is in progress. In a child forked
// while a manager exists, every call returns FailedPrecondition and the
// destructor does nothing.
//
// Callbacks run on a thread of the manager or on the training thread. Code that
// the manager calls (callbacks, policies, the model) must not make a training
// call or wait for a save to finish: such calls return FailedPrecondition. An
// exception from the model or a policy becomes Internal, which the save or
// restore returns. An exception from an observer undoes nothing; the training
// thread's next call returns it, on all ranks.
//
// A background save's error, unless tolerated, is reported as "save of step
// 4000: ..." to:
// 1. The training thread, once, by the first of Step, StepTo, Save,
//    StartTraining, FinishTraining, Restore, Load, Close, WaitUntilFinished or
//    CheckForErrors after the failure, unless PendingSave::WaitCommitted has
//    returned it on that thread.
// 2. Every other thread that waited for that save in WaitUntilFinished.
// 3. Every other thread that calls WaitUntilFinished or CheckForErrors before
//    the training thread has received the error.
#ifndef CKPTDB_MANAGER_CHECKPOINT_MANAGER_H_
#define CKPTDB_MANAGER_CHECKPOINT_MANAGER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "db/reader.h"
#include "db/store.h"
#include "manager/coordinator.h"
#include "manager/evaluation_state.h"
#include "manager/load_rule.h"
#include "manager/manager_options.h"
#include "manager/model_state.h"
#include "manager/policies.h"
#include "manager/results.h"
#include "schema/types.h"

namespace ckptdb {

class CheckpointManager {
 public:
  // Opens a manager. Register everything in `model` first; it must outlive the
  // manager. Returns InvalidArgument, on all ranks, for invalid options, and
  // for a null model or coordinator.
  static absl::StatusOr<std::unique_ptr<CheckpointManager>> Open(
      const ManagerOptions& options, ModelState* model,
      std::unique_ptr<Coordinator> ranks = SingleProcess());

  // Closes the manager as Close does, and drops the error. A manager that still
  // exists at exit() waits there for a save in progress, with several ranks for
  // a minute at most.
  ~CheckpointManager();
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;

  // Waits for the save in progress and releases the tables' trackers and the
  // store, which can be opened again at once. Returns the save's error, or
  // otherwise the error of closing. Ranks close independently; the owner waits
  // up to two seconds until the others know how its last calls ended: see
  // Coordinator::Leave. Returns FailedPrecondition, and stays open, while a
  // StepReader or ChangeReader of store() exists.
  //
  // Afterwards calls return FailedPrecondition, including those of
  // evaluation(); store() and reader() return null, and Close returns OK. A
  // Store returned by store() stays valid, but closed, until the manager is
  // destroyed; a Reader is destroyed at once.
  absl::Status Close();

  // Saves the initial step if Saving::first_save requires it. Call it before
  // the first step, and after restores.
  absl::Status StartTraining();
  // Saves the last step, with the metrics and metadata given to its Step, if it
  // is not yet saved, and waits until it is durable. Does so even if an earlier save failed, and returns that error. Call it
  // after the last step. Does nothing if no step was trained, or if the time
  // for the last save is too short: see Saving::preemption_grace.
  absl::Status FinishTraining();

  // Returns the step trained last: 0 or the restored step, plus one for each
  // Step. Thread-safe.
  int64_t global_step() const;

  // Counts a trained step, decides whether to save it, and begins the save.
  // Returns the error of an earlier save, once, or of beginning this one. Takes
  // the owner's metrics; those of other ranks are ignored, with one warning.
  // The owner's `user_metadata` is stored in this step, merged over that of the
  // options. Returns FailedPrecondition, whether or not the step is to be
  // saved, if
  // 1. a restore or load failed midway and left the model partly written:
  //    restore or load a step first, or
  // 2. the model does not come from this store, which has a step with this
  //    number or a higher one: restore that step, use another folder, or call
  //    AbandonSteps.
  absl::StatusOr<StepOutcome> Step(const Metrics& metrics = {},
                                   const UserMetadata& user_metadata = {});
  // Does the same for a trainer that counts steps itself: `step` was trained
  // last. Returns InvalidArgument unless it is after global_step(); only the
  // first call may pass 0, and only if step 0 was not restored or saved before.
  absl::StatusOr<StepOutcome> StepTo(int64_t step, const Metrics& metrics = {},
                                     const UserMetadata& user_metadata = {});
  // Returns whether StepTo would save that step now, and why, without counting,
  // saving, or changing what Explain returns. All ranks call it and get the
  // same answer. The answer of StepTo may differ a moment later where policies
  // depend on time, or where a save in progress can serve a preemption. Returns
  // FailedPrecondition if BusyPolicy::kFail would fail the step, and
  // InvalidArgument for a negative step; never returns an earlier save's error.
  absl::StatusOr<SavePolicy::Decision> ShouldSave(int64_t step,
                                                  const Metrics& metrics = {});
  // Saves the step trained last, regardless of the schedule. Returns
  // AlreadyExists if the step exists, and FailedPrecondition if saving is
  // disabled, if it would replace a pinned step of an abandoned branch, and for
  // the reasons of Step. Only the PendingSave returns a tolerated failure.
  absl::StatusOr<PendingSave> Save(const SaveRequest& request = {});

  // Begins a training: restores the requested step, by default the newest, or
  // leaves the model as it is if the manager's own store has no step. The
  // result tells which. Call it once, before the first step.
  //
  // With RestoreRequest::path the first run begins with the step of that other
  // store; a run that finds steps in its own store continues from their newest
  // and ignores `path`, `step` and `best`. Without `path`, a `step` that does
  // not exist is an error even in an empty store.
  //
  // Returns the errors of Restore, but never NotFound, and FailedPrecondition
  // for a read-only manager.
  absl::StatusOr<TrainingStart> RestoreOrStart(
      const RestoreRequest& request = {});

  // Loads a step, from which the training continues. Use RestoreOrStart to
  // begin a training. Returns
  // 1. NotFound only if the manager's own store has no step at all;
  // 2. FailedPrecondition if the step or the store of RestoreRequest::path does
  //    not exist, or if a registered item or slot is missing or has another
  //    shape, dtype or width; names all items that differ. See EvolvePolicy;
  // 3. DataLoss if the step is damaged, or all steps are quarantined; with
  //    `fall_back`, the error of the newest step.
  // After an error found while the model was being written, it is partly
  // restored: Step and Save fail until a restore or load succeeds.
  //
  // Items and slots only in the step are not loaded, and the owner warns of
  // them because the next save lacks them. It also warns if a step of another
  // store was restored while the manager's own has steps that block saves: see
  // Step.
  absl::StatusOr<RestoreReport> Restore(const RestoreRequest& request = {});

  // Starts a new lineage with the model as it is, in a store that has steps:
  // Restoring::abandoned decides what the next save does with them. Stores
  // nothing; global_step() stays. All ranks call it. Returns FailedPrecondition
  // if the manager is read-only or saving is disabled, and the error of a save
  // in progress.
  absl::Status AbandonSteps();

  // Blocks until the store has a step saved after the held one, whatever its
  // number, or any step if none is held, and loads the newest. Reads only the
  // changes of tables where the store has them, so the model must be as the
  // last call left it. Returns DeadlineExceeded after `timeout` and Cancelled
  // after SetPreempted, with the model unchanged; FailedPrecondition unless
  // the manager is read-only; and otherwise the errors of Restore.
  absl::StatusOr<RestoreReport> WaitForStep(absl::Duration timeout);
  // The halves of WaitForStep, for a server that waits without locking its
  // model:
  //
  //   CKPTDB_RETURN_IF_ERROR(manager->AwaitStep(absl::Minutes(10)).status());
  //   const auto lock = lock_model();
  //   CKPTDB_RETURN_IF_ERROR(manager->ApplyStep().status());
  //
  // AwaitStep waits and opens the step it returns, with a lease, without using
  // the model. ApplyStep loads that step, or the newest one if none was awaited
  // or another call has changed the model since. Errors as in WaitForStep.
  absl::StatusOr<Version> AwaitStep(absl::Duration timeout);
  absl::StatusOr<RestoreReport> ApplyStep();

  // Loads by rules, in order, until one fails whose error is not ignored.
  // global_step() and the lineage stay, and the next save of each table is
  // full. With `dry_run` the model is unchanged, and items that are missing or
  // do not fit are only listed in the summary.
  absl::StatusOr<LoadSummary> Load(const std::vector<LoadRule>& rules,
                                   bool dry_run = false);

  // Announces that this machine will soon be taken away. Policies and all ranks
  // learn of it with the next step: StepOutcome::preempted. One rank's call is
  // enough. Thread-safe; a signal handler may call it. Call it again for each
  // later preemption.
  void SetPreempted();
  // Returns whether SetPreempted was called on this rank since its last step,
  // or that step's outcome was preempted. With several ranks, end the loop by
  // StepOutcome::preempted instead, which becomes true on all at one step.
  bool preempted() const;

  // The following concern this rank alone, and are thread-safe.
  //
  // Returns whether a save has begun and neither committed nor failed.
  bool IsSavingInProgress() const;
  // Returns the unreported error of a background save, if any: see above.
  absl::Status CheckForErrors();
  // Waits for the save in progress and its callbacks, then returns the error as
  // CheckForErrors does. Threads other than the training thread get only its
  // error.
  absl::Status WaitUntilFinished();

  // Returns why a step was saved and is kept, on the owner. Thread-safe.
  // Returns NotFound for a step unknown to this manager, and FailedPrecondition
  // if the manager is read-only.
  absl::StatusOr<StepExplanation> Explain(int64_t step) const;

  // Returns the best step in the store according to Restoring::best. Call it on
  // the owner, or on any rank of a read-only manager. Thread-safe. Returns
  // NotFound if no step has the metric, and FailedPrecondition if `best` is
  // unset.
  absl::StatusOr<StepRecord> BestStep();

  // Removes a step for good and, unlike Store::Delete, reports it to on_deleted
  // and Explain. Only the owner calls it. Waits for the save in progress; the
  // next save is full if its parent was removed. Returns NotFound for an
  // unknown step, and FailedPrecondition if it is pinned or the manager is
  // read-only.
  absl::Status Delete(int64_t step);

  // Returns the progress of evaluations of this store's steps. All ranks call
  // its methods, and never concurrently with a call of the manager.
  EvaluationState* evaluation();

  // Returns the store on the owner, and null on other ranks, if the manager is
  // read-only, and after Close.
  Store* store();
  // Returns the reader of a read-only manager, on all ranks, until Close, and
  // null otherwise.
  Reader* reader();

 private:
  class Impl;
  explicit CheckpointManager(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_CHECKPOINT_MANAGER_H_
