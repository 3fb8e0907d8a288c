// SPDX-License-Identifier: Apache-2.0
// The results of CheckpointManager's calls, and its reports to observers.
#ifndef CKPTDB_MANAGER_RESULTS_H_
#define CKPTDB_MANAGER_RESULTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "db/store.h"
#include "manager/policies.h"
#include "schema/types.h"

namespace ckptdb {

// A save that runs in the background. Copies refer to the same save. Its waits
// return Cancelled if ManagerOptions::Observers::cancelled returns true, and
// the save continues. Thread-safe.
//
//   CKPTDB_ASSIGN_OR_RETURN(PendingSave save, manager->Save());
//   CKPTDB_RETURN_IF_ERROR(save.WaitStaged());  // the model may change now
//   CKPTDB_ASSIGN_OR_RETURN(SaveResult result, save.WaitCommitted());
class PendingSave {
 public:
  class State;
  explicit PendingSave(std::shared_ptr<State> state)
      : state_(std::move(state)) {}

  int64_t step() const;

  // Blocks until nothing reads the model any more, and returns OK even if the
  // save fails later. Returns DeadlineExceeded after `timeout`.
  absl::Status WaitStaged(
      absl::Duration timeout = absl::InfiniteDuration()) const;

  // Blocks until the step is durable or has failed, and returns the owner's
  // result on all ranks. On the thread that began the save the error counts as
  // reported.
  absl::StatusOr<SaveResult> WaitCommitted(
      absl::Duration timeout = absl::InfiniteDuration()) const;

  // Blocks until the step is committed and in the object store of
  // ManagerOptions::ship. Returns the error of the save; NotFound if the step
  // was removed first; DeadlineExceeded with the error of the last attempt;
  // Cancelled if the manager is closed meanwhile; and FailedPrecondition unless
  // this rank is the owner and ships.
  absl::Status WaitShipped(absl::Time deadline) const;

  bool committed_or_failed() const;

  // Unless it is too late, the save fails with Cancelled on all ranks and
  // leaves the store as it was.
  void Cancel();

 private:
  std::shared_ptr<State> state_;
};

// The result of Step.
struct StepOutcome {
  int64_t step = 0;
  SavePolicy::Decision decision;
  std::optional<PendingSave> save;  // if the step is saved
  // True on all ranks if SetPreempted was called on some rank: end the training
  // with this step. Stays true until a step is saved or the newest one becomes
  // permanent instead. On a read-only manager it equals this rank's
  // preempted().
  bool preempted = false;
};

// Why a step was or was not saved, and why it is or is not kept.
struct StepExplanation {
  std::string saved;
  std::string kept;
  std::string removed = {};  // what removes it next, from ForecastRetention
};

// Explains one of a store's `steps` by the retention recorded with `latest`, if
// saves continue as before, without better metrics. Returns NotFound if a step
// is missing or recorded none, and Unimplemented for KeepIf and KeepFunction.
absl::StatusOr<StepExplanation> ForecastRetention(
    absl::Span<const StepRecord> steps, const StepRecord& latest, int64_t step);

// The progress of shipping steps to an object store.
struct ShippingStatistics {
  std::vector<int64_t> waiting;  // committed steps that were not shipped
  uint64_t shipped_steps = 0;    // since it began
  uint64_t shipped_bytes = 0;    // of data objects
  int64_t newest_shipped = -1;   // step; -1 before the first
  absl::Duration lag;            // since the oldest waiting step's commit
  uint64_t failures = 0;         // since the last success
  absl::Status last_error;       // of the newest attempt, even in progress
};

// The report of steps that were shipped.
struct ShipReport {
  std::vector<int64_t> steps;  // in the order of their commits
  uint64_t data_files = 0;     // uploaded
  uint64_t data_bytes = 0;
  absl::Duration lag;  // since the commit of the first of these steps
};

// The report of a save, successful or not.
struct SaveReport {
  int64_t step = 0;
  SavePolicy::Kind save_kind = SavePolicy::Kind::kNone;
  std::string reason;
  absl::Status status;
  SaveResult result;                   // if it was committed
  Metrics metrics;                     // saved with the step
  std::vector<int64_t> retired_steps;  // removed by the same write batch
  uint64_t copied_bytes = 0;    // by this rank, while the training waited
  int64_t wait_micros = 0;      // for the save before it
  int64_t blocking_micros = 0;  // the training waited, wait_micros included
  int64_t planning_micros = 0;  // deciding on the save and on retention
  int64_t stage_micros = 0;     // from the beginning to staged on this rank
  int64_t total_micros = 0;     // from the beginning to the end
  // On the owner, when the save ended, from its store.
  absl::Status sweep_status;
  uint64_t unswept_entries = 0;
  // When the save ended, on the owner, if it ships.
  std::optional<ShippingStatistics> shipping;
};

// The results of the rules of a load.
struct LoadSummary {
  // A slot, or a tensor that is cast, that is not loaded as it is in the step.
  struct SlotChange {
    enum class Kind {
      kRenamed,    // from `source`
      kConverted,  // from `source`, by EvolvePolicy::Table::convert
      kFilled,     // by EvolvePolicy::Table::fill
      kDropped,    // `source` is in the step and not registered
      kCast,  // from the dtype `from` to `to`; `slot` is empty for a tensor
    };
    Kind kind = Kind::kDropped;
    std::string slot;          // as registered; empty if kDropped
    std::string source;        // its name in the step; empty if kFilled
    DType from = DType::kF32;  // kCast only; so is `to`
    DType to = DType::kF32;
  };

  // An item that a rule loads, or would load.
  struct LoadedItem {
    enum class Outcome {
      kLoaded,
      kMissing,       // not in the step; unchanged
      kMisfit,        // does not fit; unchanged
      kPartlyLoaded,  // failed on this rank, and may have changed
      kNotLoaded,     // the rule failed before it; unchanged
    };
    std::string category;
    std::string name;    // as registered
    std::string source;  // its name in the step
    Outcome outcome = Outcome::kLoaded;
    std::string detail;  // of a misfit: "expected f32 [4], got f32 [8]"
    uint64_t bytes = 0;  // of all ranks, as stored; an upper bound
    uint64_t rows = 0;   // of tables; an upper bound
    // False if a table may have fewer rows and bytes, as in a delta step.
    bool exact = true;
    std::vector<SlotChange> slot_changes = {};
  };

  // The result of one rule.
  struct LoadedRule {
    std::string path;
    std::optional<int64_t> step;  // unset if skipped or without a step
    std::vector<LoadedItem> items;
    // Stored names of items in the step that belong to no registered item of
    // any rank.
    std::vector<std::string> unexpected;
    // Such as `load pattern "usr" matches nothing registered; did you mean
    // "user"?`.
    std::vector<std::string> unmatched;
    // Why nothing was loaded, or the ignored error.
    std::string note;
    uint64_t bytes() const;  // sums over the loaded items
    uint64_t rows() const;
  };

  std::vector<LoadedRule> rules;
  uint64_t bytes() const;
  uint64_t rows() const;
  // One line per item, for people.
  std::string ToString() const;
};

// The report of a restore.
struct RestoreReport {
  // RestoreOrStart found no step: the model is unchanged, and only `store` is
  // set.
  bool fresh = false;
  Version version;
  std::string store;  // path of the store
  StepRecord record;
  LoadSummary::LoadedRule loaded;
  std::vector<int64_t> damaged_steps;  // quarantined and skipped
  // Tables that were saved as deltas since the step in memory were updated from
  // these deltas. Other tables were read whole.
  bool incremental = false;
  // Totals over all ranks, as stored. This rank reads only its part, and an
  // incremental restore only the changes.
  uint64_t loaded_bytes = 0;
  uint64_t loaded_rows = 0;
  // Times on this rank, including waits for other ranks.
  int64_t open_micros = 0;   // picking and opening the step; not AwaitStep
  int64_t check_micros = 0;  // whether it fits, and verifying if requested
  int64_t load_micros = 0;   // reading from the store into the model
  int64_t total_micros = 0;  // all, including damaged steps tried before
  // `restored step 1000 from "/ckpt"` or `fresh start: store "/ckpt" has no
  // step`.
  std::string ToString() const;
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_RESULTS_H_
