// SPDX-License-Identifier: Apache-2.0
// The owner's handle of a store, which saves, lists, reads and retires steps.
//
//   CKPTDB_ASSIGN_OR_RETURN(auto store, Store::Open("checkpoints"));
//   RankState state;
//   state.AddTensor("w", TensorView::Of(weights.data(), {3, 4}));
//   CKPTDB_RETURN_IF_ERROR(store->Save({.step = 1000}, state).status());
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
// 2. Everything acknowledged by a call that changes the store is durable.
// 3. A failed or interrupted save leaves the store as it was. The next sweep
//    deletes its bytes, even after a crash.
// 4. After an I/O error of the database, every further change returns
//    FailedPrecondition naming that error, until the store is reopened.
//
// Thread-safe; changes are made one at a time. In a child forked while a store
// is open, its calls, opening a store and staging return FailedPrecondition,
// lists are empty, and destructors do nothing: fork before opening, or call
// exec(). The same holds for readers.
#ifndef CKPTDB_DB_STORE_H_
#define CKPTDB_DB_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
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

class Store;

namespace internal {
struct ChangedSteps;
ChangedSteps StepsChangedSince(const Store& store, uint64_t since);
}  // namespace internal

struct SaveResult {
  Version version;
  uint64_t raw_bytes = 0;        // of all items
  uint64_t exclusive_bytes = 0;  // written by this save
  uint64_t borrowed_bytes = 0;   // referenced, not written
  StepRecord::Kind kind = StepRecord::Kind::kFull;
  uint64_t deltas = 0;  // in the chain
  // Why the next save should be full or this step folded: see ChainBounds.
  std::string base_due_reason;
  int64_t stage_micros = 0;   // Save only
  int64_t commit_micros = 0;  // Publish
};

class Store {
 public:
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
    // The damaged file that keeps the space of removed small saves in use.
    std::string inline_retained_reason;
    // The space needed and free, if the disk is too full to free that of
    // removed small saves; a later sweep retries.
    std::string inline_postponed_reason;
    // See Store::unswept.
    std::vector<Usage::SkippedEntry> unswept;
  };

  // Returns the path that Open uses: absolute, without symbolic links, "." and
  // "..". The last parts need not exist. Returns an error naming a path that is
  // empty or cannot be resolved. Thread-safe.
  static absl::StatusOr<std::string> ResolvePath(
      absl::string_view path, const StoreOptions& options = {});

  // Opens the store at `path` for writing, or creates it. The path is resolved
  // once. A store has one owner: a second one, in any process and under any
  // path, gets Unavailable with the holder's pid and host, also as
  // kHolderPayload. Returns DataLoss if files of records or small saves are
  // damaged or missing, FailedPrecondition for a newer format or a backup,
  // NotFound without create_if_missing, and ResourceExhausted if fewer than 64
  // more files can be opened. Raises a soft limit of open files below 16,384 to
  // that or the hard limit.
  static absl::StatusOr<std::unique_ptr<Store>> Open(
      absl::string_view path, const StoreOptions& options = {});

  // Closes the store, dropping the error. No call may be in progress, and no
  // reader may exist.
  ~Store();

  // Waits for calls and the sweep in progress, and releases the store, which
  // another owner can then open. Unpublished saves are swept at the next open;
  // everything acknowledged is durable, unless Close returns DataLoss because
  // files were removed or replaced. Returns FailedPrecondition, and stays open,
  // while a StepReader or ChangeReader of it exists, or from one of its hooks.
  //
  // Afterwards calls return FailedPrecondition, lists are empty, path(), uuid()
  // and sweep_status() stay, and Close returns OK. exit() closes an open store;
  // do not destroy one that threads use until the process ends. No store can be
  // used in exit handlers registered before the first one was opened.
  absl::Status Close();

  // Absolute and without links.
  const std::string& path() const;
  const std::string& uuid() const;
  // Returns the damaged or missing data files found at open, which checks only
  // some. Reading a step that needs one returns DataLoss; StepReader::Verify
  // finds such steps. The file is removed when they are deleted and swept.
  std::vector<std::string> BadFiles() const;

  // Starts an attempt. Returns AlreadyExists for a committed step without
  // `overwrite`.
  absl::StatusOr<Attempt> Begin(const SaveSpec& spec);

  // Makes the step exist. `ranks` are the parts of all ranks, in any order.
  // Returns DataLoss naming an item whose part lost files or entries in
  // transit. After any error except that of guarantee 4, nothing has changed,
  // and the attempt may be published again or abandoned.
  absl::StatusOr<SaveResult> Publish(const Version& version,
                                     absl::Span<const StagedRank> ranks,
                                     const SaveSpec& spec = {});

  // Ends an attempt; the next sweep removes its bytes. Returns NotFound for one
  // that is not in progress.
  absl::Status Abandon(const Version& version);

  // Begin, Stage and Publish for a single rank, and Abandon if one fails.
  absl::StatusOr<SaveResult> Save(const SaveSpec& spec, const RankState& state);

  // The committed steps, in ascending order.
  std::vector<StepRecord> Steps() const;
  // Returns NotFound naming the neighboring steps for an unknown step.
  absl::StatusOr<StepRecord> FindStep(int64_t step) const;
  // The same without copying records. `visit` must not call the store.
  void VisitSteps(absl::FunctionRef<void(const StepRecord&)> visit) const;
  // Returns false for an unknown step.
  bool VisitStep(int64_t step,
                 absl::FunctionRef<void(const StepRecord&)> visit) const;
  // Returns the step saved last that is not quarantined, which need not be the
  // highest. Returns NotFound if the store has no step, and DataLoss if all are
  // quarantined.
  absl::StatusOr<StepRecord> Latest() const;

  // Opens a step, which stays intact until the reader is destroyed; destroy the
  // reader before the store.
  absl::StatusOr<std::unique_ptr<StepReader>> OpenStep(int64_t step) const;

  // Opens the changes from version `from`, which was saved or restored, to step
  // `to`. Returns FailedPrecondition naming the step where the chain of changes
  // ends, because it was saved in full or removed.
  absl::StatusOr<std::unique_ptr<ChangeReader>> OpenChanges(const Version& from,
                                                            int64_t to) const;

  // Merges the chain of a step into base runs of the same step, under a new
  // attempt, while reads and saves continue. The rows stay the same; tensors
  // and blobs are not copied. Delta runs are kept as long as the step, for
  // followers. Returns Aborted if the step is deleted or overwritten meanwhile.
  // An interrupted fold is resumed, even after a crash, until a step is saved.
  absl::StatusOr<FoldResult> Fold(int64_t step,
                                  const ReadOptions& options = {.threads = 4});

  // Deletes a step, also on a full disk; its space is freed soon after. Returns
  // FailedPrecondition if it is pinned.
  absl::Status Delete(int64_t step);

  // A pinned step is never retired, deleted or overwritten, unless it is
  // quarantined: see SaveSpec::overwrite. A quarantined step is never the
  // latest. Unquarantine verifies it first, and returns the error if it fails.
  absl::Status Pin(int64_t step);
  absl::Status Unpin(int64_t step);
  absl::Status Quarantine(int64_t step);
  absl::Status Unquarantine(int64_t step, const ReadOptions& options = {});

  // See manager/policies.h.
  absl::Status SetEphemeral(int64_t step, bool ephemeral);
  // Adds metrics, replacing those of the same name. Returns InvalidArgument for
  // more than kMaxMetrics in all.
  absl::Status AddMetrics(int64_t step, const Metrics& metrics);

  // Processes posts of readers in order, as opening the store and Publish do,
  // ignoring errors. A post is skipped and removed if it is damaged, for
  // another store, for a step that was removed or overwritten, or would exceed
  // kMaxMetrics. Returns errors of the database and the folder; unprocessed
  // posts stay.
  absl::Status TakePosts();
  // Returns the last 100 skipped posts since the store was opened.
  std::vector<Usage::SkippedEntry> skipped_posts() const;

  // Replaces the metadata of the store itself, which each save writes once.
  // Returns InvalidArgument beyond kMaxMetadataBytes.
  absl::Status SetUserMetadata(const UserMetadata& metadata);
  UserMetadata user_metadata() const;

  // Saves `processed`, `meters` and `loader` of all ranks of an evaluation of a
  // step in one write batch, replacing earlier ones. They are removed with the
  // step, and survive a fold. Returns InvalidArgument for a name that cannot be
  // stored, for no rank or too many, and above kMaxEvaluationBytes.
  absl::Status SaveEvaluation(int64_t step, absl::string_view evaluation,
                              absl::string_view group,
                              absl::Span<const StepRecord::Evaluation> ranks);
  // Returns nothing if the rank saved nothing, and NotFound for an unknown
  // step.
  absl::StatusOr<std::optional<StepRecord::Evaluation>> FindEvaluation(
      int64_t step, absl::string_view evaluation, uint32_t rank) const;
  // Returns the names and ranks of all evaluations of a step, sorted.
  absl::StatusOr<std::vector<std::pair<std::string, uint32_t>>> ListEvaluations(
      int64_t step) const;
  // Deletes all evaluations of these steps, which need not exist.
  absl::Status DeleteEvaluations(absl::Span<const int64_t> steps);

  // Waits for the background sweep, then removes unreferenced data, also on a
  // full disk.
  absl::StatusOr<SweepResult> Sweep();
  // Returns the status of the last background sweep.
  absl::Status sweep_status() const;
  // Returns the entries of staging/, leases/ and posts/ that the last sweep
  // left behind: foreign ones, and ones it could not remove, which the next
  // sweep retries.
  std::vector<Usage::SkippedEntry> unswept() const;

  // Measures the state at the start of the call.
  absl::StatusOr<Usage> GetUsage() const;

 private:
  friend internal::ChangedSteps internal::StepsChangedSince(const Store& store,
                                                            uint64_t since);
  class Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_STORE_H_
