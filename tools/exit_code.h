// SPDX-License-Identifier: Apache-2.0
// The exit codes of the command.
#ifndef CKPTDB_TOOLS_EXIT_CODE_H_
#define CKPTDB_TOOLS_EXIT_CODE_H_

#include "absl/status/status.h"

namespace ckptdb::tool {

enum class ExitCode : int {
  kOk = 0,
  kUsage = 1,     // a flag or an argument is invalid
  kNotFound = 2,  // no such store, step, rank, item, table or row
  kDamaged = 3,   // stored bytes are not what was saved
  kBusy = 4,      // another process has the store open for writing
  kFailed = 5,    // I/O errors, a pinned step, an interrupt, anything else
};

// The codes of `diff --exit-code`, like those of diff(1); 0: nothing differs.
inline constexpr auto kDiffDiffers = static_cast<ExitCode>(1);
inline constexpr auto kDiffTrouble = static_cast<ExitCode>(2);

ExitCode ExitCodeOf(const absl::Status& status);

// The --help text about exit codes.
inline constexpr char kExitCodeHelp[] =
    "Exit codes:\n"
    "  0  success\n"
    "  1  a flag or an argument is invalid\n"
    "  2  no such store, step, rank, item, table or row\n"
    "  3  damage: stored bytes are not what was saved\n"
    "  4  busy: another process has the store open for writing\n"
    "  5  I/O error, full disk, pinned step, interrupt, or any other failure\n";

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_EXIT_CODE_H_
