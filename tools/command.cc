// SPDX-License-Identifier: Apache-2.0
#include "tools/command.h"

#include "tools/format.h"

namespace ckptdb::tool {

void Context::PrintError(const absl::Status& status) const {
  *err << "ckptdb: " << command << ": " << Printable(status.message()) << '\n';
}

std::vector<std::unique_ptr<Command>> AllCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(NewLs());
  commands.push_back(NewShow());
  commands.push_back(NewItems());
  commands.push_back(NewChain());
  commands.push_back(NewDiff());
  commands.push_back(NewPlan());
  commands.push_back(NewRow());
  commands.push_back(NewHistory());
  commands.push_back(NewVerify());
  commands.push_back(NewDu());
  commands.push_back(NewFold());
  commands.push_back(NewRm());
  commands.push_back(NewGc());
  commands.push_back(NewPin());
  commands.push_back(NewUnpin());
  commands.push_back(NewMetrics());
  commands.push_back(NewDoctor());
  return commands;
}

}  // namespace ckptdb::tool
