// SPDX-License-Identifier: Apache-2.0
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
// 2. Everything acknowledged by Publish, Delete, SaveEvaluation,
//    SetUserMetadata and calls that change a step's record is durable.
// 3. A failed or interrupted save leaves the store as it was. The next sweep
//    deletes its bytes, even after a crash.
// 4. After an I/O error of the database, every further change returns
//    FailedPrecondition naming that error, until the store is reopened.
//
// Thread-safe; changes are made one at a time.
//
// In a child forked while the store is open, every call returns
// FailedPrecondition, lists are empty, and the destructor does nothing. The
// same holds for readers, and for opening a store or staging in a child of a
// process that opened one: fork before opening, or call exec() in the child.
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
#include "db/options.h"
#include "db/reader.h"
#include "db/state.h"
#include "schema/types.h"

namespace ckptdb {

struct SaveResult {
  Version version;
  uint64_t raw_bytes = 0;        // of all items
  uint64_t exclusive_bytes = 0;  // written by this save
  uint64_t borrowed_bytes = 0;   // referenced, not written
  StepRecord::Kind kind = StepRecord::Kind::kFull;
  uint64_t deltas = 0;  // in the chain
  // Why the next save should be full, or this step should be folded. Empty
  // otherwise. See StoreOptions::ChainBounds.
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
    // Steps that were saved or removed, or whose record changed: one entry per
    // change, oldest first.
    std::vector<int64_t> steps;
    // True if any step may have changed, and `steps` is empty: in the first
    // call, or after hundreds of changes.
    bool all = false;
    // The argument of the next call, valid for this Store object.
    uint64_t until = 0;
  };

  // A save that has begun.
  struct Attempt {
    Version version;
    std::vector<Ticket> tickets;  // one for each rank
  };

  struct FoldResult {
    Version version;      // of the step now
    bool folded = false;  // false: no chain, so nothing changed
    uint64_t written_rows = 0;
    uint64_t written_bytes = 0;
    uint64_t parts = 0;
    uint64_t resumed_parts = 0;  // of `parts`, written by an interrupted fold
  };

  struct SweepResult {
    std::vector<Version> swept_versions;
    uint64_t freed_bytes = 0;  // of data files
    // Acknowledged versions whose records are lost.
    std::vector<Version> quarantined_versions;
    // The damaged file that keeps the space of removed small saves from being
    // freed. Empty otherwise.
    std::string inline_retained_reason;
    // The space needed and free, if the disk is too full to free the space of
    // removed small saves by rewriting the remaining ones; a later sweep
    // retries. Empty otherwise.
    std::string inline_postponed_reason;
    // See Store::unswept.
    std::vector<Usage::SkippedEntry> unswept;
  };

  // Returns the path that Open uses: absolute, without symbolic links, "." and
  // "..". The last parts need not exist. Returns InvalidArgument for an empty
  // path, and an error naming a path that cannot be resolved. Thread-safe.
  static absl::StatusOr<std::string> ResolvePath(
      absl::string_view path, const StoreOptions& options = {});

  // Opens the store at `path` for writing, or creates it. The path is resolved
  // once: a later chdir or changed link has no effect. A store has one owner: a
  // second one, in any process and under any path, gets Unavailable with the
  // holder's pid and host, also as kHolderPayload. Returns DataLoss if files of
  // records or small saves are damaged or missing (see BadFiles),
  // FailedPrecondition for a newer format, NotFound without create_if_missing,
  // and ResourceExhausted with the limit if the process can open fewer than 64
  // more files. Raises a soft limit below 16,384 to that or the hard limit.
  static absl::StatusOr<std::unique_ptr<Store>> Open(
      absl::string_view path, const StoreOptions& options = {});

  // Closes the store as Close does, and drops the error. No call may be in
  // progress, and no reader may exist.
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Waits for calls and the sweep in progress, and releases the store, which
  // another owner can then open. Unpublished saves are swept at the next open.
  // Returns the error of closing; everything acknowledged is durable in any
  // case. Returns FailedPrecondition, and closes nothing, while a StepReader or
  // ChangeReader of this store exists, or from a hook that the store called.
  //
  // Afterwards every call returns FailedPrecondition, lists are empty, path(),
  // uuid() and sweep_status() stay, and Close returns OK. exit() closes an open
  // store, or stops its threads if readers exist. If threads use a store until
  // the process ends, never destroy it. In exit handlers registered before the
  // first store was opened, calls that open, read or change a store are
  // FailedPrecondition.
  absl::Status Close();

  // Returns the path of the store, absolute and without links.
  const std::string& path() const;
  const std::string& uuid() const;
  // Returns the names of damaged, truncated or missing data files found when
  // the store was opened, which checks only some. Reading a step that needs one
  // returns DataLoss; StepReader::Verify finds such steps. The file is removed
  // when they are deleted and swept.
  std::vector<std::string> BadFiles() const;

  // Starts an attempt. Returns AlreadyExists for a committed step without
  // overwrite.
  absl::StatusOr<Attempt> Begin(const SaveSpec& spec);

  // Makes the step exist. `ranks` contains the parts of all ranks, in any
  // order. Returns DataLoss naming an item whose part lost files or entries in
  // transit. After any error except that of guarantee 4, nothing has changed,
  // and the attempt may be published again or abandoned.
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
  // Returns NotFound naming the neighboring steps for an unknown step.
  absl::StatusOr<StepRecord> FindStep(int64_t step) const;
  // Calls `visit`, which must not call the store, for each committed step,
  // without copying records.
  void VisitSteps(absl::FunctionRef<void(const StepRecord&)> visit) const;
  // Calls `visit` for this step. Returns false if it does not exist.
  bool VisitStep(int64_t step,
                 absl::FunctionRef<void(const StepRecord&)> visit) const;
  // Returns the steps that changed since the call that returned `since` as
  // Changes::until. Pass 0 in the first call.
  Changes ChangedSteps(uint64_t since) const;
  // Returns the step saved last that is not quarantined. It may not be the
  // highest, if the training continued from an older step and later ones were
  // kept. Returns NotFound if the store has no step, and DataLoss if all are
  // quarantined.
  absl::StatusOr<StepRecord> Latest() const;

  // Opens a step for reading. The step stays intact until the reader is
  // destroyed; destroy the reader before the store.
  absl::StatusOr<std::unique_ptr<StepReader>> OpenStep(int64_t step) const;

  // Opens the changes from version `from`, of a step that was saved or
  // restored, to step `to`. Returns FailedPrecondition naming the step where
  // the chain of changes ends, because it was saved in full or removed.
  absl::StatusOr<std::unique_ptr<ChangeReader>> OpenChanges(const Version& from,
                                                            int64_t to) const;

  // Merges the chain of a step into base runs of the same step, under a new
  // attempt. The rows stay the same, and reads and saves continue; a save on
  // top of the unfolded step counts as one on top of the folded step. Tensors
  // and blobs are not copied. Delta runs are kept as long as the step, for
  // followers that hold its parent. Returns Aborted if the step is deleted or
  // overwritten meanwhile. An interrupted fold is resumed, even after a crash.
  absl::StatusOr<FoldResult> Fold(int64_t step,
                                  const FoldOptions& options = {});

  // Deletes a step; its space is freed soon after. Returns FailedPrecondition
  // if it is pinned. Works on a full disk: see StoreOptions::spare_bytes.
  absl::Status Delete(int64_t step);

  // A pinned step is never retired, deleted or overwritten, except that a
  // quarantined one may be overwritten, and the new one is then pinned. A
  // quarantined step is never the latest.
  absl::Status Pin(int64_t step);
  absl::Status Unpin(int64_t step);
  absl::Status Quarantine(int64_t step);

  // Makes a step ephemeral or permanent, which retention treats differently:
  // see manager/policies.h.
  absl::Status SetEphemeral(int64_t step, bool ephemeral);
  // Adds metrics, replacing those of the same name. Returns InvalidArgument if
  // the step would have more than kMaxMetrics.
  absl::Status AddMetrics(int64_t step, const Metrics& metrics);

  // Processes posts of readers: see Reader::PostMetrics. Opening the store and
  // each Publish do so too, ignoring errors. Posts of one reader are processed
  // in order, and each is recorded durably before its file is removed. A post
  // is skipped and removed if it is damaged, is for another store, for a step
  // that was removed or overwritten, or would exceed kMaxMetrics. Returns
  // errors of the database and the folder; unprocessed posts stay.
  absl::Status TakePosts();
  // Returns the last 100 skipped posts since the store was opened, with the
  // path below the store, "posts/UUID", and the reason.
  std::vector<Usage::SkippedEntry> skipped_posts() const;

  // Replaces the metadata of the store itself, which is empty at first. Returns
  // InvalidArgument naming both numbers if it exceeds kMaxMetadataBytes. Each
  // save writes it once: keep it small.
  absl::Status SetUserMetadata(const UserMetadata& metadata);
  UserMetadata user_metadata() const;

  // Saves the progress of an evaluation of a step, for all its ranks in one
  // write batch, replacing its earlier progress. It is removed when the step is
  // deleted, retired or overwritten, and survives a fold. Returns
  // InvalidArgument for a name that cannot be stored, for no part or too many,
  // and for a part above kMaxEvaluationBytes.
  absl::Status SaveEvaluation(
      int64_t step, absl::string_view evaluation, absl::string_view group,
      absl::Span<const StepRecord::Evaluation::Part> ranks);
  // Returns nothing if the rank saved nothing, NotFound for an unknown step.
  absl::StatusOr<std::optional<StepRecord::Evaluation>> FindEvaluation(
      int64_t step, absl::string_view evaluation, uint32_t rank) const;
  // Lists all evaluations of a step, by name and rank.
  absl::StatusOr<std::vector<StepRecord::Evaluation::Key>> ListEvaluations(
      int64_t step) const;
  // Deletes all evaluations, if any, of these steps, which need not exist.
  absl::Status DeleteEvaluations(absl::Span<const int64_t> steps);

  // Waits for the background sweep, then removes unreferenced data. Works on a
  // full disk as Delete does.
  absl::StatusOr<SweepResult> Sweep();
  // Returns the status of the last background sweep.
  absl::Status sweep_status() const;
  // Returns the entries of staging/, leases/ and posts/ that the last sweep
  // left behind: foreign ones, and ones it could not remove, which the next
  // sweep retries. They do not affect sweep_status.
  std::vector<Usage::SkippedEntry> unswept() const;

  // Returns the usage as of the start of the call.
  absl::StatusOr<Usage> GetUsage() const;

 private:
  class Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_STORE_H_
