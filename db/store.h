// The owner's handle of a store, which saves, lists, reads and retires steps.
//
//   CKPTDB_ASSIGN_OR_RETURN(auto store, Store::Open("checkpoints"));
//   RankState state;
//   state.AddTensor("w", TensorView::Of(weights.data(), {3, 4}));
//   CKPTDB_RETURN_IF_ERROR(store->Save({.step = 1000}, state).status());
//
//   CKPTDB_ASSIGN_OR_RETURN(StepRecord latest, store->Latest());
//   CKPTDB_ASSIGN_OR_RETURN(auto step, store->OpenStep(latest.version.step));
//
// With several ranks the owner begins, every rank stages (Stage of db/state.h),
// and the owner publishes.
//
//   CKPTDB_ASSIGN_OR_RETURN(auto save, store->Begin({.step = 1000,
//                                                    .world_size = 2}));
//   ... Stage(path, save.tickets[r], state_of_rank_r) on each rank r ...
//   CKPTDB_RETURN_IF_ERROR(store->Publish(save.version, staged).status());
//
// Guarantees
// 1. A step exists or does not: all ranks' parts, records and retirements are
//    in one synced write batch.
// 2. What Publish, Delete, SaveEvaluation, SetUserMetadata and the changes of a
//    step's record have acknowledged is durable.
// 3. A failed or interrupted save leaves the store as it was. Its bytes go
//    with the next sweep, also after a crash.
// 4. After an I/O error of the database itself every further change is
//    FailedPrecondition naming that error, until the store is opened again.
//
// Thread-safe; changes are made one at a time.
//
// If a child is forked while the store is open, every call in it is
// FailedPrecondition, lists are empty, and the destructor does nothing: the
// store is the parent's, whose threads the child does not have. The same holds
// for readers, and for opening any store or staging, in a child of a process
// that has opened one: call exec() first, or fork before.
#ifndef CKPTDB_DB_STORE_H_
#define CKPTDB_DB_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ckptdb/db/options.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/db/state.h"
#include "ckptdb/schema/types.h"

namespace ckptdb {

struct SaveResult {
  Version version;
  uint64_t raw_bytes = 0;        // of all items
  uint64_t exclusive_bytes = 0;  // written by this save
  uint64_t borrowed_bytes = 0;   // referred to, not written
  StepRecord::Kind kind = StepRecord::Kind::kFull;
  uint64_t deltas = 0;  // in the chain
  // The reason why the next save should be a base, or the step be folded. Empty
  // if there is none. See ChainBounds.
  std::string base_due_reason;
  int64_t stage_micros = 0;   // Save only
  int64_t commit_micros = 0;  // Publish
};

class Store {
 public:
  // The steps of a store that changed between two calls of ChangedSteps.
  //
  //   Store::Changes changes = store->ChangedSteps(0);  // all, at first
  //   ...
  //   changes = store->ChangedSteps(changes.until);
  //   for (const int64_t step : changes.steps) {
  //     const bool there = store->VisitStep(step, update);
  //     if (!there) forget(step);
  //   }
  struct Changes {
    // Steps that were saved or removed, or whose record changed; the oldest
    // change first, a step as often as it changed.
    std::vector<int64_t> steps;
    // True if any step may have changed, and `steps` is empty: in the first
    // call, or when hundreds of changes were made since the last one.
    bool all = false;
    // The argument of the next call. It is valid for this handle of the store
    // only.
    uint64_t until = 0;
  };

  // A save that has begun.
  struct Attempt {
    Version version;
    std::vector<Ticket> tickets;  // one for each rank
  };

  struct FoldResult {
    Version version;      // of the step now
    bool folded = false;  // false: it had no chain, and is unchanged
    uint64_t written_rows = 0;
    uint64_t written_bytes = 0;
    uint64_t parts = 0;
    uint64_t resumed_parts = 0;  // of those, done by an interrupted fold
  };

  struct SweepResult {
    std::vector<Version> swept_versions;
    uint64_t freed_bytes = 0;  // of data files
    // Versions whose saves were acknowledged, and whose records are lost.
    std::vector<Version> quarantined_versions;
    // Names the damaged file that prevents the space of small saves from being
    // freed; empty if there is none. The removed steps are gone nevertheless.
    std::string inline_retained_reason;
    // Names the space that is needed and free if the disk is too full to
    // rewrite the small saves that stay, which frees the space of those that
    // were removed. Empty if the disk is not too full. A later sweep does it.
    std::string inline_postponed_reason;
    // Entries that are left in the folders that are swept, by path: see
    // Store::unswept.
    std::vector<Usage::SkippedEntry> unswept;
  };

  // Returns the path that Open uses for `path`: absolute, without symbolic
  // links, "." and "..". The last parts need not exist. Returns InvalidArgument
  // for an empty path, and an error that names the path when it cannot be
  // resolved. Any thread may call it; nothing is opened or created.
  static absl::StatusOr<std::string> ResolvePath(
      absl::string_view path, const StoreOptions& options = {});

  // Opens the store at `path` for writing, or creates it. The path is resolved
  // once: a later chdir, or a changed link in the path, does not move the
  // store. A store has one owner at a time: a second one, in this process or
  // another, by this path or another, gets Unavailable with the holder's pid
  // and host, also as kHolderPayload. Returns DataLoss if files of records or
  // small saves are damaged or missing, FailedPrecondition for a newer format,
  // and NotFound without create_if_missing. See BadFiles. Returns
  // ResourceExhausted with the limit if the process can open fewer than 64 more
  // files; a soft limit below 16,384 is raised to that, or to a lower hard one.
  static absl::StatusOr<std::unique_ptr<Store>> Open(
      absl::string_view path, const StoreOptions& options = {});

  // Closes the store as Close does, and drops the error. No call may be under
  // way, and no reader may be left.
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Waits for the calls and the sweep in progress, and releases the store: when
  // it returns another owner, also in this process, can open it. Saves that
  // were not published are swept when the store is opened next. Returns the
  // error of closing; all that was acknowledged is durable whatever that is.
  // Returns FailedPrecondition, and closes nothing, while a StepReader or
  // ChangeReader of this store exists, or from within a hook that the store has
  // called. Returns OK if the store is closed already.
  //
  // After Close every call returns FailedPrecondition, lists are empty, and
  // path(), uuid() and sweep_status() are what they were. A store that is open
  // when exit() is called is closed then, so that one in a global variable, or
  // one that is never destroyed, ends in order; a store with readers left stops
  // its threads. Threads that use a store up to the end of the process need one
  // that is never destroyed. Exit handlers that were registered before the
  // process opened its first store come after that: there every call on a
  // store or a reader that opens, reads or changes one is FailedPrecondition.
  absl::Status Close();

  // Returns the path of the store, absolute and without links.
  const std::string& path() const;
  const std::string& uuid() const;
  // Returns the names of damaged, truncated or missing data files, as found
  // when the store was opened. The store works without them. There may be more,
  // as not all files are checked. Reading a step that needs a bad file returns
  // DataLoss; StepReader::Verify finds such steps. The file is removed when
  // those steps are deleted and swept.
  std::vector<std::string> BadFiles() const;

  // Starts an attempt. Returns AlreadyExists for a committed step without
  // overwrite.
  absl::StatusOr<Attempt> Begin(const SaveSpec& spec);

  // Makes the step exist. `ranks` has the parts of all ranks, in any order.
  // Returns DataLoss naming an item of a part that lost files or entries on its
  // way. After any error but that of guarantee 4 nothing has changed, and the
  // attempt may be published again or abandoned.
  absl::StatusOr<SaveResult> Publish(const Version& version,
                                     absl::Span<const StagedRank> ranks,
                                     const PublishSpec& spec = {});

  // Abandons an attempt; the next sweep removes its bytes. Returns NotFound if
  // no such attempt is in progress.
  absl::Status Abandon(const Version& version);

  // Calls Begin, Stage and Publish for a single rank, and Abandon if one fails.
  absl::StatusOr<SaveResult> Save(const SaveSpec& spec, const RankState& state,
                                  const PublishSpec& publish = {},
                                  const StageOptions& stage = {});

  // Returns the committed steps, by step.
  std::vector<StepRecord> Steps() const;
  // Returns NotFound, naming the steps next to it, if there is no such step.
  absl::StatusOr<StepRecord> FindStep(int64_t step) const;
  // Calls `visit` for each committed step, without copies of the records.
  // `visit` may not call the store.
  void VisitSteps(absl::FunctionRef<void(const StepRecord&)> visit) const;
  // Calls `visit` for this step. Returns false if there is no such step.
  bool VisitStep(int64_t step,
                 absl::FunctionRef<void(const StepRecord&)> visit) const;
  // Returns the steps that changed since the call that returned `since` as
  // Changes::until. Pass 0 in the first call.
  Changes ChangedSteps(uint64_t since) const;
  // Returns the step saved last that is not quarantined. It may not be the
  // highest, if training continued from an older step and the steps after it
  // were kept. Returns NotFound if the store has no step, and DataLoss if all
  // its steps are quarantined.
  absl::StatusOr<StepRecord> Latest() const;

  // Opens a step for reading. The step stays whole until the reader is
  // destroyed, which must be before the store is.
  absl::StatusOr<std::unique_ptr<StepReader>> OpenStep(int64_t step) const;

  // Opens the changes from the state of version `from`, of a step that was
  // saved or restored, to step `to`. Returns FailedPrecondition naming the step
  // at which the chain of changes ends, as it was saved whole or is gone.
  absl::StatusOr<std::unique_ptr<ChangeReader>> OpenChanges(const Version& from,
                                                            int64_t to) const;

  // Merges the chain of a step into base runs of the same step, under a new
  // attempt. The step can be read meanwhile, its rows are the same before and
  // after, and tensors and blobs are not copied. Its delta runs stay as long as
  // the step does, for followers that hold its parent. Saves go on meanwhile;
  // one on top of the step as it was counts as one on top of the folded step.
  // Returns Aborted if the step was deleted or overwritten meanwhile. An
  // interrupted fold is resumed where it was, also after a crash.
  absl::StatusOr<FoldResult> Fold(int64_t step,
                                  const FoldOptions& options = {});

  // Deletes a step. The step is gone on return, its space soon after. Returns
  // FailedPrecondition if it is pinned. Works on a full disk: see
  // StoreOptions::spare_bytes.
  absl::Status Delete(int64_t step);

  // A pinned step is never retired, deleted or overwritten; only a pinned step
  // that is quarantined may be overwritten, and the pin passes to the new one.
  // A quarantined step is never the latest.
  absl::Status Pin(int64_t step);
  absl::Status Unpin(int64_t step);
  absl::Status Quarantine(int64_t step);

  // Makes a step ephemeral or permanent. Retention has different rules for the
  // two: see manager/policies.h.
  absl::Status SetEphemeral(int64_t step, bool ephemeral);
  // Adds metrics that were not known when the step was saved, and replaces
  // those of the same name. Returns InvalidArgument if the step would have more
  // than kMaxMetrics.
  absl::Status AddMetrics(int64_t step, const Metrics& metrics);

  // Processes what readers have posted: see Reader::PostMetrics. Opening the
  // store and each Publish do so, too, and ignore an error. A post is recorded
  // durably before its file is removed, and the posts of a reader are processed
  // in the order in which it made them. A post is skipped and removed if it is
  // damaged, if it is for another store or for a step that is gone or was
  // overwritten, or if the step would have more than kMaxMetrics. Returns
  // errors of the database and of the folder; posts that were not processed
  // stay.
  absl::Status TakePosts();
  // Returns the last 100 posts that were skipped since the store was opened,
  // with the path below the store, "posts/UUID", and the reason.
  std::vector<Usage::SkippedEntry> skipped_posts() const;

  // Sets the metadata of the store itself, such as the run that it belongs to,
  // and replaces all that was set before. It is empty at first. Returns
  // InvalidArgument naming both numbers if it has more than kMaxMetadataBytes.
  // It is written with the begin of each save, so keep it small.
  absl::Status SetUserMetadata(const UserMetadata& metadata);
  UserMetadata user_metadata() const;

  // Saves the progress of an evaluation of a step, so that it goes on after a
  // crash: the parts of all its ranks in one write batch, which replaces all
  // that was saved of this evaluation. It lives as long as the step: it goes
  // when the step is deleted, retired or written over, and survives a fold.
  // Returns InvalidArgument for a name that cannot be stored, for no part or
  // too many, and for a part of more than kMaxEvaluationBytes.
  absl::Status SaveEvaluation(
      int64_t step, absl::string_view evaluation, absl::string_view group,
      absl::Span<const StepRecord::Evaluation::Part> ranks);
  // Returns nothing if none was saved of that rank, and NotFound if there is no
  // such step.
  absl::StatusOr<std::optional<StepRecord::Evaluation>> FindEvaluation(
      int64_t step, absl::string_view evaluation, uint32_t rank) const;
  // Lists all evaluations of a step, by name and rank.
  absl::StatusOr<std::vector<StepRecord::Evaluation::Key>> ListEvaluations(
      int64_t step) const;
  // Deletes all evaluations of these steps. It is no error if a step has none
  // or does not exist.
  absl::Status DeleteEvaluations(absl::Span<const int64_t> steps);

  // Waits for the background sweep, then removes what nothing refers to. Works
  // on a full disk as Delete does.
  absl::StatusOr<SweepResult> Sweep();
  // Returns the status of the last background sweep: an error stays until one
  // succeeds.
  absl::Status sweep_status() const;
  // Returns the entries that the last sweep, in the background or not, has
  // left: entries of staging/, leases/ and posts/ that are not the store's,
  // which stay, and entries that could not be removed, which the next sweep
  // tries again. They do not make a sweep fail, and sweep_status does not have
  // them.
  std::vector<Usage::SkippedEntry> unswept() const;

  // Returns the usage at the moment of the call: steps that are deleted
  // meanwhile are in it.
  absl::StatusOr<Usage> GetUsage() const;

 private:
  class Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_STORE_H_
