// SPDX-License-Identifier: Apache-2.0
#include "tools/parser_options.h"

#include "CLI/App.hpp"

namespace ckptdb::tool {
namespace {

std::vector<const CLI::App*> ParsersOf(const CLI::App& app, bool named) {
  const auto parsers = app.get_subcommands([named](const CLI::App* parser) {
    return parser->get_name().empty() != named;
  });
  return {parsers.begin(), parsers.end()};
}

// Skips --help, which each option group repeats.
bool IsRepeated(const CLI::App& parser, const CLI::Option* option) {
  return parser.get_name().empty() && option == parser.get_help_ptr();
}

}  // namespace

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return ParsersOf(app, /*named=*/true);
}

std::vector<const CLI::App*> OptionGroupsOf(const CLI::App& command) {
  return ParsersOf(command, /*named=*/false);
}

std::vector<const CLI::Option*> OwnOptionsOf(const CLI::App& parser) {
  return parser.get_options(
      [&](const CLI::Option* option) { return !IsRepeated(parser, option); });
}

std::vector<const CLI::Option*> NamedOptionsOf(const CLI::App& command) {
  std::vector<const CLI::Option*> options;
  for (const CLI::Option* option : OwnOptionsOf(command)) {
    if (option->nonpositional()) options.push_back(option);
  }
  for (const CLI::App* group : OptionGroupsOf(command)) {
    const auto grouped = NamedOptionsOf(*group);
    options.insert(options.end(), grouped.begin(), grouped.end());
  }
  return options;
}

std::vector<std::string> WordsOf(const CLI::Option& option) {
  std::vector<std::string> words;
  for (const std::string& name : option.get_snames()) {
    words.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    words.push_back("--" + name);
  }
  return words;
}

}  // namespace ckptdb::tool
