// SPDX-License-Identifier: Apache-2.0
// The warnings of a manager; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_WARNINGS_H_
#define CKPTDB_MANAGER_CORE_WARNINGS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "db/store.h"
#include "manager/checkpoint_manager.h"
#include "manager/core/error_ledger.h"

namespace ckptdb::internal {

// Sends warnings to ManagerOptions::observers.on_warning; if unset, to the
// store's logger; without one, to stderr. Remembers which were sent. Only the
// training thread uses it, so that the callback runs on the thread that calls
// the manager.
class Warnings {
 public:
  // Both arguments outlive it. Exceptions of the callback are added to
  // `errors`.
  Warnings(const ManagerOptions& options, ErrorLedger* errors)
      : options_(options), errors_(errors) {}
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  void Warn(const std::string& warning);

  // Warns of an empty schedule, with which a long training would save nothing.
  void WarnOfSchedule();
  // Warns that saving `step` waited for the previous save.
  void WarnOfWaiting(int64_t step, absl::Duration waited);
  // Warns of items and slots of the restored step that the model lacks, so that
  // the next save drops them, and of items missing in the step.
  void WarnOfChangedModel(const RestoreReport& report);
  // Warns of tables of the restored step that the policy excluded.
  void WarnOfExcludedTables(int64_t step,
                            const std::vector<std::string>& tables);
  // Warns of damaged or missing files of the store.
  void WarnOfBadFiles(const Store& store);
  // Warns of pinned steps of the branch that was abandoned when `restored` was
  // restored.
  void WarnOfPins(const Store& store, int64_t restored,
                  const std::set<int64_t>& abandoned);
  // Warns of what the next save does to the steps that the trainer abandoned.
  void WarnOfAbandonedSteps(const std::set<int64_t>& abandoned);
  // Warns that the store's metadata differs from
  // ManagerOptions::save.store_metadata.
  void WarnOfMetadata();
  // Warns of each reason why the store cannot free space, once.
  void WarnOfSweeps(const Store& store);
  // Warns of each post that could not be used, once.
  void WarnOfPosts(const Store& store);
  // Warns when shipping begins to fail, and when a step begins to wait for
  // longer than ManagerOptions::ship.warn_lag; once until it is well again.
  void WarnOfShipping(const ShippingStatistics& shipping);
  // Warns that ManagerOptions::restore.fetch_from has `step`, which was saved
  // later than the steps of the store.
  void WarnOfNewerRemote(int64_t step);
  // Warns that it could not be compared with the store.
  void WarnOfUnknownRemote(const absl::Status& error);
  // Warns that Close waits for a step to be shipped.
  void WarnOfUnshipped(int64_t step);
  // Warns that Close waits for a request to the object store.
  void WarnOfRequest();
  // Warns that a line of the statistics log could not be written. Only once,
  // because a full disk usually stays full for a while.
  void WarnOfStatistics(const absl::Status& error);

 private:
  // Adds `entry` to `warned`, and returns whether it is new.
  static bool IsNew(const Usage::SkippedEntry& entry,
                    std::set<std::string>* warned);
  // Returns "store \"/a\"", with the manager's path.
  std::string StoreName() const;

  const ManagerOptions& options_;
  ErrorLedger* const errors_;
  bool warned_of_statistics_ = false;
  bool warned_of_shipping_ = false;
  bool warned_of_lag_ = false;
  std::set<std::string> warned_of_sweeps_;
  std::set<std::string> warned_of_posts_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_WARNINGS_H_
