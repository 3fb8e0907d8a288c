// Reports each save and restore; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_REPORTER_H_
#define CKPTDB_MANAGER_CORE_REPORTER_H_

#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/manager/core/error_ledger.h"
#include "ckptdb/manager/policy/history.h"

namespace ckptdb::internal {

// Hands reports to the callbacks of ManagerOptions and, on the owner, to the
// log of statistics and the history. What fails there is noted in the ledger,
// and changes nothing of what was done. It has no state of its own; saves are
// reported by the thread that runs them, restores by the training thread.
class Reporter {
 public:
  // All arguments outlive it.
  Reporter(const ManagerOptions& options, bool is_owner, History* history,
           ErrorLedger* errors)
      : options_(options),
        is_owner_(is_owner),
        history_(history),
        errors_(errors) {}

  void ReportSave(const CheckpointManager::SaveReport& report);
  void ReportRestore(const CheckpointManager::RestoreReport& report);

 private:
  const ManagerOptions& options_;
  const bool is_owner_;
  History* const history_;
  ErrorLedger* const errors_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_REPORTER_H_
