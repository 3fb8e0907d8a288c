// The warnings of a manager; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_WARNINGS_H_
#define CKPTDB_MANAGER_CORE_WARNINGS_H_

#include <set>
#include <string>

#include "absl/time/time.h"
#include "ckptdb/db/store.h"
#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/manager/core/error_ledger.h"

namespace ckptdb::internal {

// Hands warnings to ManagerOptions::on_warning, else to the logger of the
// store, else to stderr, and knows which of them were told already. Only the
// training thread uses it, so that the callback comes from the thread that
// calls the manager.
class Warnings {
 public:
  // Both arguments outlive it. An exception of the callback is added to
  // `errors`.
  Warnings(const ManagerOptions& options, ErrorLedger* errors)
      : options_(options), errors_(errors) {}
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  void Warn(const std::string& warning);

  // The schedule is empty: a training of days would end with nothing saved.
  void WarnOfSchedule();
  // Another rank than the owner gives metrics. Once.
  void WarnOfMetrics(uint32_t rank);
  // The save of `step` waited for the one before it.
  void WarnOfWaiting(int64_t step, absl::Duration waited);
  // Items and slots of a restored step that the model does not have, so that
  // the next save leaves them out, and items that the step does not have.
  void WarnOfChangedModel(const CheckpointManager::RestoreReport& report);
  // Files of the store that are damaged or gone.
  void WarnOfBadFiles(const Store& store);
  // Pinned steps of the branch that was abandoned when `restored` was restored.
  void WarnOfPins(const Store& store, int64_t restored,
                  const std::set<int64_t>& abandoned);
  // The store has metadata other than ManagerOptions::store_metadata.
  void WarnOfMetadata();
  // Warns of each reason why the store cannot free space, once.
  void WarnOfSweeps(const Store& store);
  // Warns of each post that could not be used, once.
  void WarnOfPosts(const Store& store);
  // The log of statistics lacks a line. Once: a disk that is full stays so for
  // a while.
  void WarnOfStatistics(const absl::Status& error);

 private:
  // Returns whether `told` did not have `entry`.
  static bool IsNew(const Usage::Unswept& entry, std::set<std::string>* told);
  // "store \"/a\"", of the manager.
  std::string StoreName() const;

  const ManagerOptions& options_;
  ErrorLedger* const errors_;
  bool told_of_metrics_ = false;
  bool told_of_statistics_ = false;
  std::set<std::string> told_of_sweeps_;
  std::set<std::string> told_of_posts_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_WARNINGS_H_
