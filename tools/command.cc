// SPDX-License-Identifier: Apache-2.0
#include "tools/command.h"

#include "tools/format.h"

namespace ckptdb::tool {

void Context::PrintError(const absl::Status& status) const {
  *err << "ckptdb: " << command << ": " << Printable(status.message()) << '\n';
}

std::vector<std::unique_ptr<Command>> AllCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  // clang-format off: a line for each command.
  for (const auto make : {
           NewLs,
           NewShow,
           NewItems,
           NewChain,
           NewDiff,
           NewPlan,
           NewRow,
           NewRows,
           NewCat,
           NewNan,
           NewDigest,
           NewHistory,
           NewVerify,
           NewDu,
           NewExplain,
           NewStats,
           NewWatch,
           NewReport,
           NewFold,
           NewRm,
           NewGc,
           NewPin,
           NewUnpin,
           NewPromote,
           NewDemote,
           NewQuarantine,
           NewMetrics,
           NewRepair,
           NewCopy,
           NewBackup,
           NewRestoreBackup,
           NewExport,
           NewImport,
           NewDoctor,
           NewCompletion,
           NewMan,
       }) {
    // clang-format on
    commands.push_back(make());
  }
  return commands;
}

}  // namespace ckptdb::tool
