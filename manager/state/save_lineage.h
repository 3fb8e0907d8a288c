// The lineage of saves: the parent of the next one; internal to manager/.
#ifndef CKPTDB_MANAGER_STATE_SAVE_LINEAGE_H_
#define CKPTDB_MANAGER_STATE_SAVE_LINEAGE_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ckptdb/db/store.h"
#include "ckptdb/manager/state/change_sets.h"

namespace ckptdb::internal {

// The version that was saved or restored last, and what follows from it for the
// next save. Only the training thread uses it: a save takes copies of what it
// needs when it begins.
class SaveLineage {
 public:
  // `newest_at_open` is the step that was saved last by an earlier manager.
  explicit SaveLineage(std::optional<int64_t> newest_at_open)
      : newest_at_open_(newest_at_open) {}

  const std::optional<Version>& parent() const { return parent_; }
  // The attempt that made the parent's state: that of the step itself, or of
  // the one that it was restored from.
  uint32_t parent_attempt() const { return parent_attempt_; }
  // The tables that the model does not have as the parent has them, with the
  // reason, so that the next save writes them in full.
  const BaseReasons& differing_tables() const { return differing_tables_; }
  bool IsParent(int64_t step) const {
    return parent_.has_value() && parent_->step == step;
  }
  // The newest step that a schedule counts from.
  std::optional<int64_t> newest_step() const {
    return parent_.has_value() ? std::optional(parent_->step) : newest_at_open_;
  }
  // The steps of branches other than the training's, on the owner: those after
  // the restored step, and those that earlier runs have left. A save may
  // overwrite them, and policies do not see them.
  const std::set<int64_t>& abandoned() const { return abandoned_; }
  // Those of them that the next save removes with SaveSpec::Abandoned::kRemove,
  // unless they are pinned.
  const std::set<int64_t>& leaving() const { return leaving_; }

  // A restore or a load begins to write the model: "the restore of step 3".
  // Until EndWriting the model is a mix of two states.
  void BeginWriting(std::string what) { writing_ = std::move(what); }
  void EndWriting() { writing_.clear(); }
  // Returns FailedPrecondition if the model is partly written.
  absl::Status CheckWritten() const;

  // The restored step, until a step is saved after it.
  const std::optional<int64_t>& source() const { return source_; }

  // Returns the reason why the next save writes every table in full; empty if
  // there is none.
  const std::string& base_due_reason() const { return base_due_reason_; }
  // The same, with the limit of saves between two full ones; 0: no limit.
  std::string BaseReason(int64_t base_every) const;
  // Sets base_due_reason().
  void RequireBase(std::string reason) { base_due_reason_ = std::move(reason); }

  // The save of `step` as far as the lineage says: its parent, unless that was
  // deleted, and whether it may take the place of a step that is there, which
  // it may when that step is quarantined or given up.
  SaveSpec NextSpec(const Store& store, int64_t step,
                    SaveSpec::Abandoned abandoned, bool overwrite) const;

  // A save was committed. `store` is null on ranks without one.
  void OnCommitted(const SaveResult& result, const Store* store);
  // The model was restored from this step of the manager's own store, except
  // that it does not have `differing_tables` as the step has them. `store` is null
  // on ranks without one.
  void SetParent(const StepRecord& record, BaseReasons differing_tables,
                 const Store* store);
  // The model came from elsewhere: the next save has no parent.
  void ClearParent(std::string reason);
  // The model as it is begins anew, and all steps of the store are to be given
  // up. `store` is null on ranks without one.
  void AbandonAll(const Store* store);

 private:
  std::optional<int64_t> newest_at_open_;
  std::optional<Version> parent_;
  uint32_t parent_attempt_ = 0;
  BaseReasons differing_tables_;
  uint64_t deltas_ = 0;  // in the chain of the parent
  std::string base_due_reason_;
  std::string writing_;  // what writes the model, or has failed to
  std::set<int64_t> abandoned_;
  std::set<int64_t> leaving_;
  std::optional<int64_t> source_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_SAVE_LINEAGE_H_
