// SPDX-License-Identifier: Apache-2.0
// The lineage of saves: the parent of the next one; internal to manager/.
#ifndef CKPTDB_MANAGER_STATE_SAVE_LINEAGE_H_
#define CKPTDB_MANAGER_STATE_SAVE_LINEAGE_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "db/store.h"
#include "manager/state/change_sets.h"
#include "manager/state/registered_state.h"

namespace ckptdb::internal {

// The version that was saved or restored last, and its consequences for the
// next save. Used only by the training thread: a save copies what it needs when
// it begins.
class SaveLineage {
 public:
  // `newest_at_open` is the step that an earlier manager saved last.
  explicit SaveLineage(std::optional<int64_t> newest_at_open)
      : newest_at_open_(newest_at_open) {}

  const std::optional<Version>& parent() const { return parent_; }
  // Returns whether this run has restored or saved a step of the store, or has
  // abandoned its steps.
  bool has_begun() const { return has_begun_; }
  // The attempt that created the parent's state: the step's own, or that of the
  // step it was restored from.
  uint32_t parent_attempt() const { return parent_attempt_; }
  // The tables that differ from the parent, with the reason, so that the next
  // save writes them in full.
  const BaseReasons& differing_tables() const { return differing_tables_; }
  bool IsParent(int64_t step) const {
    return parent_.has_value() && parent_->step == step;
  }
  // The newest step that a schedule counts from.
  std::optional<int64_t> newest_step() const {
    return parent_.has_value() ? std::optional(parent_->step) : newest_at_open_;
  }
  // On the owner, the steps of branches other than the training's: those after
  // the restored step, and those left by earlier runs. A save may overwrite
  // them, and policies do not see them.
  const std::set<int64_t>& abandoned() const { return abandoned_; }
  // The abandoned steps that the next save removes with
  // SaveSpec::Abandoned::kRemove, unless pinned.
  const std::set<int64_t>& leaving() const { return leaving_; }

  // Called when a restore or load begins to write the model: "the restore of
  // step 3". Until EndWriting the model is a mix of two states.
  void BeginWriting(std::string what) { writing_ = std::move(what); }
  void EndWriting() { writing_.clear(); }
  // Returns FailedPrecondition if the model is partly written.
  absl::Status CheckWritten() const;

  // The restored step, until a step is saved after it.
  const std::optional<int64_t>& source() const { return source_; }

  // Returns the reason why the next save writes every table in full; empty if
  // it need not.
  const std::string& base_due_reason() const { return base_due_reason_; }
  // The same, but with the limit of saves between two full ones; 0: no limit.
  std::string BaseReason(int64_t base_every) const;
  // Sets base_due_reason().
  void RequireBase(std::string reason) { base_due_reason_ = std::move(reason); }

  // Returns the lineage's part of the spec for saving `step`: its parent,
  // unless that was deleted, and whether it may replace an existing step, which
  // it may if that is quarantined or abandoned.
  SaveSpec NextSpec(const Store& store, int64_t step,
                    SaveSpec::Abandoned abandoned, bool overwrite) const;

  // Called when a save was committed. `store` is null on ranks other than the
  // owner.
  void OnCommitted(const SaveResult& result, const Store* store);
  // Called when the model was restored from this step of the manager's own
  // store, except that `differing_tables` differ. `store` is null on ranks
  // other than the owner.
  void SetParent(const StepRecord& record, BaseReasons differing_tables,
                 const Store* store);
  // Called when the model was restored from elsewhere: the next save has no
  // parent, and the steps after the previous parent are no longer abandoned.
  void ClearParent(std::string reason);
  // Starts a new lineage with the current model, and abandons all steps of the
  // store. `store` is null on ranks other than the owner.
  void AbandonAll(const Store* store);

 private:
  std::optional<int64_t> newest_at_open_;
  std::optional<Version> parent_;
  bool has_begun_ = false;
  uint32_t parent_attempt_ = 0;
  BaseReasons differing_tables_;
  uint64_t deltas_ = 0;  // in the parent's chain
  std::string base_due_reason_;
  std::string writing_;  // the call that writes the model, or failed to
  std::set<int64_t> abandoned_;
  std::set<int64_t> leaving_;
  std::optional<int64_t> source_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_SAVE_LINEAGE_H_
