// SPDX-License-Identifier: Apache-2.0
#include "tools/shell_completion.h"

#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tools/parser_options.h"

namespace ckptdb::tool {
namespace {

bool TakesValue(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

bool TakesFolder(const CLI::Option& option) {
  return option.get_type_name() == "DIR";
}

std::vector<std::string> AllWords(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : NamedOptionsOf(app)) {
    for (std::string& word : WordsOf(*option)) words.push_back(word);
  }
  return words;
}

// In single quotes.
std::string ShellQuoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// --- zsh

// The descriptions of _arguments end with "]", those of _describe begin after
// ":".
std::string ZshText(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

std::string ZshOption(const CLI::Option& option) {
  const std::vector<std::string> words = WordsOf(option);
  const std::string description =
      absl::StrCat("[", ZshText(option.get_description()), "]",
                   !TakesValue(option)   ? ""
                   : TakesFolder(option) ? ":folder:_files -/"
                                         : ":value:_files");
  if (words.size() == 1) return ShellQuoted(words[0] + description);
  // Any one of them.
  return absl::StrCat("'(", absl::StrJoin(words, " "), ")'{",
                      absl::StrJoin(words, ","), "}", ShellQuoted(description));
}

std::string ZshOptions(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : NamedOptionsOf(app)) {
    absl::StrAppend(&text, " \\\n        ", ZshOption(*option));
  }
  return text;
}

// --- fish

std::string FishOption(const std::string& condition,
                       const CLI::Option& option) {
  std::string line =
      absl::StrCat("complete -c ckptdb -n ", ShellQuoted(condition));
  for (const std::string& name : option.get_snames()) {
    absl::StrAppend(&line, " -s ", name);
  }
  for (const std::string& name : option.get_lnames()) {
    absl::StrAppend(&line, " -l ", name);
  }
  if (TakesValue(option)) {
    line +=
        TakesFolder(option) ? " -x -a '(__fish_complete_directories)'" : " -r";
  }
  return absl::StrCat(line, " -d ", ShellQuoted(option.get_description()),
                      "\n");
}

// --- man

// A line that begins with a dot or a quote would be a request.
std::string ManText(const std::string& text) {
  std::string result;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!result.empty()) result += '\n';
    if (!line.empty() && (line[0] == '.' || line[0] == '\'')) result += "\\&";
    result += absl::StrReplaceAll(line, {{"\\", "\\e"}, {"-", "\\-"}});
  }
  return result;
}

std::string ManOptions(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : OwnOptionsOf(app)) {
    const std::string value = option->get_type_name();
    const std::string name =
        option->nonpositional()
            ? absl::StrCat(absl::StrJoin(WordsOf(*option), ", "),
                           value.empty() ? "" : " ", value)
            : option->get_name();
    absl::StrAppend(&text, ".TP\n.B ", ManText(name), "\n",
                    ManText(option->get_description()), "\n");
  }
  for (const CLI::App* group : OptionGroupsOf(app)) {
    absl::StrAppend(&text, ".PP\n", ManText(group->get_group()), ", ",
                    ManText(group->get_description()), ":\n",
                    ManOptions(*group));
  }
  return text;
}

// Keeps line breaks and spaces.
std::string ManVerbatim(const std::string& text) {
  return absl::StrCat(".PP\n.nf\n", ManText(text), "\n.fi\n");
}

}  // namespace

std::string BashCompletion(const CLI::App& app) {
  std::string cases;
  std::vector<std::string> first = AllWords(app);
  for (const CLI::App* command : CommandsOf(app)) {
    first.push_back(command->get_name());
    absl::StrAppend(&cases, "    ", command->get_name(), ") words=",
                    ShellQuoted(absl::StrJoin(AllWords(*command), " ")),
                    " ;;\n");
  }
  return absl::StrCat(
      "# bash completion of ckptdb\n"
      "_ckptdb() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} command= words= i\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    case ${COMP_WORDS[i]} in\n"
      "    -s | --store) ((++i)) ;;\n"
      "    -*) ;;\n"
      "    *) command=${COMP_WORDS[i]}; break ;;\n"
      "    esac\n"
      "  done\n"
      "  case ${COMP_WORDS[COMP_CWORD - 1]} in\n"
      "  -s | --store)\n"
      "    COMPREPLY=($(compgen -d -- \"$word\"))\n"
      "    return ;;\n"
      "  esac\n"
      "  case $command in\n"
      "    '') words=",
      ShellQuoted(absl::StrJoin(first, " ")), " ;;\n", cases,
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "}\n"
      "complete -o default -F _ckptdb ckptdb\n");
}

std::string ZshCompletion(const CLI::App& app) {
  std::string commands;
  std::string cases;
  for (const CLI::App* command : CommandsOf(app)) {
    const std::string& name = command->get_name();
    absl::StrAppend(&commands, "    ",
                    ShellQuoted(absl::StrCat(
                        name, ":", ZshText(command->get_description()))),
                    "\n");
    absl::StrAppend(&cases, "    ", name, ")\n      _arguments",
                    ZshOptions(*command), " \\\n        '*:argument:_files'\n",
                    "      ;;\n");
  }
  return absl::StrCat(
      "#compdef ckptdb\n"
      "# zsh completion of ckptdb\n"
      "_ckptdb() {\n"
      "  local -a commands\n"
      "  local state line\n"
      "  commands=(\n",
      commands,
      "  )\n"
      "  _arguments -C",
      ZshOptions(app),
      " \\\n        '1:command:->command' '*::argument:->argument'\n"
      "  case $state in\n"
      "  command) _describe command commands ;;\n"
      "  argument)\n"
      "    case $words[1] in\n",
      cases,
      "    esac ;;\n"
      "  esac\n"
      "}\n"
      "if [ \"$funcstack[1]\" = _ckptdb ]; then\n"
      "  _ckptdb \"$@\"\n"
      "else\n"
      "  compdef _ckptdb ckptdb\n"
      "fi\n");
}

std::string FishCompletion(const CLI::App& app) {
  constexpr char kFirst[] = "__fish_use_subcommand";
  std::string text = "# fish completion of ckptdb\n";
  for (const CLI::Option* option : NamedOptionsOf(app)) {
    text += FishOption(kFirst, *option);
  }
  for (const CLI::App* command : CommandsOf(app)) {
    const std::string& name = command->get_name();
    absl::StrAppend(&text, "complete -c ckptdb -f -n ", kFirst, " -a ", name,
                    " -d ", ShellQuoted(command->get_description()), "\n");
    for (const CLI::Option* option : NamedOptionsOf(*command)) {
      text += FishOption(absl::StrCat("__fish_seen_subcommand_from ", name),
                         *option);
    }
  }
  return text;
}

std::string ManPage(const CLI::App& app) {
  std::string text = absl::StrCat(
      ".TH CKPTDB 1\n.SH NAME\nckptdb \\- ", ManText(app.get_description()),
      "\n.SH SYNOPSIS\n.B ckptdb\n[options] COMMAND [arguments]\n"
      ".SH OPTIONS\n",
      ManOptions(app), ManVerbatim(app.get_footer()), ".SH COMMANDS\n");
  for (const CLI::App* command : CommandsOf(app)) {
    std::string arguments;
    for (const CLI::Option* option : command->get_options()) {
      if (option->nonpositional()) continue;
      const std::string name = option->get_name();
      absl::StrAppend(&arguments, " ", option->get_required() ? "" : "[", name,
                      option->get_required() ? "" : "]");
    }
    absl::StrAppend(&text, ".SS ckptdb ", command->get_name(), arguments, "\n",
                    ManText(command->get_description()), ".\n",
                    ManOptions(*command), ManVerbatim(command->get_footer()));
  }
  return text;
}

}  // namespace ckptdb::tool
