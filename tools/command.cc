// SPDX-License-Identifier: Apache-2.0
#include "tools/command.h"

#include "tools/format.h"

namespace ckptdb::tool {

void Context::PrintError(const absl::Status& status) const {
  *err << "ckptdb: " << command << ": " << Printable(status.message()) << '\n';
}

namespace {

// A line for each command.
// clang-format off
constexpr std::unique_ptr<Command> (*kCommands[])() = {
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
    NewRemote,
    NewExport,
    NewImport,
    NewDoctor,
    NewCompletion,
    NewMan,
};
// clang-format on

}  // namespace

std::vector<std::unique_ptr<Command>> AllCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  for (const auto make : kCommands) commands.push_back(make());
  return commands;
}

}  // namespace ckptdb::tool
