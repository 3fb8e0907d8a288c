// SPDX-License-Identifier: Apache-2.0
// The options of a command, for the manual page, completions and suggestions.
#ifndef CKPTDB_TOOLS_PARSER_OPTIONS_H_
#define CKPTDB_TOOLS_PARSER_OPTIONS_H_

#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
class Option;
}  // namespace CLI

namespace ckptdb::tool {

// Returns the commands of the parser.
std::vector<const CLI::App*> CommandsOf(const CLI::App& app);

// Returns the option groups of a command, which are parsers without a name.
std::vector<const CLI::App*> OptionGroupsOf(const CLI::App& command);

// Returns the options and positional arguments of a command or an option group,
// without those of groups in it.
std::vector<const CLI::Option*> OwnOptionsOf(const CLI::App& parser);

// Returns all options with names of a command, those of its groups last.
std::vector<const CLI::Option*> NamedOptionsOf(const CLI::App& command);

// Returns "-s", "--store".
std::vector<std::string> WordsOf(const CLI::Option& option);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_PARSER_OPTIONS_H_
