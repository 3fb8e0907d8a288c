// What a training loop talks to: saves when it is time to, beside the training,
// on all ranks; restores; keeps what is worth keeping.
//
//   ManagerOptions options{.path = "checkpoints",
//                          .schedule = {.permanent = SaveEveryNSteps(1000)},
//                          .retention = {.keep = LatestN(3)}};
//   CKPTDB_ASSIGN_OR_RETURN(auto manager,
//                           CheckpointManager::Open(options, &model));
//   const auto restored = manager->Restore();
//   if (!restored.ok() && !absl::IsNotFound(restored.status())) {
//     return restored.status();
//   }
//   while (manager->global_step() < steps) {
//     train();
//     CKPTDB_ASSIGN_OR_RETURN(const StepOutcome outcome, manager->Step());
//     if (outcome.preempted) break;
//   }
//   CKPTDB_RETURN_IF_ERROR(manager->FinishTraining());
//   CKPTDB_RETURN_IF_ERROR(manager->Close());
//
// Every rank has a manager, made with its Coordinator; the owner's has the
// store. All ranks make the same calls in the same order, and get the same
// answers: the owner decides and tells the others, and what fails on one fails
// on all.
//
// A save copies what it saves into memory, and lets the training go on. Where
// that is more than the budget, the part that is written last is copied, and
// the training waits until the rest is read. Marks of changed rows are taken
// with the copy; those of a save that fails are in the next one.
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
// Threads. One thread at a time makes the calls that train: the training
// thread is the one that made the last of Open, StartTraining, FinishTraining,
// Step, StepTo, Save, Restore, WaitForStep, Load, Delete and Close. What says
// so is thread-safe, and may be called beside them, as may the Store and the
// Reader. Destroy the manager when no call is under way.
//
// In a child that was forked while a manager is there (a data loader's, say)
// every call is FailedPrecondition, and its destructor does nothing.
//
// Callbacks come from a thread of the manager's, or from the training thread.
// Code that the manager calls, callbacks, policies and the model's alike, must
// not make a call of the training thread's or wait for the end of a save:
// that is FailedPrecondition. What such code throws is an error, Internal with
// its words: of a save the one that fails for it, of a restore its own. What a
// callback (on_saved, on_restored, on_deleted, on_warning) throws changes
// nothing of what was done, and is told by the next call of the training
// thread, on all ranks.
//
// Who is told of a save that fails in the background, beyond what is tolerated,
// as "save of step 4000: ...":
// 1. The training thread, once, by the first of its calls that takes note of
//    it: Step, StepTo, Save, StartTraining, FinishTraining, Restore, Load and
//    Close, and WaitUntilFinished and CheckForErrors when it makes them. When
//    PendingSave::WaitCommitted gave it the error it has been told.
// 2. Every other thread that waited for that save in WaitUntilFinished.
// 3. Every other thread that calls WaitUntilFinished or CheckForErrors between
//    the end of the save and 1. That takes nothing from the training thread.
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
#include "ckptdb/manager/model_state.h"
#include "ckptdb/manager/policies.h"
#include "ckptdb/schema/types.h"

namespace ckptdb {
// A save that goes on beside the training.
//
//   CKPTDB_ASSIGN_OR_RETURN(PendingSave save, manager->Save());
//   CKPTDB_RETURN_IF_ERROR(save.WaitStaged());  // the model may change now
//   CKPTDB_ASSIGN_OR_RETURN(SaveResult result, save.WaitCommitted());
//
// Copies are of the same save. Thread-safe.
class PendingSave {
 public:
  class State;
  explicit PendingSave(std::shared_ptr<State> state)
      : state_(std::move(state)) {}

  int64_t step() const;

  // Until nothing reads the model any more; OK also when the save fails later.
  // DeadlineExceeded when that takes longer than `timeout`.
  absl::Status WaitStaged(
      absl::Duration timeout = absl::InfiniteDuration()) const;

  // Until the step is durable on all ranks' behalf, or has failed, which is the
  // same error on all ranks. The result is that of the owner, on all ranks. On
  // the thread that began the save the error counts as told: no call of the
  // manager says it again on this rank, unless another rank was not told.
  absl::StatusOr<SaveResult> WaitCommitted(
      absl::Duration timeout = absl::InfiniteDuration()) const;

  bool committed_or_failed() const;

  // Asks for the end: if it is not too late the save fails with Cancelled, on
  // all ranks, and the store is as it was.
  void Cancel();

 private:
  std::shared_ptr<State> state_;
};

struct SaveRequest {
  Metrics metrics = {};
  UserMetadata user_metadata = {};
  SavePolicy::Kind kind = SavePolicy::Kind::kPermanent;
  std::string reason = "it was asked for";
  // As SaveSpec. Steps of a branch that was given up, and quarantined ones, are
  // written over all the same.
  bool overwrite = false;
};

struct RestoreRequest {
  // Unset: the step saved last, or the best. One that is named never becomes
  // another.
  std::optional<int64_t> step = std::nullopt;
  bool best = false;
  // Another store, whose step is only a beginning: the next save to this
  // manager's own store is whole, and goes on from none of its steps. Empty:
  // the manager's own.
  std::string path = {};
  LiveTable::RestoreMode mode = LiveTable::RestoreMode::kClear;
  // Read and check all of it before anything is touched. Default: false.
  bool verify = false;
  // A damaged step, if it was not named, is quarantined, and the next older one
  // taken. It is verified first. Default: false.
  bool fall_back = false;
};

struct ManagerOptions;

class CheckpointManager {
 public:
  // What has another dtype in the step than it gets.
  struct DTypeCast {
    std::string slot = {};  // of a table; of a tensor empty
    DType from = DType::kF32;
    DType to = DType::kF32;
  };

  // One thing that a rule loads, or would.
  struct LoadedItem {
    enum class Outcome { kLoaded, kMissing, kMisfit };
    std::string category;
    std::string name;    // as registered
    std::string source;  // its name in the step
    Outcome outcome = Outcome::kLoaded;
    std::string detail;  // of a misfit: "expected f32 [4], got f32 [8]"
    uint64_t bytes = 0;  // of all ranks, as the step holds them; a bound
    uint64_t rows = 0;   // of tables; a bound
    std::vector<DTypeCast> casts = {};
  };

  // A pattern of LoadRule::load that chooses nothing of what is registered.
  struct UnmatchedPattern {
    std::string pattern;
    std::string nearest;  // what may have been meant: a name or a category
  };

  // What became of a rule.
  struct LoadedRule {
    std::string path;
    std::optional<int64_t> step;  // none: skipped, or not there
    std::vector<LoadedItem> items;
    std::vector<std::string> unexpected;  // in the step, and nobody's
    std::vector<UnmatchedPattern> unmatched;
    // Why nothing was loaded, or the error that was ignored; empty: neither.
    std::string note;

    // Of what is loaded.
    uint64_t bytes() const;
    uint64_t rows() const;
  };

  struct LoadSummary {
    std::vector<LoadedRule> rules;

    uint64_t bytes() const;
    uint64_t rows() const;
    // For people, a line for each thing.
    std::string ToString() const;
  };

  // What a save was and cost. Also of one that failed.
  struct SaveReport {
    int64_t step = 0;
    SavePolicy::Kind save_kind = SavePolicy::Kind::kNone;
    std::string reason;
    absl::Status status;
    SaveResult result;                   // when it was committed
    std::vector<int64_t> retired_steps;  // steps that left with it
    uint64_t copied_bytes = 0;    // of this rank, before the training went on
    int64_t wait_micros = 0;      // for the save before it
    int64_t blocking_micros = 0;  // the training stood still, waiting included
    int64_t planning_micros = 0;  // whether it is saved, and which steps leave
    int64_t stage_micros = 0;     // from its begin to staged on this rank
    int64_t total_micros = 0;     // from its begin to the end
    // On the owner, of the last sweep of the store when the save ended: whether
    // it failed, and the entries of the store's folder that it passed over. See
    // Store::sweep_status and Store::unswept.
    absl::Status sweep_status;
    uint64_t unswept_entries = 0;
  };

  // What a restore did.
  struct RestoreReport {
    Version version;
    std::string store;  // folder of the store
    StepRecord record;
    LoadedRule loaded;
    // Steps that were damaged, and were passed over and quarantined.
    std::vector<int64_t> damaged_steps;
    // The way from the step that the model held was known: tables that were
    // saved as changes on all of it came as these alone, the others whole.
    bool incremental = false;
    // Of what was loaded, as the step holds it on all ranks: this rank's part,
    // and what came by changes, is less.
    uint64_t loaded_bytes = 0;
    uint64_t loaded_rows = 0;
    // On this rank, waiting for the others included.
    int64_t open_micros = 0;   // the step was picked and opened
    int64_t check_micros = 0;  // whether it fits; whether it is whole, if asked
    int64_t load_micros = 0;   // read from the store into the model
    int64_t total_micros = 0;  // all, also of damaged steps before it
  };

  // What Step came to.
  struct StepOutcome {
    int64_t step = 0;
    SavePolicy::Decision decision;
    std::optional<PendingSave> save;  // when it is saved
    // SetPreempted was called on some rank: the training should end with this
    // step. The same on all ranks, so that all leave their loops at the same
    // step. Each step says so until one of them is saved, or the newest step
    // became permanent instead; then the preemption is over, and another can
    // come. When that save fails, it is not over. A manager that is read-only
    // asks no other rank: there it is preempted().
    bool preempted = false;
  };

  // Why a step was or was not saved, and why it is or is not kept.
  struct StepExplanation {
    std::string saved;
    std::string kept;
  };

  // `model` outlives the manager, and all of it is registered. InvalidArgument
  // for options that cannot be, on all ranks, and for a null model or
  // coordinator.
  static absl::StatusOr<std::unique_ptr<CheckpointManager>> Open(
      const ManagerOptions& options, ModelState* model,
      std::unique_ptr<Coordinator> ranks = SingleProcess());

  // As Close; what fails is lost. A save in progress when exit() is called is
  // waited for, one of several ranks for a minute at most, so that a manager in
  // a global variable, or one that is never destroyed, ends in order.
  ~CheckpointManager();
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;

  // Waits for the save in progress, and lets go of the store, which can be
  // opened again at once, and of the trackers of the tables. Returns the error
  // of that save, or else what closing met. Each rank closes for itself, and
  // waits for none but in its own save. FailedPrecondition, and the manager
  // stays open, while a StepReader or ChangeReader of store() is there.
  //
  // Then calls are FailedPrecondition, those of evaluation() too, no save is in
  // progress, store() and reader() are null, and Close is OK. A Store that
  // store() gave before is a closed one for as long as the manager is there; a
  // Reader that reader() gave is gone.
  absl::Status Close();

  // To be called before the first step, and after restores: saves the step that
  // the training begins with, if `first_save` says so.
  absl::Status StartTraining();
  // To be called after the last step: saves it unless it is saved, and waits
  // until it is durable. An error of an earlier save does not prevent that, and
  // is returned. Does nothing where no step was trained, or where the last one
  // found no time for a save: see ManagerOptions::preemption_grace.
  absl::Status FinishTraining();

  // The step that was trained last: 0, or the step restored, and one more for
  // each Step. Thread-safe.
  int64_t global_step() const;

  // A step was trained: decides whether it is saved, and begins the save. An
  // error is of an earlier save, which is raised once, or of this one's begin.
  // The metrics of the owner are those of the step; those of other ranks do not
  // count, which is warned of once. `user_metadata` is kept in that step, on
  // top of that of the options; the owner's counts.
  absl::StatusOr<StepOutcome> Step(const Metrics& metrics = {},
                                   const UserMetadata& user_metadata = {});
  // The same for a trainer that counts by itself: `step` was trained last.
  // InvalidArgument unless it is after global_step(). A trainer whose first
  // step is 0 says so once, before all others: after a restore or a save of
  // step 0 that is InvalidArgument, too.
  absl::StatusOr<StepOutcome> StepTo(int64_t step, const Metrics& metrics = {},
                                     const UserMetadata& user_metadata = {});
  // Whether StepTo would save that step if it was called now, and why. Nothing
  // is counted or saved, Explain does not hear of it, and no error of an
  // earlier save is told. All ranks call it, and get the same answer. A policy
  // that goes by the time may answer otherwise a moment later.
  // FailedPrecondition when BusyPolicy::kFail would fail the step,
  // InvalidArgument for one below 0.
  absl::StatusOr<SavePolicy::Decision> ShouldSave(int64_t step,
                                                  const Metrics& metrics = {});
  // Saves the step that was trained last, whatever the schedule says.
  // AlreadyExists when it is there; FailedPrecondition with
  // ManagerOptions::saving off, as what was asked for is not done.
  absl::StatusOr<PendingSave> Save(const SaveRequest& request = {});

  // Puts a step into the model; the training goes on from it. NotFound when
  // there is none. After another error the model must not be used before a
  // restore has succeeded.
  absl::StatusOr<RestoreReport> Restore(const RestoreRequest& request = {});

  // Of a read-only manager: waits until the store has a step that was saved
  // after the one held, whatever its number, and puts the newest into the
  // model. Any step will do when none is held. The model must be as the last
  // call left it: where the store can tell how the two steps differ, only what
  // changed is read of the tables, else all. DeadlineExceeded when none came in
  // time, Cancelled after SetPreempted; the model is as it was then. Else as
  // Restore. FailedPrecondition for a manager that is not read-only.
  absl::StatusOr<RestoreReport> WaitForStep(absl::Duration timeout);

  // Loads by rules, one after the other; global_step() and the lineage of the
  // saves stay as they are, and the next save of each table is whole. With
  // `dry_run` the model is not touched, and what is missing or does not fit is
  // in the summary alone. A rule that fails, and is not to be ignored, ends it.
  absl::StatusOr<LoadSummary> Load(const std::vector<LoadRule>& rules,
                                   bool dry_run = false);

  // Thread-safe, and of this rank alone: no other rank need call it. This
  // machine will soon be taken away: with the next step the policies and all
  // ranks hear of it, by StepOutcome::preempted. May be called by a signal
  // handler, and again for the next preemption.
  void SetPreempted();
  // Whether this rank was told since its last step, or that step said so. Ranks
  // turn true at different steps: with more than one, a loop that ends by this
  // and not by the outcome of a step loses its last save.
  bool preempted() const;

  // Of this rank alone, and thread-safe, too.
  //
  // Whether a save has begun that is neither committed nor failed.
  bool IsSavingInProgress() const;
  // The error that is to be told, if there is one: see above.
  absl::Status CheckForErrors();
  // The same after the end of the save that is in progress now, if one is, its
  // callbacks included. Other threads than the training's are told of that
  // save alone.
  absl::Status WaitUntilFinished();

  // On the owner, and thread-safe. NotFound for a step that this manager knows
  // nothing of; FailedPrecondition for a manager that is read-only and decides
  // nothing.
  absl::StatusOr<StepExplanation> Explain(int64_t step) const;

  // The step that is best by ManagerOptions::best, of those in the store now;
  // nothing is restored. On the owner, and on any rank of a manager that is
  // read-only. Thread-safe. NotFound when no step has the metric,
  // FailedPrecondition when it was not said which is best.
  absl::StatusOr<StepRecord> BestStep();

  // Removes a step by hand, for good, and tells on_deleted and Explain: a step
  // that goes by Store::Delete is told to nobody. On the owner, by itself;
  // waits for the save in progress, and the next one is whole when it would
  // have gone on from that step. NotFound when there is no such step,
  // FailedPrecondition when it is pinned or the manager is read-only.
  absl::Status Delete(int64_t step);

  // How far evaluations of this store's steps have come. Its calls are made by
  // all ranks, and never beside one of the manager's.
  EvaluationState* evaluation();

  // The owner's; null on other ranks, when the manager is read-only, and after
  // Close.
  Store* store();
  // Of a read-only manager, on all ranks, until Close; else null.
  Reader* reader();

 private:
  class Impl;
  explicit CheckpointManager(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct ManagerOptions {
  // What becomes of a step that is to be saved while a save is in progress.
  enum class BusyPolicy {
    kWait,      // the training waits for the end of that save
    kSkip,      // it is not saved
    kCoalesce,  // the first step after the end of that save is saved
    kFail,      // FailedPrecondition
  };

  // What becomes of io states when the world has another size.
  enum class IoStateResize {
    kError,         // FailedPrecondition with both sizes
    kRedistribute,  // IoState::Redistribute with the parts of all old ranks
    kOwners,        // all ranks load what the owner had dumped
    kReset,         // they stay as they are
  };

  // Whether the step that a training begins with is saved before its first one.
  enum class FirstSave {
    kUnlessRestored,  // not when a restore has put it there
    kAlways,          // unless the manager's own store has it by a restore
    kNever,
  };

  // Of the store, which is made when it is not there. Resolved by Open, as
  // Store::Open does: a chdir later moves nothing.
  std::string path = {};
  // The store is another's, and only read: restores and loads work, Save is
  // FailedPrecondition, Step counts and says that nothing is saved, a damaged
  // step is an error and not quarantined. All that is about saving is off:
  // store, stage, schedule, retention, deltas, store_metadata, on_saved,
  // on_deleted, statistics_path.
  // NotFound when there is no store. Default: false.
  bool read_only = false;
  // Off, no step is saved: Step and StepTo count and say so, StartTraining and
  // FinishTraining do nothing, Save is FailedPrecondition, and changed rows are
  // not followed. A preemption is told to all ranks as ever. Restores and loads
  // work, evaluations are kept, and the store is this manager's for writing:
  // one that another job writes takes read_only. Default: true.
  bool saving = true;
  // How often WaitForStep looks. Above 0. Default: 1 second.
  absl::Duration poll_every = absl::Seconds(1);
  StoreOptions store = {};
  StageOptions stage = {};
  ReadOptions read = {};

  SaveSchedule schedule = {};
  RetentionOptions retention = {};
  // Which step is best, for RestoreRequest::best and BestStep. Default: none
  // can be.
  std::optional<KeepPolicy::BestOptions> best = std::nullopt;

  // Tables with a tracker are saved as their changes. Default: true.
  bool deltas = true;
  // Looks for missed marks, while a training is tried out: each row that a save
  // of changes leaves out is compared with the step that it goes on from, and
  // one that differs fails the save with FailedPrecondition, naming the table,
  // the lowest such id, the slot and the mark that was missed. The training
  // waits while all tables of that step are read, and it takes 24 bytes a row.
  // Default: false.
  bool audit_deltas = false;
  // Every so many saves are whole all the same; 0: only those of which
  // `bounds` says so. Default: 0.
  int64_t base_every = 0;
  StoreOptions::ChainBounds bounds = {};
  // What becomes of the steps after one that was restored. Default: they go
  // with the next save.
  SaveSpec::Abandoned abandoned = SaveSpec::Abandoned::kRemove;
  // Kept in each step, on top of what the manager keeps there.
  UserMetadata user_metadata = {};
  // Of the store itself, set by the first manager that has any; one that finds
  // others there leaves them, and warns. Store::SetUserMetadata replaces them.
  // Default: none.
  UserMetadata store_metadata = {};

  // Saves go on beside the training. Off, Step and Save return when the step
  // is durable. Default: true.
  bool async = true;
  // Copies of a rank take at most so much. Default: 1 GiB.
  uint64_t arena_bytes = uint64_t{1} << 30;
  int copy_threads = 4;  // at least 1
  BusyPolicy busy = BusyPolicy::kWait;
  // So many saves in a row may fail before the training is told. Each of them
  // is in a report. At least 0. Default: 0.
  int64_t tolerated_failures = 0;
  // A save that failed and was tolerated is tried again so many steps later,
  // of the state of that step. Otherwise the next save is the one that is due
  // by the schedule. At least 0; 0: no retry. Default: 0.
  int64_t retry_after_steps = 0;
  // Told of a save that waited `warn_waiting` or longer for the one before
  // it, and of one that failed and was tolerated, on each rank; once on each
  // other rank that gives metrics, as those of the owner are the step's; on the
  // owner of a schedule that has no policy, by Open, of each of
  // Store::BadFiles, and, once each, of what the policy of retention warns of,
  // of sweeps that fail, and of each of Store::unswept and
  // Store::posts_passed_over, after the save during which that came up. By the
  // thread that calls the manager. Default: they go to `store.logger`; without
  // one, a line on stderr, where the library writes nothing else.
  std::function<void(const std::string& warning)> on_warning = {};
  absl::Duration warn_waiting = absl::Seconds(1);
  // What StartTraining does.
  FirstSave first_save = FirstSave::kUnlessRestored;
  // What is left of a machine once it is preempted. When the last save took
  // longer, and the newest step is ephemeral, that one becomes permanent
  // instead of another save, and FinishTraining saves none either. Default:
  // without end.
  absl::Duration preemption_grace = absl::InfiniteDuration();
  // For ranks to come together. Default: 30 minutes.
  absl::Duration deadline = absl::Minutes(30);

  // How the rows of tables are divided among ranks, of those that declare
  // nothing by themselves: see ModelState::AddTable. A save refuses an id that
  // is on another rank, and a restore reads the rows of this rank. With more
  // than one rank each table needs one, and the tables by slices have the same
  // bounds; all ranks declare the same. Else Open is InvalidArgument. Default:
  // none is declared.
  TableSharding sharding = {};
  // Default: kError; of a read-only manager kReset, as it trains nothing that
  // would go on from them, and restores with any number of ranks.
  std::optional<IoStateResize> io_state_resize = std::nullopt;

  // Since 1970, UTC, at least 0: what policies are told, and what records have.
  // The owner's counts. Called by the training thread and by that of a save.
  // Default: the machine's clock.
  std::function<int64_t()> now_micros = {};
  std::function<void(const CheckpointManager::SaveReport& report)> on_saved =
      {};
  // A file to which the owner appends each report, of saves and of restores, a
  // line of JSON. Resolved by Open. Empty: none.
  std::string statistics_path = {};
  std::function<void(const CheckpointManager::RestoreReport& report)>
      on_restored = {};
  // Told of each step that Delete has removed, by the thread that calls it.
  // Steps that leave with a save are in its report.
  std::function<void(int64_t step)> on_deleted = {};
};

// Options of a manager from JSON, for configuration files.
//
//   ManagerOptions options{.path = "checkpoints"};
//   CKPTDB_RETURN_IF_ERROR(ReadManagerConfig(R"({
//     "permanent": {"any": [{"save_every_n_steps": 1000},
//     "save_on_preemption"]}, "ephemeral": {"save_every_n_seconds": 300},
//     "keep": {"any": [{"latest_n": 3}, {"best_n": {"metric": "auc"}}]},
//     "busy": "coalesce"
//   })", &options));
//
// Keys are the names of ManagerOptions, and of what is in its schedule and its
// retention; policies have the names of the functions of manager/policies.h in
// lower case. docs/manager.md has a table of all of them, with types, defaults
// and bounds.
//
// Sets the options that `json` names, and leaves the others. InvalidArgument
// with the place, the value, line and column for what cannot be, and with the
// nearest key for one that there is not; the options are as they were then.
absl::Status ReadManagerConfig(absl::string_view json, ManagerOptions* options);

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_CHECKPOINT_MANAGER_H_
