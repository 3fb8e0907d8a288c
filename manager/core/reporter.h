// SPDX-License-Identifier: Apache-2.0
// Reports each save and restore; internal to manager/.
#ifndef CKPTDB_MANAGER_CORE_REPORTER_H_
#define CKPTDB_MANAGER_CORE_REPORTER_H_

#include "manager/checkpoint_manager.h"
#include "manager/core/error_ledger.h"
#include "manager/policy/history.h"

namespace ckptdb::internal {

// Passes the report of shipped steps to ManagerOptions::observers.on_shipped
// and the statistics log. Called on the thread that ships.
void ReportShipped(const ManagerOptions& options, const ShipReport& report,
                   ErrorLedger* errors);

// Passes reports to the callbacks of ManagerOptions and, on the owner, to the
// statistics log and the history. It notes failures of these in the ledger;
// they do not fail the save or restore. It is stateless; the save thread
// reports saves, the training thread restores.
class Reporter {
 public:
  // All arguments outlive it.
  Reporter(const ManagerOptions& options, bool is_owner, History* history,
           ErrorLedger* errors)
      : options_(options),
        is_owner_(is_owner),
        history_(history),
        errors_(errors) {}

  void ReportSave(const SaveReport& report);
  void ReportRestore(const RestoreReport& report);

 private:
  const ManagerOptions& options_;
  const bool is_owner_;
  History* const history_;
  ErrorLedger* const errors_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CORE_REPORTER_H_
