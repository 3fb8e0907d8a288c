// SPDX-License-Identifier: Apache-2.0
#include "tools/command.h"

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tools/format.h"

namespace ckptdb::tool {

namespace {

// The library's messages contain escaped names, whose backslashes are kept, and
// options of the C++ API, which are left out because the command lacks them.
std::string ErrorText(absl::string_view message) {
  const std::string text = absl::StrReplaceAll(
      message, {{", or lower StoreOptions::reserve_bytes", ""}});
  return absl::StrJoin(absl::StrSplit(text, '\\'), "\\",
                       [](std::string* out, absl::string_view part) {
                         out->append(Printable(part));
                       });
}

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

void Context::PrintError(const absl::Status& status) const {
  *err << "ckptdb: " << command << ": " << ErrorText(status.message()) << '\n';
}

std::vector<std::unique_ptr<Command>> AllCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  for (const auto make : kCommands) commands.push_back(make());
  return commands;
}

}  // namespace ckptdb::tool
