// Runs the saves of a manager, one at a time; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_SAVE_RUNNER_H_
#define CKPTDB_MANAGER_CORE_SAVE_RUNNER_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "ckptdb/db/base/call_gate.h"
#include "ckptdb/db/base/mutex.h"
#include "ckptdb/manager/core/decision_maker.h"
#include "ckptdb/manager/core/error_ledger.h"
#include "ckptdb/manager/core/manager_parts.h"
#include "ckptdb/manager/core/preemption.h"
#include "ckptdb/manager/core/reporter.h"
#include "ckptdb/manager/core/warnings.h"
#include "ckptdb/manager/policy/history.h"
#include "ckptdb/manager/policy/retirement.h"
#include "ckptdb/manager/save/arena.h"
#include "ckptdb/manager/save/save_operation.h"
#include "ckptdb/manager/save/save_publisher.h"
#include "ckptdb/manager/save/save_thread.h"
#include "ckptdb/manager/state/save_lineage.h"
#include "ckptdb/manager/state/training_progress.h"

namespace ckptdb::internal {

// It owns the save in progress, the thread that saves run on and the memory
// that they copy into. A save ends twice: first on the thread that has run it,
// which reports it and says so to all who wait, then on the training thread,
// in FinishSave, where what follows from it begins to count.
//
// current() and in_progress() are thread-safe; all else is the training
// thread's.
class SaveRunner {
 public:
  // The listeners to saves. All of them outlive the runner.
  struct Listeners {
    CallGate* calls;  // the thread of a save is in a call of the manager
    const TrainingProgress* progress;
    Preemption* preemption;
    SaveLineage* lineage;
    DecisionMaker* decisions;
    Retirement* retirement;
    History* history;
    Reporter* reporter;
  };

  SaveRunner(ManagerParts* parts, const Listeners& listeners);
  ~SaveRunner();
  SaveRunner(const SaveRunner&) = delete;
  SaveRunner& operator=(const SaveRunner&) = delete;

  // Saves the model: beside the training, where ManagerOptions::async says so
  // and the machine has a thread for it, and returns when the model may change;
  // or else on the calling thread, and returns when the save has ended. A save
  // that could not begin ends here as well. The one before must have been
  // finished.
  std::shared_ptr<PendingSave::State> Start(SaveStart start);
  // Returns whether the save that was started last runs beside the training.
  bool beside() const { return beside_; }

  // The save that was begun last; null when there was none.
  std::shared_ptr<PendingSave::State> current() const;
  // Returns whether it is neither committed nor failed.
  bool in_progress() const;
  // The step of the save that is not finished; none: there is no such save.
  std::optional<StepInfo> unfinished() const;

  // Waits for the end of the save that was started, and takes note of it: the
  // next save goes on from what it has committed, or has its changes as well.
  // Returns how long it waited; none when there was nothing to wait for.
  std::optional<int64_t> FinishSave();

  // Ends the thread of saves. No save is unfinished.
  void Stop() { thread_.Stop(); }

 private:
  bool StartBeside();
  void RunOperation();
  // Ends the operation, on the thread that has run it.
  void EndOperation();
  absl::Status NoteError();
  // Counts a failure, on the training thread.
  void NoteFailure(SaveOperation* operation);

  ManagerParts* const parts_;
  const Listeners listeners_;
  Arena arena_;
  SavePublisher publisher_;
  const SaveEnvironment environment_;
  std::unique_ptr<SaveOperation> operation_;
  bool beside_ = false;     // operation_ runs on the thread of saves
  bool tolerated_ = false;  // its failure is, or it succeeded
  int64_t failures_in_a_row_ = 0;
  bool told_of_pinning_ = false;

  mutable Mutex mutex_;
  std::shared_ptr<PendingSave::State> current_ ABSL_GUARDED_BY(mutex_);

  SaveThread thread_;  // goes first: it uses all that is above
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_SAVE_RUNNER_H_
