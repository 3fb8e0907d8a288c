// SPDX-License-Identifier: Apache-2.0
// Scripts that complete the command line in shells, and the manual page, made
// from the definitions of the parser.
#ifndef CKPTDB_TOOLS_SHELL_COMPLETION_H_
#define CKPTDB_TOOLS_SHELL_COMPLETION_H_

#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}  // namespace CLI

namespace ckptdb::tool {

std::string BashCompletion(const CLI::App& app);
std::string ZshCompletion(const CLI::App& app);
std::string FishCompletion(const CLI::App& app);

// Returns ckptdb(1) in the language of man(7).
std::string ManPage(const CLI::App& app);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_SHELL_COMPLETION_H_
