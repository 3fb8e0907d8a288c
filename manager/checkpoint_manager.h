// The interface of a training loop. It decides when a step is saved, saves it
// beside the training on all ranks, removes old steps, and restores.
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
// Every rank has a manager, made with its Coordinator, and the owner's manager
// has the store. All ranks make the same calls in the same order and get the
// same results: the owner decides and tells the others, and a call that fails
// on one rank fails on all.
//
// A save copies what it saves into memory, and the training continues. If that
// is more than ManagerOptions::arena_bytes, only the part that is written last
// is copied, and the training waits until the rest is read. Marks of changed
// rows are taken with the copy; if the save fails, the next one has them.
//
// A manager that is read-only follows a store that another job writes, from any
// process, and writes nothing there but leases:
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
// Threads. One thread at a time makes the calls that train: the training thread
// is the one that made the last of Open, StartTraining, FinishTraining, Step,
// StepTo, Save, Restore, RestoreOrStart, AbandonSteps, WaitForStep, AwaitStep,
// ApplyStep, Load, Delete and Close. Methods that are documented as thread-safe
// may be called beside them, as may those of the Store and the Reader. Destroy
// the manager when no call is under way.
//
// If a child is forked while a manager exists (a data loader, say), every call
// in it is FailedPrecondition, and the destructor does nothing.
//
// Callbacks come from a thread of the manager's, or from the training thread.
// Code that the manager calls, callbacks, policies and the model's alike, must
// not make a call of the training thread's or wait for the end of a save: that
// is FailedPrecondition. An exception from such code becomes Internal with its
// words: a save fails with it, a restore returns it. An exception from a
// callback (on_saved, on_restored, on_deleted, on_warning) changes nothing of
// what was done, and is returned by the next call of the training thread, on
// all ranks.
//
// A save that fails in the background, beyond what is tolerated, is reported as
// "save of step 4000: ..." to:
// 1. The training thread, once, by the first of these calls that it makes after
//    the failure: Step, StepTo, Save, StartTraining, FinishTraining, Restore,
//    Load, Close, WaitUntilFinished, CheckForErrors. It counts as reported if
//    PendingSave::WaitCommitted has returned it on that thread.
// 2. Every other thread that waited for that save in WaitUntilFinished.
// 3. Every other thread that calls WaitUntilFinished or CheckForErrors between
//    the end of the save and 1. The training thread still gets it.
#ifndef CKPTDB_MANAGER_CHECKPOINT_MANAGER_H_
#define CKPTDB_MANAGER_CHECKPOINT_MANAGER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/db/store.h"
#include "ckptdb/manager/coordinator.h"
#include "ckptdb/manager/evaluation_state.h"
#include "ckptdb/manager/load_rule.h"
#include "ckptdb/manager/load_summary.h"
#include "ckptdb/manager/model_state.h"
#include "ckptdb/manager/policies.h"
#include "ckptdb/schema/types.h"

namespace ckptdb {
// A save that runs beside the training.
//
//   CKPTDB_ASSIGN_OR_RETURN(PendingSave save, manager->Save());
//   CKPTDB_RETURN_IF_ERROR(save.WaitStaged());  // the model may change now
//   CKPTDB_ASSIGN_OR_RETURN(SaveResult result, save.WaitCommitted());
//
// Copies refer to the same save. Thread-safe.
class PendingSave {
 public:
  class State;
  explicit PendingSave(std::shared_ptr<State> state)
      : state_(std::move(state)) {}

  int64_t step() const;

  // Blocks until nothing reads the model any more, and returns OK even if the
  // save fails later. Returns DeadlineExceeded if that takes longer than
  // `timeout`.
  absl::Status WaitStaged(
      absl::Duration timeout = absl::InfiniteDuration()) const;

  // Blocks until the step is durable for all ranks, or has failed with the same
  // error on all ranks. All ranks get the result of the owner. On the thread
  // that began the save the error counts as reported: no call of the manager
  // returns it again on this rank, unless another rank has not had it.
  absl::StatusOr<SaveResult> WaitCommitted(
      absl::Duration timeout = absl::InfiniteDuration()) const;

  bool committed_or_failed() const;

  // Asks the save to end: if it is not too late it fails with Cancelled, on all
  // ranks, and the store is as it was.
  void Cancel();

 private:
  std::shared_ptr<State> state_;
};

struct SaveRequest {
  Metrics metrics = {};
  UserMetadata user_metadata = {};
  SavePolicy::Kind kind = SavePolicy::Kind::kPermanent;
  std::string reason = "Save was called";
  // The same as in SaveSpec. Steps of an abandoned branch, and quarantined
  // ones, are overwritten even if it is false.
  bool overwrite = false;
};

struct RestoreRequest {
  // The step to restore. If unset, it is the step saved last, or the best. If
  // set, no other step is restored instead.
  std::optional<int64_t> step = std::nullopt;
  bool best = false;
  // Restores the step that is best by this metric, whatever `best` and
  // ManagerOptions::best say. Default: unset.
  std::optional<KeepPolicy::BestOptions> best_by = std::nullopt;
  // The path of another store, whose step is only a starting point: the next
  // save to this manager's own store is whole, and has no parent. If empty, the
  // step is one of the manager's own store.
  std::string path = {};
  LiveTable::RestoreMode mode = LiveTable::RestoreMode::kClear;
  // Reads and checks all of it before anything is changed. Default: false.
  bool verify = false;
  // Quarantines a damaged step, unless `step` names it, and restores the next
  // older one. Each is verified first. Default: false.
  bool fall_back = false;
  // Says how to restore a step whose items are not those that are registered.
  // Default: ManagerOptions::evolve.
  std::optional<EvolvePolicy> evolve = std::nullopt;
};

struct ManagerOptions;

class CheckpointManager {
 public:
  using DTypeCast = ckptdb::LoadSummary::DTypeCast;
  using SlotChange = ckptdb::LoadSummary::SlotChange;
  using LoadedItem = ckptdb::LoadSummary::LoadedItem;
  using UnmatchedPattern = ckptdb::LoadSummary::UnmatchedPattern;
  using LoadedRule = ckptdb::LoadSummary::LoadedRule;
  using LoadSummary = ckptdb::LoadSummary;

  // The report of a save, also of one that failed.
  struct SaveReport {
    int64_t step = 0;
    SavePolicy::Kind save_kind = SavePolicy::Kind::kNone;
    std::string reason;
    absl::Status status;
    SaveResult result;                   // when it was committed
    Metrics metrics;                     // that it was saved with
    std::vector<int64_t> retired_steps;  // removed by its write batch
    uint64_t copied_bytes = 0;    // by this rank, while the training waited
    int64_t wait_micros = 0;      // for the save before it
    int64_t blocking_micros = 0;  // the training waited, wait_micros included
    int64_t planning_micros = 0;  // decided on the save and on retention
    int64_t stage_micros = 0;     // from its beginning to staged on this rank
    int64_t total_micros = 0;     // from its beginning to its end
    // On the owner, the status of the last sweep of the store when the save
    // ended, and the number of entries of the store's folder that it left. See
    // Store::sweep_status and Store::unswept.
    absl::Status sweep_status;
    uint64_t unswept_entries = 0;
  };

  // The report of a restore.
  struct RestoreReport {
    Version version;
    std::string store;  // folder of the store
    StepRecord record;
    LoadedRule loaded;
    // Damaged steps that were quarantined and skipped.
    std::vector<int64_t> damaged_steps;
    // True if the restore was incremental: tables that were saved as deltas
    // since the step that the model held were updated from these deltas, the
    // others were read whole.
    bool incremental = false;
    // The size of what was loaded, as the step holds it on all ranks: this
    // rank's part, and what was read as changes, is less.
    uint64_t loaded_bytes = 0;
    uint64_t loaded_rows = 0;
    // Times on this rank, waiting for the others included.
    int64_t open_micros = 0;   // the step was picked and opened; not AwaitStep
    int64_t check_micros = 0;  // whether it fits; whether it is whole, if asked
    int64_t load_micros = 0;   // read from the store into the model
    int64_t total_micros = 0;  // all, also of damaged steps before it
  };

  // How RestoreOrStart has begun the training.
  struct TrainingStart {
    std::string store;  // folder of the manager's own store
    // Unset for a fresh start: the store has no step, and the model is as the
    // caller has initialized it.
    std::optional<RestoreReport> restored = std::nullopt;

    bool fresh() const { return !restored.has_value(); }
    // Returns a line for a log, such as `restored step 1000 from "/ckpt"` or
    // `fresh start: store "/ckpt" has no step`.
    std::string ToString() const;
  };

  // The outcome of Step.
  struct StepOutcome {
    int64_t step = 0;
    SavePolicy::Decision decision;
    std::optional<PendingSave> save;  // when it is saved
    // True if SetPreempted was called on some rank: the training should end
    // with this step. It is the same on all ranks, so that all leave their
    // loops at the same step. It stays true until a step is saved, or the
    // newest step becomes permanent instead; if that save fails, it stays true
    // as well. A read-only manager asks no other rank: there it is preempted().
    bool preempted = false;
  };

  // The reasons why a step was or was not saved, and why it is or is not kept.
  struct StepExplanation {
    std::string saved;
    std::string kept;
  };

  // Opens a manager. `model` must outlive the manager, and everything must be
  // registered before.
  // Returns InvalidArgument for invalid options, on all ranks, and for a null
  // model or coordinator.
  static absl::StatusOr<std::unique_ptr<CheckpointManager>> Open(
      const ManagerOptions& options, ModelState* model,
      std::unique_ptr<Coordinator> ranks = SingleProcess());

  // Closes the manager as Close does, and drops the error. exit() waits for a
  // save in progress, with several ranks for a minute at most, so that a
  // manager in a global variable, or one that is never destroyed, ends in
  // order.
  ~CheckpointManager();
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;

  // Waits for the save in progress, and releases the trackers of the tables and
  // the store, which can be opened again at once. Returns the error of that
  // save, or else that of closing. Each rank closes by itself, and waits for
  // others only in its own save; the owner then also for two seconds at most,
  // until the others have heard how it ended: see Coordinator::Leave. Returns
  // FailedPrecondition, and the manager
  // stays open, while a StepReader or ChangeReader of store() exists.
  //
  // After Close calls return FailedPrecondition, those of evaluation() too, no
  // save is in progress, store() and reader() are null, and Close returns OK. A
  // Store that store() returned before is closed and stays valid for as long as
  // the manager does; a Reader that reader() returned is gone.
  absl::Status Close();

  // Saves the step that the training begins with, if `first_save` says so. Call
  // it before the first step, and after restores.
  absl::Status StartTraining();
  // Saves the last step unless it is saved, and waits until it is durable. Call
  // it after the last step. It does so even after an error of an earlier save,
  // and returns that error. Does nothing if no step was trained, or if there
  // was no time to save the last one: see ManagerOptions::preemption_grace.
  absl::Status FinishTraining();

  // Returns the step that was trained last: 0, or the step restored, and one
  // more for each Step. Thread-safe.
  int64_t global_step() const;

  // Counts a step that was trained, decides whether it is saved, and begins the
  // save. Returns the error of an earlier save, once, or that of beginning this
  // one. The metrics of the owner are those of the step; those of other ranks
  // are ignored, with one warning. `user_metadata` of the owner is stored in
  // that step, merged over that of the options.
  // Returns FailedPrecondition, whether or not the step was to be saved, if
  // 1. a restore or a load has failed midway, so that the model is partly
  //    written: restore or load a step before training continues, or
  // 2. the model does not come from this store, and the store has a step with
  //    this number or a higher one: nothing could be saved up to there. Restore
  //    that step, use another folder, or call AbandonSteps.
  absl::StatusOr<StepOutcome> Step(const Metrics& metrics = {},
                                   const UserMetadata& user_metadata = {});
  // Does the same for a trainer that counts steps itself: `step` is the one
  // that was trained last. Returns InvalidArgument unless it is after
  // global_step(). A trainer whose first step is 0 passes it once, before all
  // others: after a restore or a save of step 0 that is InvalidArgument, too.
  absl::StatusOr<StepOutcome> StepTo(int64_t step, const Metrics& metrics = {},
                                     const UserMetadata& user_metadata = {});
  // Returns whether StepTo would save that step if it was called now, and why.
  // It counts and saves nothing, does not change what Explain returns, and
  // returns no error of an earlier save. All ranks call it, and get the same
  // answer. A policy that depends on time may answer differently a moment
  // later, and so may a save that is in progress, if the rank is preempted and
  // the step of that save can be made permanent instead. Returns
  // FailedPrecondition if BusyPolicy::kFail would fail the step, and
  // InvalidArgument for a step below 0.
  absl::StatusOr<SavePolicy::Decision> ShouldSave(int64_t step,
                                                  const Metrics& metrics = {});
  // Saves the step that was trained last, whatever the schedule says. Returns
  // AlreadyExists if the step exists, and FailedPrecondition if
  // ManagerOptions::saving is false, if the step of an abandoned branch that it
  // would replace is pinned, and for the reasons of Step. A failure that is
  // tolerated is the error of the PendingSave alone.
  absl::StatusOr<PendingSave> Save(const SaveRequest& request = {});

  // Begins a training: restores the step that `request` names, the newest by
  // default, or leaves the model as it is if the manager's own store has no
  // step at all. The result says which. Call it once, before the first step.
  //
  // With RestoreRequest::path the first run begins with the step of that other
  // store; a run that finds steps in its own store goes on from the newest of
  // these, and `path`, `step` and `best` are ignored. Without `path`, a `step`
  // that the store does not have is an error, also when the store is empty.
  //
  // Returns the errors of Restore, and never NotFound: the caller returns each
  // error. Returns FailedPrecondition for a manager that is read-only.
  absl::StatusOr<TrainingStart> RestoreOrStart(
      const RestoreRequest& request = {});

  // Loads a step into the model; the training continues from it. Use
  // RestoreOrStart to begin a training. Returns
  // 1. NotFound only if the manager's own store has no step at all;
  // 2. FailedPrecondition if the step, or the store of RestoreRequest::path,
  //    does not exist, or if the step does not have all that is registered,
  //    with the same shapes, dtypes and slots: it names all items that are
  //    missing, do not fit, or are in the step alone. See EvolvePolicy for a
  //    model that has changed;
  // 3. DataLoss if the step is damaged, or all steps are quarantined; with
  //    `fall_back` the error is that of the newest step.
  // If the error was found while the model was being written, the model is
  // partly restored: Step and Save are FailedPrecondition until a restore or a
  // load has succeeded.
  //
  // Items and slots that are in the step alone are not loaded, and the owner
  // warns of them, as the next save does not have them. It also warns if the
  // step is one of another store, and the manager's own store has steps that
  // stop its saves: see Step.
  absl::StatusOr<RestoreReport> Restore(const RestoreRequest& request = {});

  // Starts a new lineage with the model as it is, in a store that has steps.
  // The steps of the store are abandoned, as those after a restored one are:
  // ManagerOptions::abandoned says what the next save does with them.
  // global_step() stays as it is. All ranks call it. It stores nothing. Returns
  // FailedPrecondition if the manager is read-only or saves nothing, and the
  // error of a save in progress.
  absl::Status AbandonSteps();

  // Blocks until the store has a step that was saved after the one held,
  // whatever its number, and loads the newest into the model. If no step is
  // held, it takes any step. It is for read-only managers. The model must be as
  // the last call left it, as only the changes of tables are read if the store
  // has them; otherwise all rows are read. Returns DeadlineExceeded if no
  // step came in time and Cancelled after SetPreempted; the model is then as it
  // was. Other errors are those of Restore. Returns FailedPrecondition for a
  // manager that is not read-only.
  absl::StatusOr<RestoreReport> WaitForStep(absl::Duration timeout);
  // The two halves of WaitForStep, for a server that must not hold the lock of
  // its model while it waits:
  //
  //   CKPTDB_RETURN_IF_ERROR(manager->AwaitStep(absl::Minutes(10)).status());
  //   const auto lock = lock_model();
  //   CKPTDB_RETURN_IF_ERROR(manager->ApplyStep().status());
  //
  // AwaitStep waits, opens the step that it returns, with a lease, and does not
  // use the model. ApplyStep loads that step. Called without a step that was
  // awaited, or after the model was changed by another call since, ApplyStep
  // opens and loads the newest step. Errors are those of WaitForStep.
  absl::StatusOr<Version> AwaitStep(absl::Duration timeout);
  absl::StatusOr<RestoreReport> ApplyStep();

  // Loads by rules, one after the other; global_step() and the lineage of the
  // saves stay as they are, and the next save of each table is whole. With
  // `dry_run` the model is not changed, and what is missing or does not fit is
  // in the summary alone. It ends at the first rule that fails, unless its
  // error is ignored.
  absl::StatusOr<LoadSummary> Load(const std::vector<LoadRule>& rules,
                                   bool dry_run = false);

  // Tells the manager that this machine will soon be taken away. With the next
  // step the policies and all ranks learn of it, by StepOutcome::preempted.
  // Thread-safe, and of this rank alone: no other rank need call it. A signal
  // handler may call it. It may be called again for the next preemption.
  void SetPreempted();
  // Returns whether SetPreempted was called on this rank since its last step,
  // or that step's outcome was preempted. It becomes true on ranks at different
  // steps: with several ranks, end the loop by StepOutcome::preempted, or the
  // last save fails.
  bool preempted() const;

  // The following are of this rank alone, and thread-safe.
  //
  // Returns whether a save has begun that is neither committed nor failed.
  bool IsSavingInProgress() const;
  // Returns the error of a background save that is still to be reported, if
  // there is one: see above.
  absl::Status CheckForErrors();
  // Waits for the save in progress and its callbacks, and returns the same.
  // Threads other than the training thread get only the error of that save.
  absl::Status WaitUntilFinished();

  // Returns why a step was saved and why it is kept, on the owner. Thread-safe.
  // Returns NotFound for a step that this manager does not know, and
  // FailedPrecondition if the manager is read-only, as it decides nothing.
  absl::StatusOr<StepExplanation> Explain(int64_t step) const;

  // Returns the step that is best by ManagerOptions::best, of those in the
  // store now, without restoring it. Call it on the owner, or on any rank of a
  // manager that is read-only. Thread-safe. Returns NotFound if no step has the
  // metric, and FailedPrecondition if ManagerOptions::best is not set.
  absl::StatusOr<StepRecord> BestStep();

  // Removes a step by hand, for good, and reports that to on_deleted and
  // Explain, which Store::Delete does not. The owner calls it alone. It waits
  // for the save in progress, and the next save is whole if that step would
  // have been its parent. Returns NotFound if there is no such step, and
  // FailedPrecondition if it is pinned or the manager is read-only.
  absl::Status Delete(int64_t step);

  // Returns the progress of evaluations of this store's steps. All ranks make
  // its calls, and never beside a call of the manager.
  EvaluationState* evaluation();

  // Returns the store on the owner. Returns null on other ranks, if the manager
  // is read-only, and after Close.
  Store* store();
  // Returns the reader of a read-only manager, on all ranks, until Close; else
  // null.
  Reader* reader();

 private:
  class Impl;
  explicit CheckpointManager(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct ManagerOptions {
  // Says what happens to a step that is to be saved while a save is in
  // progress.
  enum class BusyPolicy {
    kWait,      // the training waits for the end of that save
    kSkip,      // it is not saved
    kCoalesce,  // the first step after the end of that save is saved
    kFail,      // FailedPrecondition
  };

  // Says what happens to io states if the world has another size.
  enum class IoStateResize {
    kError,         // FailedPrecondition with both sizes
    kRedistribute,  // IoState::Redistribute with the parts of all old ranks
    kOwners,        // all ranks load what the owner had dumped
    kReset,         // they stay as they are
  };

  // Says whether the step that a training begins with is saved before its first
  // one.
  enum class FirstSave {
    kUnlessRestored,  // not when a restore has put it there
    kAlways,          // unless the manager's own store has it by a restore
    kNever,
  };

  // The path of the store, which is created if it does not exist. Open resolves
  // it, as Store::Open does: a chdir later moves nothing.
  std::string path = {};
  // True if another job owns the store, which is only read: restores and loads
  // work, Save is FailedPrecondition, Step counts and says that nothing is
  // saved, and a damaged step is an error and not quarantined. The options of
  // saving are ignored: store, stage, schedule, retention, deltas,
  // store_metadata, on_saved, on_deleted, statistics_path. A store without
  // steps can be followed: WaitForStep waits for the first. Open returns
  // NotFound if there is no store: see await_store. Default: false.
  bool read_only = false;
  // How long Open of a read-only manager waits for the store to be created, by
  // a job that was started at the same time. It looks every `poll_every`.
  // Default: 0, so that a mistyped path is NotFound at once.
  absl::Duration await_store = absl::ZeroDuration();
  // Makes a read-only manager of a single process restore what one rank of a
  // world has, alone: for a rank that failed and comes back while the others
  // keep their state. Default: the coordinator's rank and world size.
  std::optional<ModelState::Shard> shard = std::nullopt;
  // If false, no step is saved: Step and StepTo count and say so, StartTraining
  // and FinishTraining do nothing, Save is FailedPrecondition, and changed rows
  // are not tracked. All ranks still learn of a preemption. Restores and loads
  // work, evaluations are kept, and this manager is the owner of the store: set
  // read_only for a store that another job writes. Default: true.
  bool saving = true;
  // The interval at which WaitForStep and AwaitStep look. Above 0. Default: 1
  // second.
  absl::Duration poll_every = absl::Seconds(1);
  StoreOptions store = {};
  StageOptions stage = {};
  ReadOptions read = {};

  SaveSchedule schedule = {};
  RetentionOptions retention = {};
  // Defines the best step for RestoreRequest::best and BestStep. Default:
  // unset, so that no step is the best.
  std::optional<KeepPolicy::BestOptions> best = std::nullopt;
  // Says how Restore and WaitForStep restore a step whose items are not those
  // that are registered. Default: unset, so that it is an error.
  std::optional<EvolvePolicy> evolve = std::nullopt;

  // Saves tables that have a tracker as their changes. Default: true.
  bool deltas = true;
  // Looks for missed marks, while a training is tried out: each row that a
  // delta save leaves out is compared with the parent, and a row that differs
  // fails the save with FailedPrecondition, naming the table, the lowest such
  // id, the slot and the mark that was missed. The training waits while all
  // tables of that step are read, and it takes 24 bytes a row. Default: false.
  bool audit_deltas = false;
  // Compares the replicated tensors of all ranks at each save, and the tables
  // of all ranks that are saved by the owner alone: where one differs, the save
  // fails with FailedPrecondition naming it and the first rank that differs
  // from rank 0. Only digests are sent, 8 bytes for each tensor and table. The
  // training waits while each rank hashes all that it has of them, at the speed
  // of its memory for tensors, and row by row for tables. It must be the same
  // on all ranks. Default: false.
  bool audit_replicas = false;
  // Every base_every-th save is full although a delta is possible. If 0, only
  // those are for which `bounds` is exceeded. Default: 0.
  int64_t base_every = 0;
  StoreOptions::ChainBounds bounds = {};
  // Says what happens to the steps after one that was restored. Pinned ones
  // stay in any case: Restore warns of them, and when the training reaches one
  // of them, Step saves the step after it instead. Default: they are removed
  // with the next save.
  SaveSpec::Abandoned abandoned = SaveSpec::Abandoned::kRemove;
  // Metadata of each step, besides that of the manager itself.
  UserMetadata user_metadata = {};
  // Metadata of the store itself. The first manager that has any sets it; one
  // that finds other metadata there leaves it, and warns.
  // Store::SetUserMetadata replaces it. Default: none.
  UserMetadata store_metadata = {};

  // Runs saves beside the training. If false, Step and Save return when the
  // step is durable. Default: true.
  bool async = true;
  // The maximum memory of the copies of a rank. Default: 1 GiB.
  uint64_t arena_bytes = uint64_t{1} << 30;
  int copy_threads = 4;  // at least 1
  BusyPolicy busy = BusyPolicy::kWait;
  // The number of saves in a row that may fail before a call returns the error.
  // A save may fail at its beginning, as on a full disk, while it is staged or
  // while it is published. Each failure is in a report, and a tolerated one is
  // warned of. What the store refuses (AlreadyExists, InvalidArgument,
  // FailedPrecondition at the beginning) is no failure, and is returned by the
  // call. At least 0. Default: 0.
  int64_t tolerated_failures = 0;
  // The number of steps after a tolerated failure at which the then current
  // step is saved. At least 0. If 0, the next save is the one that is due by
  // the schedule. Default: 0.
  int64_t retry_after_steps = 0;
  // Called with each warning, by the thread that calls the manager. Each rank
  // warns of a save that waited `warn_waiting` or longer for the one before it,
  // and of one that failed and was tolerated. Each rank but the owner warns
  // once if it gives metrics, as those of the owner are the step's. On the
  // owner Open warns of a schedule that has no policy, and of each of
  // Store::BadFiles. The owner also warns, once each, of what the policy of
  // retention warns of, of sweeps that fail, and of each of Store::unswept and
  // Store::skipped_posts, after the save during which that came up.
  // Default: warnings go to `store.logger`; without one, each is a line on
  // stderr, where the library writes nothing else.
  std::function<void(const std::string& warning)> on_warning = {};
  absl::Duration warn_waiting = absl::Seconds(1);  // at least 0
  // Says what StartTraining saves.
  FirstSave first_save = FirstSave::kUnlessRestored;
  // The time that is left to a machine once it is preempted. If the last save
  // took longer and the newest step is ephemeral, that step becomes permanent
  // instead of another save, and FinishTraining saves none either. At least 0.
  // Default: infinite.
  absl::Duration preemption_grace = absl::InfiniteDuration();
  // The time that ranks wait for one another. Above 0. Default: 30 minutes.
  absl::Duration deadline = absl::Minutes(30);

  // The sharding of tables that declare none by themselves: see
  // ModelState::AddTable. A save refuses an id that belongs to another rank,
  // and a restore reads the rows of this rank. Open returns InvalidArgument
  // if, with several ranks, a table has no sharding, tables by slices have
  // different bounds, or ranks declare different shardings. Default:
  // undeclared.
  TableSharding sharding = {};
  ModelState::Replication replication = {};  // of tensors that are whole
  // Default: kError. The default of a read-only manager is kReset, as it trains
  // nothing that would go on from them, and restores with any number of ranks.
  std::optional<IoStateResize> io_state_resize = std::nullopt;

  // Returns the time that policies and records get, in microseconds since 1970,
  // UTC, at least 0. The owner's is used. The training thread and that of a
  // save call it. Default: the machine's clock.
  std::function<int64_t()> now_micros = {};
  std::function<void(const CheckpointManager::SaveReport& report)> on_saved =
      {};
  // A file to which the owner appends each report, of saves and of restores, as
  // a line of JSON. Open resolves the path. If empty, there is no file.
  std::string statistics_path = {};
  std::function<void(const CheckpointManager::RestoreReport& report)>
      on_restored = {};
  // Called with each step that Delete has removed, by the thread that calls
  // Delete. Steps that a save retires are in its report.
  std::function<void(int64_t step)> on_deleted = {};
};

// Reads options of a manager from JSON, for configuration files.
//
//   ManagerOptions options{.path = "checkpoints"};
//   CKPTDB_RETURN_IF_ERROR(ReadManagerConfig(R"({
//     "permanent": {"save_every_n_steps": 1000},
//     "ephemeral": {"save_every_n_seconds": 300},
//     "keep": {"any": [{"latest_n": 3}, {"best_n": {"metric": "auc"}}]},
//     "busy": "coalesce"
//   })", &options));
//
// Keys are the names of ManagerOptions, and of what is in its schedule and its
// retention; policies have the names of the functions of manager/policies.h in
// lower case. docs/manager.md has a table of all of them, with types, defaults
// and bounds.
//
// Sets the options that `json` names, and leaves the others. Returns
// InvalidArgument with the place, line and column of an invalid value, a
// missing or a duplicate key, and with the nearest key for an unknown one;
// `options` is then unchanged.
absl::Status ReadManagerConfig(absl::string_view json, ManagerOptions* options);

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_CHECKPOINT_MANAGER_H_
