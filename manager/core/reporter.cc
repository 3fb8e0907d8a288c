// SPDX-License-Identifier: Apache-2.0
#include "manager/core/reporter.h"

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "manager/config/statistics.h"

namespace ckptdb::internal {

// The history contains the reason for the save since its decision; a failure
// replaces it. An error of the statistics log becomes a warning, an exception
// of a callback the error of a later call.
void Reporter::ReportSave(const SaveReport& report) {
  if (is_owner_ && !report.status.ok()) {
    history_->NoteSaved(
        report.step, absl::StrCat("not saved, although ", report.reason, ": ",
                                  report.status.ToString()));
  }
  if (is_owner_) {
    errors_->NoteStatistics(
        AppendStatistics(options_.observers.statistics_path, report));
  }
  if (!options_.observers.on_saved) return;
  errors_->NoteCallback(CallGuarded("ManagerOptions::observers.on_saved", [&] {
    options_.observers.on_saved(report);
  }));
}

void Reporter::ReportRestore(const RestoreReport& report) {
  if (is_owner_) {
    errors_->NoteStatistics(
        AppendStatistics(options_.observers.statistics_path, report));
  }
  if (!options_.observers.on_restored) return;
  errors_->NoteCallback(
      CallGuarded("ManagerOptions::observers.on_restored",
                  [&] { options_.observers.on_restored(report); }));
}

void ReportShipped(const ManagerOptions& options, const ShipReport& report,
                   ErrorLedger* errors) {
  errors->NoteStatistics(
      AppendStatistics(options.observers.statistics_path, report));
  if (!options.observers.on_shipped) return;
  errors->NoteCallback(CallGuarded("ManagerOptions::observers.on_shipped", [&] {
    options.observers.on_shipped(report);
  }));
}

}  // namespace ckptdb::internal
