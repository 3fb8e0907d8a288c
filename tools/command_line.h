// SPDX-License-Identifier: Apache-2.0
// Parses the command line of ckptdb and runs its command.
#ifndef CKPTDB_TOOLS_COMMAND_LINE_H_
#define CKPTDB_TOOLS_COMMAND_LINE_H_

#include <functional>
#include <ostream>

#include "tools/exit_code.h"

namespace ckptdb::tool {

// The environment variable that names the store's folder if -s and --store are
// missing. Without it, the current folder is used.
inline constexpr char kStoreVariable[] = "CKPTDB_STORE";

struct Streams {
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
  std::ostream* terminal = nullptr;  // for progress; may be null
  // Directs `out` to a pager, and returns whether there is one; may be empty.
  std::function<bool()> start_pager = {};
};

ExitCode RunCommandLine(int argc, const char* const* argv,
                        const Streams& streams);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_COMMAND_LINE_H_
