// The warnings of a manager; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_WARNINGS_H_
#define CKPTDB_MANAGER_CORE_WARNINGS_H_

#include <set>
#include <string>

#include "absl/time/time.h"
#include "db/store.h"
#include "manager/checkpoint_manager.h"
#include "manager/core/error_ledger.h"

namespace ckptdb::internal {

// Sends warnings to ManagerOptions::observers.on_warning, or else to the
// store's logger, or else to stderr, and remembers which were sent. Only the
// the training thread uses it, so that the callback runs on the thread that
// calls the manager.
class Warnings {
 public:
  // Both arguments outlive it. Exceptions of the callback are added to
  // `errors`.
  Warnings(const ManagerOptions& options, ErrorLedger* errors)
      : options_(options), errors_(errors) {}
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  void Warn(const std::string& warning);

  // The schedule is empty: a long training would save nothing.
  void WarnOfSchedule();
  // A rank other than the owner passes metrics. Once.
  void WarnOfMetrics(uint32_t rank);
  // The save of `step` waited for the previous one.
  void WarnOfWaiting(int64_t step, absl::Duration waited);
  // Items and slots of the restored step that the model does not have, so that
  // the next save drops them, and items missing in the step.
  void WarnOfChangedModel(const RestoreReport& report);
  // Damaged or missing files of the store.
  void WarnOfBadFiles(const Store& store);
  // Pinned steps of the branch that was abandoned when `restored` was restored.
  void WarnOfPins(const Store& store, int64_t restored,
                  const std::set<int64_t>& abandoned);
  // The store's metadata differs from ManagerOptions::save.store_metadata.
  void WarnOfMetadata();
  // Warns of each reason why the store cannot free space, once.
  void WarnOfSweeps(const Store& store);
  // Warns of each post that could not be used, once.
  void WarnOfPosts(const Store& store);
  // A line of the statistics log could not be written. Once: a full disk
  // usually stays full for a while.
  void WarnOfStatistics(const absl::Status& error);

 private:
  // Adds `entry` to `warned`, and returns whether it is new.
  static bool IsNew(const Usage::SkippedEntry& entry,
                    std::set<std::string>* warned);
  // Returns "store \"/a\"", with the manager's path.
  std::string StoreName() const;

  const ManagerOptions& options_;
  ErrorLedger* const errors_;
  bool warned_of_metrics_ = false;
  bool warned_of_statistics_ = false;
  std::set<std::string> warned_of_sweeps_;
  std::set<std::string> warned_of_posts_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_WARNINGS_H_
