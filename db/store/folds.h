// SPDX-License-Identifier: Apache-2.0
// Folding rewrites the chain of a step as base runs of the same step, under a
// separate attempt: see "Folding" in docs/design.md. Internal to db/.
#ifndef CKPTDB_DB_STORE_FOLDS_H_
#define CKPTDB_DB_STORE_FOLDS_H_

#include <cstdint>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/base/mutex.h"
#include "db/fold/fold_parts.h"
#include "db/options.h"
#include "db/read/step_reader_impl.h"
#include "db/store.h"
#include "db/store/committer.h"
#include "db/store/step_catalog.h"
#include "db/store/store_folder.h"
#include "db/store/sweep_requests.h"

namespace ckptdb::internal {

// Folds one step at a time while saves proceed. Any thread may call it; the
// background thread folds the newest step. The mutex is held for the whole fold
// and acquired before all others of the store.
class Folds {
 public:
  Folds(StoreFolder* folder, StepCatalog* catalog, Committer* committer,
        SweepRequests* requests)
      : folder_(folder),
        catalog_(catalog),
        committer_(committer),
        requests_(requests) {}
  Folds(const Folds&) = delete;
  Folds& operator=(const Folds&) = delete;

  // See Store::Fold.
  absl::StatusOr<Store::FoldResult> Fold(int64_t step,
                                         const ReadOptions& options);

  // Folds the newest step if its chain exceeds StoreOptions::fold_bounds. A
  // fold that another call interrupts is not an error.
  absl::Status FoldNewest(const std::function<bool()>& cancelled);

 private:
  absl::StatusOr<Store::FoldResult> FoldOpened(const StepReader::Impl& step,
                                               const ReadOptions& options)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Version> BeginFold(const StepRecord& step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<FoldTarget> MakeTarget(const Version& version) const;
  absl::StatusOr<Store::FoldResult> PublishFold(const Version& from,
                                                const Version& to,
                                                const FoldParts& parts);
  absl::Status CheckStillStep(const Version& version) const;

  StoreFolder* const folder_;
  StepCatalog* const catalog_;
  Committer* const committer_;
  SweepRequests* const requests_;
  Mutex mutex_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_FOLDS_H_
