// The owner's handle of a store: save, list, read, retire.
//
//   CKPTDB_ASSIGN_OR_RETURN(auto store, Store::Open("checkpoints"));
//   RankState state;
//   state.AddTensor("w", TensorView::Of(weights.data(), {3, 4}));
//   CKPTDB_RETURN_IF_ERROR(store->Save({.step = 1000}, state).status());
//
//   CKPTDB_ASSIGN_OR_RETURN(StepRecord latest, store->Latest());
//   CKPTDB_ASSIGN_OR_RETURN(auto step, store->OpenStep(latest.version.step));
//
// Several ranks: the owner begins, every rank stages (Stage of db/state.h), the
// owner publishes.
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
// In a child that was forked while the store was open every call is
// FailedPrecondition, lists are empty, and the destructor does nothing: the
// store is the parent's, whose threads the child does not have. That goes for
// readers, and for opening any store or staging, in a child of a process that
// has opened one: call exec() first, or fork before.
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
  // Why the next save should be a base, or the step be folded; empty: it need
  // not. See ChainBounds.
  std::string base_due_reason;
  int64_t stage_micros = 0;   // Save only
  int64_t commit_micros = 0;  // Publish
};

class Store {
 public:
  // The steps of a store that changed between two looks at it.
  //
  //   Store::Changes changes = store->ChangedSteps(0);  // all, at first
  //   ...
  //   changes = store->ChangedSteps(changes.until);
  //   for (const int64_t step : changes.steps) {
  //     const bool there = store->VisitStep(step, update);
  //     if (!there) forget(step);
  //   }
  struct Changes {
    // Saved, removed, or with another record; the oldest change first, a step
    // as often as it changed.
    std::vector<int64_t> steps;
    // Any step may have changed, and `steps` is empty: the first look, or the
    // last one is hundreds of changes ago.
    bool all = false;
    // Where the next look goes on. Of this handle of the store only.
    uint64_t until = 0;
  };

  // A save that has begun.
  struct Attempt {
    Version version;
    std::vector<Ticket> tickets;  // one for each rank
  };

  struct FoldResult {
    Version version;      // of the step now
    bool folded = false;  // false: it had no chain, and is as it was
    uint64_t written_rows = 0;
    uint64_t written_bytes = 0;
    uint64_t parts = 0;
    uint64_t resumed_parts = 0;  // of those, done by a fold that was cut short
  };

  struct SweepResult {
    std::vector<Version> swept_versions;
    uint64_t freed_bytes = 0;  // of data files
    // Their saves were acknowledged, and their records are lost.
    std::vector<Version> quarantined_versions;
    // Names the damaged file because of which no space of small saves comes
    // back; empty when there is none. What was removed is gone all the same.
    std::string inline_retained_reason;
    // Names the space that is needed and free when the disk is too full to
    // rewrite the small saves that stay, without which the space of those that
    // were removed does not come back; empty when it is not. A later sweep does
    // it.
    std::string inline_postponed_reason;
    // What is left in the folders that are swept, by path: see Store::unswept.
    std::vector<Usage::Unswept> unswept;
  };

  // Returns the path that Open uses for `path`: absolute, without symbolic
  // links, "." and "..". The last parts need not exist. Returns InvalidArgument
  // for an empty path, and an error that names the path when it cannot be
  // resolved. Any thread may call it; nothing is opened or created.
  static absl::StatusOr<std::string> ResolvePath(
      absl::string_view path, const StoreOptions& options = {});

  // Opens the store at `path` for writing, or makes it. The path is resolved
  // once: a chdir, or a link on the way that is changed, does not move the
  // store. One owner at a time: a second one, of this process or another, by
  // this path or another, gets Unavailable with the holder's pid and host, also
  // as kHolderPayload. DataLoss when files of records or small saves are
  // damaged or missing, FailedPrecondition for a newer format, NotFound without
  // create_if_missing. See BadFiles.
  static absl::StatusOr<std::unique_ptr<Store>> Open(
      absl::string_view path, const StoreOptions& options = {});

  // As Close; what fails is lost. No call may be under way, and no reader be
  // left.
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Waits for the calls and the sweep in progress, and lets go of the store:
  // when it returns another owner, of this process too, can open it. Saves that
  // were not published are swept when the store is opened next. Returns what
  // closing met; all that was acknowledged is durable whatever that is.
  // FailedPrecondition, and nothing is closed, while a StepReader or
  // ChangeReader of this store is there, or from within a hook that the store
  // has called. OK when it is closed already.
  //
  // Of a closed store every call is FailedPrecondition, lists are empty, and
  // path(), uuid() and sweep_status() are what they were. A store that is open
  // when exit() is called is closed then, so that one in a global variable, or
  // one that is never destroyed, ends in order; a store with readers left stops
  // its threads. Threads that use a store up to the end of the process need one
  // that is never destroyed.
  absl::Status Close();

  // Absolute, and without links.
  const std::string& path() const;
  const std::string& uuid() const;
  // The files of saves not whole in the write batch, by name, that opening the
  // store found to be damaged, cut or gone: it goes on without them.
  // There may be more, as it stops looking at the first. Reading a step that
  // needs a bad file is DataLoss; StepReader::Verify tells. The file goes when
  // those steps are deleted and swept.
  std::vector<std::string> BadFiles() const;

  // Starts an attempt. AlreadyExists for a committed step without overwrite.
  absl::StatusOr<Attempt> Begin(const SaveSpec& spec);

  // Makes the step exist. `ranks` are those of all ranks, in any order.
  // DataLoss naming an item of a part that lost files or entries on its way. On
  // any error but guarantee 4 nothing has changed, and the attempt may be
  // published again or abandoned.
  absl::StatusOr<SaveResult> Publish(const Version& version,
                                     absl::Span<const StagedRank> ranks,
                                     const PublishSpec& spec = {});

  // Gives an attempt up; its bytes go with the next sweep. NotFound when no
  // such attempt is in progress.
  absl::Status Abandon(const Version& version);

  // Begin, Stage and Publish of a single rank; Abandon when one fails.
  absl::StatusOr<SaveResult> Save(const SaveSpec& spec, const RankState& state,
                                  const PublishSpec& publish = {},
                                  const StageOptions& stage = {});

  // Committed steps, by step.
  std::vector<StepRecord> Steps() const;
  // NotFound, naming the steps next to it.
  absl::StatusOr<StepRecord> FindStep(int64_t step) const;
  // The same without copies of the records. `visit` may not call the store.
  void VisitSteps(absl::FunctionRef<void(const StepRecord&)> visit) const;
  // False when there is no such step.
  bool VisitStep(int64_t step,
                 absl::FunctionRef<void(const StepRecord&)> visit) const;
  // The steps that changed since a look that ended at `since`; 0 before the
  // first one.
  Changes ChangedSteps(uint64_t since) const;
  // The step saved last that is not quarantined; NotFound when there is none.
  // It is not the highest where training went on from an older step and those
  // after it were kept.
  absl::StatusOr<StepRecord> Latest() const;

  // The step stays whole until the reader is destroyed, which must be before
  // the store is.
  absl::StatusOr<std::unique_ptr<StepReader>> OpenStep(int64_t step) const;

  // From the state of version `from`, of a step that was saved or restored, to
  // step `to`. FailedPrecondition naming the step at which the way ends: one
  // that was saved whole, or is gone.
  absl::StatusOr<std::unique_ptr<ChangeReader>> OpenChanges(const Version& from,
                                                            int64_t to) const;

  // Merges the chain of a step into base runs of the same step, under a new
  // attempt. The step can be read all the time, its rows are the same before
  // and after, and tensors and blobs are not copied. Its delta runs stay as
  // long as the step does, for followers that hold its parent. Saves go on
  // meanwhile; one over the step as it was counts as one over the folded step.
  // Aborted when the step was deleted or overwritten meanwhile. An interrupted
  // fold goes on where it was, also after a crash.
  absl::StatusOr<FoldResult> Fold(int64_t step,
                                  const FoldOptions& options = {});

  // The step is gone on return; its space soon after. FailedPrecondition when
  // it is pinned. Works on a full disk: see StoreOptions::spare_bytes.
  absl::Status Delete(int64_t step);

  // A pinned step is never retired or deleted. A quarantined one is never the
  // latest.
  absl::Status Pin(int64_t step);
  absl::Status Unpin(int64_t step);
  absl::Status Quarantine(int64_t step);

  // Makes a step ephemeral or permanent: for retention, see
  // manager/policies.h.
  absl::Status SetEphemeral(int64_t step, bool ephemeral);
  // Metrics that were not known when the step was saved: beside those that it
  // has, or instead of those of the same name. InvalidArgument when these would
  // be more than kMaxMetrics.
  absl::Status AddMetrics(int64_t step, const Metrics& metrics);

  // Takes in what readers have posted since: see Reader::PostMetrics. Opening
  // the store and each Publish do so, too, where an error does not matter. A
  // post is noted durably before its file goes, and those of a reader in the
  // order in which it made them. One that cannot be used is passed over and
  // removed: a damaged one, one of another store, of a step that is gone or was
  // written over, or one that would make more than kMaxMetrics. An error is of
  // the database or of the folder; posts that were not taken stay.
  absl::Status TakePosts();
  // What was passed over since the store was opened, and why: the path below
  // the store, "posts/UUID". The last 100.
  std::vector<Usage::Unswept> posts_passed_over() const;

  // Metadata of the store, whatever its steps: the run that it is of, say. It
  // may be set again, and then all of it is replaced. Empty at first. At most
  // kMaxMetadataBytes, InvalidArgument naming both numbers; it is written with
  // the begin of each save, so keep it small.
  absl::Status SetUserMetadata(const UserMetadata& metadata);
  UserMetadata user_metadata() const;

  // How far an evaluation of a step has come, so that it goes on after a crash:
  // the parts of all its ranks in one write batch, instead of all that was
  // there of this evaluation. It lives as long as the step: one that is
  // deleted, retired or written over takes it along, a fold does not.
  // InvalidArgument for a name that cannot be stored, no part or too many, and
  // a part of more than kMaxEvaluationBytes.
  absl::Status SaveEvaluation(
      int64_t step, absl::string_view evaluation, absl::string_view group,
      absl::Span<const StepRecord::Evaluation::Part> ranks);
  // Nothing when none was saved of that rank. NotFound without the step.
  absl::StatusOr<std::optional<StepRecord::Evaluation>> FindEvaluation(
      int64_t step, absl::string_view evaluation, uint32_t rank) const;
  // All of a step, by name and rank.
  absl::StatusOr<std::vector<StepRecord::Evaluation::Key>> ListEvaluations(
      int64_t step) const;
  // All of these steps. A step that has none, or that is not there, is no
  // error.
  absl::Status DeleteEvaluations(absl::Span<const int64_t> steps);

  // Removes what nothing refers to, now; waits for the background sweep.
  // Works on a full disk as Delete does.
  absl::StatusOr<SweepResult> Sweep();
  // The outcome of the last background sweep: an error stays until one
  // succeeds.
  absl::Status sweep_status() const;
  // What the last sweep has passed over, in the background or not: entries of
  // staging/, leases/ and posts/ that are nothing of the store's, which stay,
  // and those that could not be removed, which the next sweep tries again.
  // Neither keeps a sweep from removing all else, and neither is in
  // sweep_status.
  std::vector<Usage::Unswept> unswept() const;

  // As of the moment of the call: steps that are deleted meanwhile are in it.
  absl::StatusOr<Usage> GetUsage() const;

 private:
  class Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_STORE_H_
