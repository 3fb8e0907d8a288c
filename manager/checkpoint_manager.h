// SPDX-License-Identifier: Apache-2.0
// CheckpointManager, for training loops: decides when to save, saves in the
// background on all ranks, removes old steps, and restores.
//
//   ManagerOptions options{.path = "checkpoints",
//                          .schedule = {.permanent = SaveEveryNSteps(1000)},
//                          .retention = {.keep = LatestN(3)}};
//   CKPTDB_ASSIGN_OR_RETURN(auto manager,
//                           CheckpointManager::Open(options, &model));
//   CKPTDB_ASSIGN_OR_RETURN(const RestoreReport start,
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
// They meet in every call, except in steps that are not due by their number:
// see ManagerOptions::Ranks::notice_interval.
//
// A save copies the state into memory, and the training continues. If the state
// exceeds ManagerOptions::save.arena_bytes, the training waits until all but
// the part written last is read. Marks of changed rows are kept for the next
// save if this one fails.
//
// A read-only manager follows a store that another job writes, from any
// process, and writes only leases to it: see ManagerOptions::read_only.
//
// Threads. One thread at a time may make the training calls: Open,
// StartTraining, FinishTraining, Step, StepTo, Save, Restore, RestoreOrStart,
// AbandonSteps, WaitForStep, AwaitStep, ApplyStep, Load, Delete and Close; the
// last one to do so is the training thread. Methods documented as thread-safe,
// and those of the Store and the Reader, may run concurrently. In a child
// forked while a manager exists, every call returns FailedPrecondition and the
// destructor does nothing.
//
// ManagerOptions::Observers::cancelled ends calls that wait, for Ctrl-C for
// example: "Cancelling a wait" in docs/manager.md.
//
// Callbacks run on a thread of the manager or on the training thread. Code that
// the manager calls (callbacks, policies, the model) must not make a training
// call or wait for a save: such calls return FailedPrecondition. An exception
// from the model or a policy becomes Internal, which the save or restore
// returns; the training thread's next call in which ranks meet returns one from
// an observer, on all ranks.
//
// A background save's error, unless tolerated, is reported as "save of step
// 4000: ..." to the training thread, once, by its next Step or StepTo in which
// ranks meet, Save, StartTraining, FinishTraining, Restore, Load, Close,
// WaitUntilFinished or CheckForErrors, unless PendingSave::WaitCommitted has
// returned it there; to every other thread that waited for that save in
// WaitUntilFinished; and to others that call WaitUntilFinished or
// CheckForErrors before the training thread has received it.
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
  // Register everything in `model` first; it outlives the manager. Returns
  // InvalidArgument, on all ranks, for invalid options and null arguments.
  static absl::StatusOr<std::unique_ptr<CheckpointManager>> Open(
      const ManagerOptions& options, ModelState* model,
      std::unique_ptr<Coordinator> ranks = SingleProcess());

  // Closes the manager, dropping the error; does not wait for steps to be
  // shipped. A manager that still exists at
  // exit() waits there for a save in progress, with several ranks for a minute
  // at most.
  ~CheckpointManager();

  // Waits for the save in progress and releases the trackers and the store,
  // which can be opened again at once. Returns the save's error, or otherwise
  // that of closing, and Cancelled, although closed, if
  // ManagerOptions::Observers::cancelled ended the wait. If the manager ships,
  // then waits up to ManagerOptions::ship.close_wait until the newest step is
  // shipped; if it is not, warns, and interrupts the upload. Ranks close
  // independently; the owner waits up to two seconds until the others know how
  // its last calls ended. Returns FailedPrecondition, and stays open, while a
  // StepReader or ChangeReader of store() exists. Afterwards calls return
  // FailedPrecondition, store() and reader() return null, and Close returns OK.
  // A Store returned by store() stays valid, but closed, until the manager is
  // destroyed; a Reader is destroyed at once.
  absl::Status Close();

  // Saves the initial step if Saving::first_save requires it. Call it after
  // restores and before the first step.
  absl::Status StartTraining();
  // Call it after the last step: saves it, with the metrics and metadata given
  // to its Step, or makes it permanent if it is saved, even if an earlier save
  // failed, waits until it is durable, and returns the errors. Does nothing if
  // no step was trained, or if Saving::preemption_grace is too short.
  absl::Status FinishTraining();

  // The step trained last: 0 or the restored one, plus one a Step. Thread-safe.
  int64_t global_step() const;

  // Counts a trained step, decides whether to save it, and begins the save.
  // Returns the error of an earlier save, once, or of beginning this one. Takes
  // the owner's metrics, and its `user_metadata`, merged over that of the
  // options, for this step. Only counts where ranks do not meet. Otherwise
  // returns FailedPrecondition, whether or not the step is to be saved, if
  // 1. a restore or load failed midway and left the model partly written:
  //    restore or load a step first, or
  // 2. the model does not come from this store, which has a step with this
  //    number or a higher one: restore that step, use another folder, or call
  //    AbandonSteps.
  absl::StatusOr<StepOutcome> Step(const Metrics& metrics = {},
                                   const UserMetadata& user_metadata = {});
  // The same for a trainer that counts steps itself: `step` was trained last.
  // Returns InvalidArgument unless it is after global_step(); only the first
  // call may pass 0, if step 0 was not restored or saved before.
  absl::StatusOr<StepOutcome> StepTo(int64_t step, const Metrics& metrics = {},
                                     const UserMetadata& user_metadata = {});
  // Whether StepTo would save that step now, and why, without counting or
  // saving. All ranks call it, get the same answer, and meet in their next
  // Step, whose answer may differ where policies depend on time. Returns
  // FailedPrecondition where BusyPolicy::kFail would, and never an earlier
  // save's error.
  absl::StatusOr<SavePolicy::Decision> ShouldSave(int64_t step,
                                                  const Metrics& metrics = {});
  // Saves the step trained last, regardless of the schedule. Returns
  // AlreadyExists if the step exists, and FailedPrecondition if saving is
  // disabled, if it would replace a pinned step of an abandoned branch, and for
  // the reasons of Step. Only the PendingSave returns a tolerated failure.
  absl::StatusOr<PendingSave> Save(const SaveRequest& request = {});

  // Begins a training, once, before the first step: restores the requested
  // step, by default the newest, or leaves the model as it is if the manager's
  // own store has no step. With RestoreRequest::path the first run begins with
  // that other store's step, but global_step() is 0; later runs continue from
  // their own newest step and ignore `path`, `step` and `best`. Without `path`,
  // a `step` that does not exist is an error even in an empty store. Returns
  // the errors of Restore, but never NotFound, and FailedPrecondition for a
  // read-only manager.
  absl::StatusOr<RestoreReport> RestoreOrStart(
      const RestoreRequest& request = {});

  // Loads a step, from which the training continues. Returns
  // 1. NotFound only if the manager's own store has no step at all;
  // 2. FailedPrecondition if the step or the store of RestoreRequest::path does
  //    not exist, or if a registered item or slot is missing or has another
  //    shape, dtype or width; names all items that differ. See EvolvePolicy;
  // 3. DataLoss if the step is damaged, or all steps are quarantined; with
  //    `fall_back`, the error of the newest step.
  // After an error found while the model was being written, Step and Save fail
  // until a restore or load succeeds. Items and slots only in the step are not
  // loaded, and the owner warns of them because the next save lacks them.
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
  // after SetPreempted, with the model unchanged; FailedPrecondition unless the
  // manager is read-only; and otherwise the errors of Restore.
  absl::StatusOr<RestoreReport> WaitForStep(absl::Duration timeout);
  // The halves of WaitForStep, for a server that waits without locking its
  // model. AwaitStep waits and opens the step it returns, with a lease, without
  // using the model. ApplyStep loads that step, or the newest one if none was
  // awaited or another call has changed the model since.
  //
  //   CKPTDB_RETURN_IF_ERROR(manager->AwaitStep(absl::Minutes(10)).status());
  //   const auto lock = lock_model();
  //   CKPTDB_RETURN_IF_ERROR(manager->ApplyStep().status());
  absl::StatusOr<Version> AwaitStep(absl::Duration timeout);
  absl::StatusOr<RestoreReport> ApplyStep();

  // Loads by rules, in order, until one fails whose error is not ignored.
  // global_step() and the lineage stay, and the next save of each table is
  // full. With `dry_run` the model is unchanged, and items that are missing or
  // do not fit are only listed in the summary.
  absl::StatusOr<LoadSummary> Load(const std::vector<LoadRule>& rules,
                                   bool dry_run = false);

  // Announces that this machine will soon be taken away, again for each
  // preemption. Policies and all ranks learn of it at the next step at which
  // ranks meet, StepOutcome::preempted. One rank's call is enough. Thread-safe;
  // a signal handler may call it.
  void SetPreempted();
  // Whether SetPreempted was called on this rank since ranks last met in a
  // step, or the last step's outcome was preempted.
  bool preempted() const;

  // The following concern this rank alone, and are thread-safe.
  // IsSavingInProgress: a save has begun and neither committed nor failed.
  bool IsSavingInProgress() const;
  // The unreported error of a background save, if any.
  absl::Status CheckForErrors();
  // Waits for the save in progress and its callbacks, then returns the error as
  // CheckForErrors does; threads other than the training thread get only its
  // error.
  absl::Status WaitUntilFinished();

  // Why a step was saved and is kept, on the owner. Thread-safe. Returns
  // NotFound for a step unknown to this manager, and FailedPrecondition if it
  // is read-only, and from within a policy that decides what is kept.
  absl::StatusOr<StepExplanation> Explain(int64_t step) const;

  // The best step in the store according to Restoring::best, on the owner or on
  // any rank of a read-only manager. Thread-safe. Returns NotFound if no step
  // has the metric, and FailedPrecondition if `best` is unset.
  absl::StatusOr<StepRecord> BestStep();

  // The progress of ManagerOptions::ship. Thread-safe. Returns
  // FailedPrecondition unless this rank is the owner and ships.
  absl::StatusOr<ShippingStatistics> Shipping() const;

  // Removes a step and, unlike Store::Delete, reports it to on_deleted and
  // Explain. Only the owner calls it. Waits for the save in progress; the next
  // save is full if its parent was removed. Returns NotFound for an unknown
  // step, and FailedPrecondition if it is pinned or the manager is read-only.
  absl::Status Delete(int64_t step);

  // The progress of evaluations. All ranks call its methods, and never
  // concurrently with a call of the manager.
  EvaluationState* evaluation();

  // Null on ranks other than the owner, if read-only, and after Close.
  Store* store();
  // Null unless read-only, and after Close.
  Reader* reader();

 private:
  class Impl;
  explicit CheckpointManager(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_CHECKPOINT_MANAGER_H_
