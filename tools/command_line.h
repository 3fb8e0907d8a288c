// Parses the command line of ckptdb and runs its command.
#ifndef CKPTDB_TOOLS_COMMAND_LINE_H_
#define CKPTDB_TOOLS_COMMAND_LINE_H_

#include <ostream>

#include "ckptdb/tools/exit_code.h"

namespace ckptdb::tool {

// The folder of the store is that of -s or --store, else that of this
// environment variable, else the current one.
inline constexpr char kStoreVariable[] = "CKPTDB_STORE";

struct Streams {
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
  std::ostream* terminal = nullptr;  // for progress; null when there is none
};

ExitCode RunCommandLine(int argc, const char* const* argv,
                        const Streams& streams);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_COMMAND_LINE_H_
