#include "ckptdb/db/store/step_editor.h"

#include <vector>

#include "ckptdb/db/store/save_checks.h"
#include "ckptdb/schema/bytes/annotate.h"
#include "ckptdb/schema/bytes/user_metadata.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {

absl::Status StepEditor::Delete(int64_t step) {
  const MutexLock turn(committer_->changes());
  CKPTDB_ASSIGN_OR_RETURN(const StepRecord record, catalog_->FindStep(step));
  // The pin is checked while holding changes(), so that it cannot be set before
  // the step is deleted.
  if (record.pinned) return Annotate(PinnedError(record), store_);
  return committer_->Delete(record);
}

absl::Status StepEditor::ChangeRecord(int64_t step, Change change,
                                      Spare spare) {
  const MutexLock turn(committer_->changes());
  CKPTDB_ASSIGN_OR_RETURN(const StepRecord before, catalog_->FindStep(step));
  StepRecord record = before;
  CKPTDB_RETURN_IF_ERROR(change(&record));
  // A change without effect costs no sync.
  if (record == before) return absl::OkStatus();
  std::vector<StepRecord> changed;
  changed.push_back(std::move(record));
  return committer_->Replace(std::move(changed), spare);
}

absl::Status StepEditor::SetFlag(int64_t step, bool StepRecord::*flag,
                                 bool value, Spare spare) {
  return ChangeRecord(
      step,
      [&](StepRecord* changed) {
        changed->*flag = value;
        return absl::OkStatus();
      },
      spare);
}

absl::Status StepEditor::AddMetrics(int64_t step, const Metrics& metrics) {
  return ChangeRecord(step, [&](StepRecord* changed) {
    for (const auto& [name, value] : metrics) changed->metrics[name] = value;
    return CheckMetrics(changed->metrics);
  });
}

absl::Status StepEditor::SetUserMetadata(const UserMetadata& metadata) {
  CKPTDB_RETURN_IF_ERROR(CheckUserMetadata(metadata));
  const MutexLock turn(committer_->changes());
  return committer_->SetUserMetadata(metadata);
}

}  // namespace ckptdb::internal
