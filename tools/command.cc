// SPDX-License-Identifier: Apache-2.0
#include "tools/command.h"

#include "tools/format.h"

namespace ckptdb::tool {

void Context::PrintError(const absl::Status& status) const {
  *err << "ckptdb: " << command << ": " << Printable(status.message()) << '\n';
}

std::vector<std::unique_ptr<Command>> AllCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  for (const auto make :
       {NewLs, NewShow, NewItems, NewChain, NewDiff, NewPlan, NewRow, NewCat,
        NewHistory, NewRows, NewVerify, NewDu, NewReport, NewFold, NewRm, NewGc, NewPin,
        NewUnpin, NewMetrics, NewDoctor}) {
    commands.push_back(make());
  }
  return commands;
}

}  // namespace ckptdb::tool
