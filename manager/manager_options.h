// SPDX-License-Identifier: Apache-2.0
// Options of a CheckpointManager and of its saves and restores.
//
//   ManagerOptions options{.path = "checkpoints",
//                          .schedule = {.permanent = SaveEveryNSteps(1000)},
//                          .retention = {.keep = LatestN(3)},
//                          .save = {.base_every = 100},
//                          .restore = {.best = {{.metric = "auc"}}},
//                          .ranks = {.deadline = absl::Minutes(5)}};
#ifndef CKPTDB_MANAGER_MANAGER_OPTIONS_H_
#define CKPTDB_MANAGER_MANAGER_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "db/options.h"
#include "db/reader.h"
#include "db/state.h"
#include "manager/internal/step_shipping.h"
#include "manager/load_rule.h"
#include "manager/model_state.h"
#include "manager/policies.h"
#include "manager/results.h"
#include "schema/types.h"

namespace ckptdb {

struct SaveRequest {
  Metrics metrics = {};
  UserMetadata user_metadata = {};
  SavePolicy::Kind kind = SavePolicy::Kind::kPermanent;
  std::string reason = "Save was called";
  // See SaveSpec. Quarantined and abandoned steps are overwritten in any
  // case.
  bool overwrite = false;
};

struct RestoreRequest {
  // If unset: the best step with `best`, or the one saved last.
  std::optional<int64_t> step = std::nullopt;
  bool best = false;  // according to ManagerOptions::Restoring::best
  // The best step by this metric, regardless of `best` and the options.
  std::optional<KeepPolicy::BestOptions> best_by = std::nullopt;
  // Another store to start from: the next save to the manager's own store is
  // full and has no parent. If empty, the manager's own store.
  std::string path = {};
  LiveTable::RestoreMode mode = LiveTable::RestoreMode::kClear;
  // Reads and checks the whole step before changing anything.
  bool verify = false;
  // Verifies each step before it is restored, quarantines a damaged one unless
  // `step` names it, and tries the next older one.
  bool fall_back = false;
  // How to restore a step whose items differ from the registered ones.
  // Default: the policy of the options.
  std::optional<EvolvePolicy> evolve = std::nullopt;
};

struct ManagerOptions {
  // What to do with a step that is due while a save is in progress.
  enum class BusyPolicy {
    kWait,      // the training waits for that save
    kSkip,      // the step is not saved
    kCoalesce,  // the first step after that save is saved instead
    kFail,      // FailedPrecondition, also from Save, which otherwise waits
  };

  // What to do with IO states that were saved with another world size.
  enum class IoStateResize {
    kError,         // FailedPrecondition with both sizes
    kRedistribute,  // BlobState::Redistribute with the old ranks' parts
    kOwners,        // all ranks load the owner's part
    kReset,         // IO states keep their current values
    kWrap,          // rank r loads the part of rank r modulo the old size
  };

  enum class ReplicatedSaver {
    kBalanced,  // different ranks, so that all save about the same bytes
    kOwner,
  };

  // Whether StartTraining saves the initial step.
  enum class FirstSave {
    kUnlessRestored,
    kAlways,  // unless it was restored from the manager's own store
    kNever,
  };

  // How steps are saved. Ignored if the manager is read-only.
  struct Saving {
    // If false, nothing is saved and changed rows are not tracked: Step and
    // StepTo only count, StartTraining and FinishTraining do nothing, Save
    // returns FailedPrecondition. The manager still owns the store: see
    // `read_only`.
    bool enabled = true;
    // Saves in the background. If false, Step and Save wait for the disk.
    bool async = true;
    BusyPolicy busy = BusyPolicy::kWait;
    FirstSave first_save = FirstSave::kUnlessRestored;
    // Saves only the changed rows of tables that have a tracker.
    bool deltas = true;
    // Makes every base_every-th save full. If 0, a save is full only if no
    // delta is possible or `bounds` is exceeded.
    int64_t base_every = 0;
    StoreOptions::ChainBounds bounds = {};
    // For developing a trainer: compares each row that a delta save leaves out
    // with the parent, and fails the save with FailedPrecondition naming the
    // table, the lowest id and the slot of a missing mark. The training waits
    // while all tables of the step are read. Uses 24 bytes per row.
    bool audit_deltas = false;
    // Compares replicated tensors and tables between ranks at each save, and
    // fails it with FailedPrecondition naming the item and the first rank that
    // differs from rank 0. The training waits while each rank hashes them. The
    // same on all ranks.
    bool audit_replicas = false;
    // Consecutive saves that may fail before a call returns the error; each
    // failure produces a report and a warning. Steps that the store refuses do
    // not count: the call returns that error. At least 0.
    int64_t tolerated_failures = 0;
    // Saves the current step this many steps after a tolerated failure. If 0,
    // the next save is the scheduled one.
    int64_t retry_after_steps = 0;
    // How long a machine stays up once it is preempted. If the last save took
    // longer and the newest step is ephemeral, that step becomes permanent and
    // no other is saved. At least 0.
    absl::Duration preemption_grace = absl::InfiniteDuration();
    // The maximum memory for copies of a rank's state.
    uint64_t arena_bytes = uint64_t{1} << 30;
    int copy_threads = 4;  // at least 1
    // Stored in each step, next to the manager's own metadata.
    UserMetadata user_metadata = {};
    // Metadata of the store itself, set by the first manager that provides any.
    // A manager that finds different metadata leaves it and warns.
    UserMetadata store_metadata = {};
  };

  // How steps are restored.
  struct Restoring {
    ReadOptions read = {};
    // Defines the best step for RestoreRequest::best and BestStep.
    std::optional<KeepPolicy::BestOptions> best = std::nullopt;
    // How to restore a step whose items differ from the registered ones. If
    // unset, such a step is an error.
    std::optional<EvolvePolicy> evolve = std::nullopt;
    // What happens to the steps after a restored one: see SaveSpec. Pinned
    // steps stay: Restore warns of them, and Step saves the step after a pinned
    // one instead.
    SaveSpec::Abandoned abandoned = SaveSpec::Abandoned::kRemove;
    // Default: kError, or kReset for a read-only manager.
    std::optional<IoStateResize> io_state_resize = std::nullopt;
    // URL of a remote (remote/urls.h) with whose newest step the owner makes a
    // store in Open unless there is one with steps; warns if these are older.
    // Ignored if read-only.
    std::string fetch_from = {};
  };

  // How a read-only manager follows a store.
  struct Following {
    // How long Open waits for another job to create the store.
    absl::Duration await_store = absl::ZeroDuration();
    // How often Open, WaitForStep and AwaitStep poll the store. Above 0.
    absl::Duration poll_every = absl::Seconds(1);
    // Restores the part of one rank in a single process, for a rank that failed
    // and restarts while the others keep their state.
    std::optional<ModelState::Shard> shard = std::nullopt;
  };

  struct Ranks {
    // How long ranks wait for one another. Above 0.
    absl::Duration deadline = absl::Minutes(30);
    // About how long it may take until all ranks act on a preemption, an error
    // or a time-dependent policy of one rank while no step is due by its
    // number; at most `deadline` and 1,500 steps. Ranks exchange such notices
    // in Step without waiting for each other. If 0, ranks meet at each step.
    // The owner's value applies.
    absl::Duration notice_interval = absl::Seconds(2);
    // The sharding of tables that declare none. A save refuses ids of other
    // ranks, and a restore reads only this rank's rows. With several ranks,
    // Open returns InvalidArgument if a table has no sharding, if tables
    // sharded by slices have different bounds, or if ranks declare different
    // shardings.
    TableSharding sharding = {};
    // Which rank saves a replicated tensor. The same on all ranks.
    ReplicatedSaver replicated_saver = ReplicatedSaver::kBalanced;
    // The owner reads replicated tensors and broadcasts them, for file systems
    // slower than the ranks' network. Each rank still reads tensors that a load
    // casts. The same on all ranks.
    bool broadcast_replicated = false;
  };

  // Ships each committed step to an object store, in the background, on the
  // owner. Shipping neither fails nor delays a save: docs/manager.md,
  // "Shipping".
  struct Shipping {
    // ShipTo("s3://bucket/prefix") of remote/step_shipper.h. Default: no step
    // is shipped.
    internal::StartShipping to = {};
    // Warns when a step waits for longer. Above 0.
    absl::Duration warn_lag = absl::Minutes(10);
    // Retention leaves at most so many steps, the newest ones, only because
    // they are not shipped yet. At least 0.
    int64_t keep_unshipped = 8;
    // How long Close waits for steps to be shipped. At least 0.
    absl::Duration close_wait = absl::Minutes(1);
  };

  // Callbacks for reports, warnings and cancellation, and the clock.
  struct Observers {
    // Receives each warning, on the thread that calls the manager:
    // docs/manager.md, "A step", lists them. If unset, warnings go to
    // `store.logger`, or to stderr if that is unset.
    std::function<void(const std::string& warning)> on_warning = {};
    absl::Duration warn_waiting = absl::Seconds(1);  // at least 0
    std::function<void(const SaveReport& report)> on_saved = {};
    // Called on the owner after steps were shipped, on the thread that ships.
    std::function<void(const ShipReport& report)> on_shipped = {};
    std::function<void(const RestoreReport& report)> on_restored = {};
    // Receives each step that CheckpointManager::Delete removes, on its thread.
    std::function<void(int64_t step)> on_deleted = {};
    // A file to which the owner appends each report as a line of JSON.
    std::string statistics_path = {};
    // The owner's clock for policies and records, in microseconds since 1970,
    // UTC, at least 0; called on the training thread and the thread of a save.
    // Default: the machine's clock.
    std::function<int64_t()> now_micros = {};
    // Polled about ten times a second, on the waiting thread, while a call of
    // the manager or a PendingSave waits for a save or for a step, and between
    // parts of a copy. If it returns true, the call soon returns Cancelled:
    // 1. A save that the call has begun and waits for, because it reads the
    //    model, is cancelled as by PendingSave::Cancel. The call returns when
    //    no thread reads the model any more. If the commit has begun, the save
    //    continues in the background instead.
    // 2. A save that runs in the background continues, but Close cancels it,
    //    waits for its end, and closes.
    // With several ranks only WaitUntilFinished, Delete, Close and the calls of
    // PendingSave poll, each on its rank, and Open, AwaitStep and WaitForStep,
    // which are then cancelled on all ranks. Reads poll ReadOptions::cancelled
    // instead. If set, saves without `async` run on another thread, too.
    // Several threads may poll at once; each PendingSave keeps a copy.
    std::function<bool()> cancelled = {};
  };

  // The path of the store, which is created if missing. Open resolves it.
  std::string path = {};
  // Follows a store that another job owns: restores, loads and WaitForStep
  // work, Step only counts, Save returns FailedPrecondition, and a damaged step
  // is an error instead of being quarantined. Ignores `store`, `schedule`,
  // `retention`, `save`, `ship`, on_saved, on_deleted and statistics_path. Open
  // returns NotFound if the store does not exist.
  bool read_only = false;
  StoreOptions store = {};
  SaveSchedule schedule = {};
  RetentionOptions retention = {};
  Saving save = {};
  Restoring restore = {};
  Following follow = {};
  Ranks ranks = {};
  Shipping ship = {};
  Observers observers = {};
};

// Sets the options that `json` names.
//
//   ManagerOptions options{.path = "checkpoints"};
//   CKPTDB_RETURN_IF_ERROR(ReadManagerConfig(R"({
//     "permanent": {"save_every_n_steps": 1000},
//     "keep": {"any": [{"latest_n": 3}, {"best_n": {"metric": "auc"}}]},
//     "busy": "coalesce"
//   })", &options));
//
// Keys are the names of the fields, without nesting, and policies those of
// manager/policies.h, in lower case: docs/manager.md lists all with types,
// defaults and bounds; `ship` and `fetch_from` need remote/urls.h. Returns
// InvalidArgument with the place, line and column of the first mistake, and the
// nearest key for an unknown one; `options` is then unchanged.
absl::Status ReadManagerConfig(absl::string_view json, ManagerOptions* options);

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_MANAGER_OPTIONS_H_
