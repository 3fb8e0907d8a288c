// SPDX-License-Identifier: Apache-2.0
// Opens the same step on all ranks; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_STEP_OPENER_H_
#define CKPTDB_MANAGER_LOAD_STEP_OPENER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/reader.h"
#include "db/store.h"
#include "manager/coordinator.h"
#include "manager/manager_options.h"
#include "manager/ranks/messages.h"

namespace ckptdb::internal {

// A step, or the changes that lead to it, and the reader that opened them
// unless that is the manager's own.
struct OpenedStep {
  std::unique_ptr<Reader> reader;
  std::unique_ptr<ChangeReader> changes;
  std::unique_ptr<StepReader> step;

  const StepReader& get() const {
    return changes != nullptr ? changes->to() : *step;
  }
};

// Returns the error of a restore: NotFound is kept only if the manager's own
// store is empty, as a trainer may interpret it as a fresh start; otherwise it
// becomes FailedPrecondition.
absl::Status NotFoundOnlyIfEmpty(const absl::Status& status, bool empty);

// The owner picks a step, in the manager's own store or another, and every rank
// opens it. If one rank fails, all fail. It remembers the picked step. Used by
// the training thread; BestStep() by any thread.
class StepOpener {
 public:
  // All arguments outlive it. `store` is null on ranks other than the owner,
  // `reader` unless the manager is read-only.
  StepOpener(const ManagerOptions& options, Coordinator* ranks, Store* store,
             Reader* reader)
      : options_(options), ranks_(ranks), store_(store), reader_(reader) {}
  StepOpener(const StepOpener&) = delete;
  StepOpener& operator=(const StepOpener&) = delete;

  // Opens the requested step. With `from`, which only a read-only manager
  // passes, opens the changes since that version if all ranks find them.
  absl::StatusOr<OpenedStep> Open(
      const RestoreRequest& request,
      const std::optional<Version>& from = std::nullopt);
  // The step that Open picked last; unset if it failed before that.
  const std::optional<Version>& picked() const { return picked_; }
  // Returns whether Open returned NotFound because the manager's own store is
  // empty; NotFound may have other causes.
  bool found_empty() const { return found_empty_; }

  // Returns whether a path is the manager's own store; an empty path is.
  bool IsOwn(const std::string& path) const;
  // Returns the newest step of the manager's own store, on the owner. Returns
  // NotFound only if the store is empty, and DataLoss if all steps are
  // quarantined.
  absl::StatusOr<StepRecord> LatestOwn() const;
  // Returns the best step according to ManagerOptions::restore.best, on the
  // owner or in a read-only manager.
  absl::StatusOr<StepRecord> BestStep() const;

 private:
  absl::Status AgreeOn(absl::string_view tag, const absl::Status& status);
  absl::StatusOr<OpenedStep> OpenOnce(const RestoreRequest& request,
                                      const std::optional<Version>& from);
  absl::StatusOr<Reader*> OpenReader(const RestoreRequest& request,
                                     OpenedStep* opened) const;
  // Opens the changes that lead from `from` to `step`, if all ranks can.
  absl::Status OpenChanges(const std::optional<Version>& from, int64_t step,
                           OpenedStep* opened) const;
  absl::Status OpenAt(const RestoreTarget& target, Reader* reader,
                      OpenedStep* opened) const;
  absl::StatusOr<StepRecord> PickStep(const RestoreRequest& request,
                                      Reader* other) const;
  absl::StatusOr<StepRecord> PickNamed(int64_t step, const std::string& path,
                                       Reader* other) const;
  static absl::StatusOr<StepRecord> BestOf(
      const std::vector<StepRecord>& steps,
      const std::optional<KeepPolicy::BestOptions>& best);

  const ManagerOptions& options_;
  Coordinator* const ranks_;
  Store* const store_;
  Reader* const reader_;
  std::optional<Version> picked_;
  bool found_empty_ = false;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_STEP_OPENER_H_
