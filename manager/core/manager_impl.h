// CheckpointManager's inside; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_MANAGER_IMPL_H_
#define CKPTDB_MANAGER_CORE_MANAGER_IMPL_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ckptdb/db/base/call_gate.h"
#include "ckptdb/db/base/exit_task.h"
#include "ckptdb/db/change_reader.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/db/step_reader.h"
#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/manager/load/load_plan.h"
#include "ckptdb/manager/policy/history.h"
#include "ckptdb/manager/policy/retirement.h"
#include "ckptdb/manager/ranks/messages.h"
#include "ckptdb/manager/save/arena.h"
#include "ckptdb/manager/save/pending_save_state.h"
#include "ckptdb/manager/save/save_thread.h"
#include "ckptdb/manager/save/snapshot.h"
#include "ckptdb/manager/state/change_sets.h"

namespace ckptdb {

class CheckpointManager::Impl {
 public:
  Impl(ManagerOptions options, ModelState* model,
       std::unique_ptr<Coordinator> ranks);
  ~Impl();

  absl::Status Open();
  absl::StatusOr<StepOutcome> StepTo(int64_t step, const Metrics& metrics,
                                     const UserMetadata& user_metadata);
  absl::StatusOr<SaveDecision> ShouldSave(int64_t step, const Metrics& metrics);
  absl::StatusOr<PendingSave> Save(const SaveRequest& request);
  absl::Status StartTraining();
  absl::Status FinishTraining();
  absl::StatusOr<RestoreReport> Restore(const RestoreRequest& request);
  absl::StatusOr<LoadSummary> Load(const std::vector<LoadRule>& rules,
                                   bool dry_run);
  absl::StatusOr<StepStory> Explain(int64_t step) const;
  absl::StatusOr<StepRecord> BestStep();
  absl::Status Delete(int64_t step);

  int64_t global_step() const { return global_step_; }
  // Of the calls of the caller's and of the thread of a save.
  internal::CallGate& gate() { return gate_; }
  // Held by each call that only the training thread may make.
  std::mutex& training_mutex() { return training_mutex_; }
  void NoteTrainingThread() { training_thread_ = std::this_thread::get_id(); }
  absl::Status Close();
  absl::Status ClosedError(absl::string_view what) const;
  absl::Status ReentryError(absl::string_view what) const;
  bool IsSavingInProgress() const;
  void SetPreempted() { asked_to_end_ = true; }
  bool preempted() const { return asked_to_end_ || step_preempted_; }
  absl::Status CheckForErrors();
  absl::Status WaitUntilFinished();
  bool read_only() const { return options_.read_only; }
  bool saving() const { return options_.saving; }
  absl::Status CheckOwner() const;
  absl::Status SavingOffError() const;
  Reader* reader() { return reader_.get(); }
  // manager_read_only.cc
  absl::Status Count(int64_t step);
  absl::StatusOr<StepOutcome> CountStep(int64_t step);
  SaveDecision ReadOnlyDecision() const;
  // FailedPrecondition: `what` is not for a manager that is read-only.
  absl::Status ReadOnlyError(absl::string_view what) const;
  absl::StatusOr<RestoreReport> WaitForStep(absl::Duration timeout);

  EvaluationState* evaluation() { return evaluation_.get(); }
  // A store that is closed stays, for those who have a pointer to it.
  Store* store() { return gate_.closed() ? nullptr : store_.get(); }

 private:
  using Clock = std::chrono::steady_clock;
  static int64_t MicrosSince(Clock::time_point begin) {
    return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() -
                                                                 begin)
        .count();
  }

  // A save, from its announcement to its end. What the thread of saves works
  // on while it runs.
  struct Round {
    internal::Announcement announced;
    SaveRequest request;
    std::shared_ptr<PendingSave::State> pending;
    internal::ChangeSets changes;
    std::map<std::string, std::vector<Slot>> columns;  // of the tables saved
    std::unique_ptr<internal::Snapshot> snapshot;
    bool copied = false;  // or else it points to the model
    bool model_read = false;
    std::promise<void> model_is_read;
    internal::SavePart part;
    internal::Outcome outcome;
    SaveReport report;
    bool tolerated = false;  // or it succeeded
    bool answers_preemption = false;
    Clock::time_point begin;
    int64_t begun_at_micros = 0;  // by NowMicros, of the owner
    // Of the owner, when the round began.
    std::set<int64_t> abandoned;
    std::optional<int64_t> source;
    bool beside = false;  // it runs on the thread of saves
  };

  bool is_owner() const { return ranks_->rank() == kOwnerRank; }
  uint32_t world_size() const { return ranks_->world_size(); }
  // As its store: this one, and others that are restored from.
  ReaderOptions HowToRead() const;
  absl::Status OpenParts();
  absl::Status OpenStore();
  // InvalidArgument on all ranks when two declare other shardings.
  absl::Status AgreeOnShardings();
  int64_t NowMicros() const;
  void Warn(const std::string& warning) const;
  void WarnOfNoSchedule() const;
  // Warns once when a rank other than the owner gives metrics.
  void WarnOfMetrics(const Metrics& metrics);
  // Warns once of each reason why the store cannot give space back.
  void WarnOfSweeps();
  // Warns once of each post that could not be used.
  void WarnOfPosts();

  // Deciding, and telling all ranks: manager_decide.cc.
  bool IsSaved(int64_t step) const { return parent_ && parent_->step == step; }
  void Announce(std::optional<SaveDecision> wanted, const SaveRequest& request,
                internal::Announcement* announced);
  SaveDecision DecideStep(int64_t step, bool busy, bool preempted,
                          const Metrics& metrics);
  absl::StatusOr<SaveDecision> Foresee(int64_t step, bool busy, bool preempted,
                                       const Metrics& metrics);
  std::optional<StepInfo> Newest() const;
  std::vector<StepInfo> CommittedSteps() const;
  void NoteDecision(const internal::Announcement& announced);
  absl::StatusOr<SaveDecision> WhenBusy(int64_t step,
                                        const SaveDecision& decision) const;
  absl::Status Begin(const SaveRequest& request,
                     internal::Announcement* announced);
  SaveSpec NextSpec(const SaveRequest& request) const;
  std::string BaseReason() const;
  absl::StatusOr<StepOutcome> Share(std::optional<SaveDecision> wanted,
                                    const SaveRequest& request);
  absl::Status GatherNotices(bool of_a_step, bool* preempted);
  void NotePreemption(const internal::Announcement& announced);
  absl::Status DecideAndBegin(std::optional<SaveDecision> wanted,
                              const SaveRequest& request,
                              internal::Announcement* announced);
  absl::Status PromoteWhenPreempted(internal::Announcement* announced);
  std::optional<SaveDecision> PromotionInstead(
      bool preempted, const SaveDecision& decision) const;

  // Saving: manager_save.cc.
  std::unique_ptr<Round> NewRound(internal::Announcement announced,
                                  const SaveRequest& request);
  absl::StatusOr<StepOutcome> Follow(internal::Announcement announced,
                                     const SaveRequest& request);
  void WarnOfWaiting(const SaveReport& report) const;
  bool StartRound(Round* round);
  absl::Status Capture(Round* round);
  absl::Status AuditDeltas(const internal::BaseReasons& bases,
                           const Round& round) const;
  absl::Status TakeSnapshot(internal::BaseReasons bases, Round* round);
  absl::StatusOr<internal::BaseReasons> AgreeOnBases(const Round& round);
  internal::BaseReasons OwnBases(const Round& round) const;
  void LetTrainingGo(Round* round);
  absl::StatusOr<StagedRank> StageState(Round* round);
  void RunRound(Round* round);
  void Carry(Round* round);
  void CarryWithAll(Round* round);
  void StagePart(Round* round);
  internal::Outcome Commit(
      Round* round, const absl::StatusOr<std::vector<StagedRank>>& staged);
  absl::Status PlanAndPublish(Round& round,
                              const std::vector<StagedRank>& staged,
                              PublishSpec* publish, internal::Outcome* outcome);
  static absl::StatusOr<std::vector<StagedRank>> CollectParts(
      const std::vector<std::string>& parts, Round* round);
  std::vector<int64_t> StepsToRetire(const Round& round, int64_t now_micros);
  std::string WhyKept(int64_t step) const;

  // The end of a save: manager_finish.cc.
  std::shared_ptr<PendingSave::State> NewPending(int64_t step);
  // The save begun last; null when there was none.
  std::shared_ptr<PendingSave::State> current() const;
  void Finish(Round* round);
  absl::Status NoteSaveError(const Round& round);
  void Report(const SaveReport& report);
  // Takes note of the end of the round, and waits for it.
  void Settle();
  absl::Status SettleAndTell();
  void Adopt(const Round& round);
  void NoteCallback(const absl::Status& status) const;
  void NoteStatistics(const absl::Status& status) const;
  // Once: a disk that is full stays so for a while.
  void WarnOfStatistics();
  absl::Status TakeSaveError();
  absl::Status TakeCallbackError();
  absl::Status TakeError();
  absl::Status PeekError() const;
  std::unique_lock<std::mutex> TryTraining();
  void WaitAtExit() const;

  // Restoring: manager_restore.cc.
  // A step, or the changes that lead to it, and the reader that these are of
  // where it is not the manager's own.
  struct OpenedStep {
    std::unique_ptr<Reader> reader;
    std::unique_ptr<ChangeReader> changes;
    std::unique_ptr<StepReader> step;

    const StepReader& get() const {
      return changes != nullptr ? changes->to() : *step;
    }
  };
  bool IsOwn(const std::string& path) const;
  absl::Status AgreeOn(absl::string_view tag, const absl::Status& status);
  absl::StatusOr<OpenedStep> OpenForAll(const RestoreRequest& request,
                                        bool by_changes = false);
  absl::StatusOr<OpenedStep> OpenOnce(const RestoreRequest& request,
                                      bool by_changes);
  absl::Status OpenAt(const internal::RestoreTarget& target, Reader* reader,
                      bool by_changes, OpenedStep* opened) const;
  absl::StatusOr<StepRecord> LatestOwn() const;
  absl::StatusOr<StepRecord> BestOf(const std::vector<StepRecord>& steps) const;
  absl::StatusOr<internal::LoadPlan> PlanFor(const OpenedStep& opened,
                                             const LoadRule& rule) const;
  absl::Status LoadByRule(const LoadRule& rule, bool dry_run,
                          LoadedRule* loaded);
  absl::StatusOr<StepRecord> PickStep(const RestoreRequest& request,
                                      Reader* other) const;
  absl::Status NoteRestored(const StepReader& step, const std::string& path,
                            bool merged);
  absl::StatusOr<RestoreReport> RestoreOnce(const RestoreRequest& request,
                                            bool by_changes = false);
  absl::Status GoOnFrom(const StepReader& step);
  void Report(Clock::time_point begin, RestoreReport* report) const;

  // Following: manager_read_only.cc.
  absl::Status WaitForNewer(absl::Duration timeout);
  bool HasNewer() const;

  const ManagerOptions options_;
  ModelState* const model_;
  std::unique_ptr<Coordinator> ranks_;
  // Used by the thread that saves.
  std::unique_ptr<Coordinator> background_ranks_;
  std::unique_ptr<Store> store_;    // the owner's
  std::unique_ptr<Reader> reader_;  // of a manager that is read-only
  std::unique_ptr<EvaluationState> evaluation_;
  std::vector<TableSharding> shardings_;  // of the model's tables
  std::unique_ptr<internal::ChangeFeed> feed_;
  internal::Arena arena_;
  internal::History history_;
  internal::Retirement retirement_;
  // A preemption, from SetPreempted to the step that is saved for it:
  // 1. this rank was told, and no step has said so;
  // 2. a step has said so on all ranks, and none was saved since;
  // 3. the step trained last has said so.
  std::atomic<bool> asked_to_end_ = false;
  bool preemption_open_ = false;
  std::atomic<bool> step_preempted_ = false;
  // The step at which the newest became permanent instead of a save.
  std::optional<int64_t> promoted_at_;

  internal::CallGate gate_;
  std::mutex training_mutex_;
  std::atomic<std::thread::id> training_thread_;
  // Of what follows, which any thread may look at.
  mutable std::mutex told_mutex_;
  std::shared_ptr<PendingSave::State> current_;
  // The error of a save, unless the training thread was told of it.
  struct UntoldError {
    std::shared_ptr<PendingSave::State> save;
    absl::Status error;
  };
  UntoldError save_error_;
  mutable absl::Status callback_error_;  // the same, of what a callback threw
  mutable absl::Status statistics_error_;
  bool told_of_statistics_ = false;

  std::atomic<int64_t> global_step_ = 0;
  // No step was counted, saved or restored: the first one may be step 0.
  bool before_first_step_ = true;
  bool trained_ = false;  // a step was counted
  std::unique_ptr<Round> round_;
  int64_t last_save_micros_ = 0;
  Clock::time_point called_;     // Step or Save, last
  int64_t begun_at_micros_ = 0;  // the last save, by NowMicros, of the owner
  // Since then, for the round before; none when there was none to wait for.
  std::optional<int64_t> waited_micros_;
  int64_t planning_micros_ = 0;    // since then, whether to save
  int64_t failures_in_a_row_ = 0;  // of the thread of saves, while it runs
  // What could not be saved when it was to be, and from which step on it is.
  struct Owed {
    int64_t from_step = 0;
    SaveDecision decision;
  };
  std::optional<Owed> owed_;

  bool warned_of_metrics_ = false;
  // What WarnOfSweeps has told.
  std::set<std::string> told_of_sweeps_;
  std::set<std::string> told_of_posts_;

  // The step that was saved last by an earlier manager.
  std::optional<int64_t> newest_at_open_;
  // The version that was saved or restored last, the columns of its tables, the
  // deltas in its chain, and why the next save should be whole.
  std::optional<Version> parent_;
  uint32_t parent_state_ = 0;  // the attempt that made its state
  std::map<std::string, std::vector<Slot>> parent_columns_;
  uint64_t deltas_ = 0;
  std::string base_due_;
  // Steps after the restored one, while they are to be given up.
  std::set<int64_t> abandoned_steps_;
  // That a restore has chosen.
  std::optional<Version> picked_;
  bool restored_ = false;
  // The step restored, until a step was saved after it.
  std::optional<int64_t> source_;
  std::unique_ptr<internal::ExitTask> exit_task_;
  internal::SaveThread save_thread_;
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_CORE_MANAGER_IMPL_H_
