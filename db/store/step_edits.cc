// SPDX-License-Identifier: Apache-2.0
#include "db/store/step_edits.h"

#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "db/store/save_checks.h"
#include "db/store/step_catalog.h"
#include "db/store/store_folder.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/user_metadata.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Applies `change` to the step's record and writes it durably. `change` may
// return an error, and must not modify the fields that LineageDigest covers.
absl::Status ChangeRecord(const StoreComponents& store, int64_t step,
                          absl::FunctionRef<absl::Status(StepRecord*)> change,
                          Spare spare = Spare::kKeep) {
  const MutexLock turn(store.committer->changes());
  CKPTDB_ASSIGN_OR_RETURN(const StepRecord before,
                          store.catalog->FindStep(step));
  StepRecord record = before;
  CKPTDB_RETURN_IF_ERROR(change(&record));
  // No sync for an equal record.
  if (record == before) return absl::OkStatus();
  std::vector<StepRecord> changed;
  changed.push_back(std::move(record));
  return store.committer->Replace(std::move(changed), spare);
}

}  // namespace

absl::Status DeleteStep(const StoreComponents& store, int64_t step) {
  const MutexLock turn(store.committer->changes());
  CKPTDB_ASSIGN_OR_RETURN(const StepRecord record,
                          store.catalog->FindStep(step));
  // While changes() is held, no other call can pin the step.
  if (record.pinned) return Annotate(PinnedError(record), store.folder->path());
  return store.committer->Delete(record);
}

absl::Status SetStepFlag(const StoreComponents& store, int64_t step,
                         bool StepRecord::*flag, bool value, Spare spare) {
  return ChangeRecord(
      store, step,
      [&](StepRecord* changed) {
        changed->*flag = value;
        return absl::OkStatus();
      },
      spare);
}

absl::Status EndQuarantine(const StoreComponents& store,
                           const Version& version) {
  return ChangeRecord(
      store, version.step, [&](StepRecord* changed) -> absl::Status {
        if (changed->version != version) {
          return absl::AbortedError(
              absl::StrCat("step ", version.step,
                           " was overwritten while it was being verified"));
        }
        changed->quarantined = false;
        return absl::OkStatus();
      });
}

absl::Status AddStepMetrics(const StoreComponents& store, int64_t step,
                            const Metrics& metrics) {
  return ChangeRecord(store, step, [&](StepRecord* changed) {
    for (const auto& [name, value] : metrics) changed->metrics[name] = value;
    return CheckMetrics(changed->metrics);
  });
}

absl::Status SetStoreMetadata(const StoreComponents& store,
                              const UserMetadata& metadata) {
  CKPTDB_RETURN_IF_ERROR(CheckUserMetadata(metadata));
  const MutexLock turn(store.committer->changes());
  return store.committer->SetUserMetadata(metadata);
}

}  // namespace ckptdb::internal
