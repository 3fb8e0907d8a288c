// SPDX-License-Identifier: Apache-2.0
// An open store: the parts that it consists of, in the order in which they
// depend on each other; internal to db/store/.
#ifndef CKPTDB_DB_STORE_STORE_IMPL_H_
#define CKPTDB_DB_STORE_STORE_IMPL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/base/call_gate.h"
#include "db/base/exit_task.h"
#include "db/store.h"
#include "db/store/background_thread.h"
#include "db/store/committer.h"
#include "db/store/folds.h"
#include "db/store/post_taker.h"
#include "db/store/step_catalog.h"
#include "db/store/store_components.h"
#include "db/store/store_folder.h"
#include "db/store/sweep_requests.h"
#include "db/store/sweeper.h"
#include "db/store/table_summaries.h"
#include "db/store/version_holds.h"

namespace ckptdb {

// Puts the components together, opens and closes them. A call of Store enters
// the gate, and then calls a component, or passes components() to a function.
class Store::Impl {
 public:
  static absl::StatusOr<std::unique_ptr<Impl>> Open(
      absl::string_view path, const StoreOptions& options);
  ~Impl();

  absl::Status Close();

  internal::CallGate& gate() { return gate_; }
  const internal::StoreFolder& folder() const { return *folder_; }
  const internal::StepCatalog& catalog() const { return catalog_; }
  internal::PostTaker& posts() { return posts_; }
  internal::StoreComponents components() {
    return {folder_.get(), &catalog_, &summaries_,
            &committer_,   &posts_,   &requests_};
  }
  internal::Folds& folds() { return folds_; }
  internal::Sweeper& sweeper() { return sweeper_; }

  std::vector<std::string> BadFiles() const;
  absl::StatusOr<std::unique_ptr<StepReader>> OpenStep(int64_t step);
  absl::StatusOr<std::unique_ptr<ChangeReader>> OpenChanges(const Version& from,
                                                            int64_t to);
  absl::StatusOr<Store::SweepResult> Sweep();
  absl::StatusOr<Usage> GetUsage();

 private:
  explicit Impl(internal::StoreFolder::Opened opened);

  // Shuts down with the gate closed. Only the destructor may follow.
  absl::Status ShutDown();
  void CloseAtExit();

  // Each is constructed from the ones before it. Saves in progress, in
  // catalog_, release their holds before holds_ is destroyed.
  const std::unique_ptr<internal::StoreFolder> folder_;
  internal::SweepRequests requests_;
  internal::VersionHolds holds_;
  internal::StepCatalog catalog_;
  internal::TableSummaryCache summaries_;
  internal::Committer committer_;
  internal::PostTaker posts_;
  internal::Folds folds_;
  internal::Sweeper sweeper_;
  internal::BackgroundThread background_;

  internal::CallGate gate_;
  std::unique_ptr<internal::ExitTask> exit_task_;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_STORE_STORE_IMPL_H_
