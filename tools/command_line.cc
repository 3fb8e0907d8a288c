// SPDX-License-Identifier: Apache-2.0
#include "tools/command_line.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "ckptdb/version.h"
#include "schema/types.h"
#include "tools/command.h"
#include "tools/parser_options.h"
#include "tools/suggestion.h"
#include "tools/value_checks.h"

namespace ckptdb::tool {
namespace {

// Flags that may be given before or after the command.
struct Flags {
  std::string store;
  bool json = false;
};

std::string CheckStore(const std::string& store) {
  return store.empty() ? "the name of the folder is empty" : "";
}

void AddFlags(CLI::App* app, Flags* flags) {
  app->add_option("-s,--store", flags->store,
                  absl::StrCat("folder of the store, or URL of a remote to "
                               "read; default: ",
                               kStoreVariable, ", or the current folder"))
      ->type_name("DIR")
      ->check(CheckStore);
  app->add_flag("--json", flags->json, "print one JSON document");
}

// A command and its parser.
struct Entry {
  std::unique_ptr<Command> command;
  CLI::App* app = nullptr;
  Flags flags;
};

// CLI11 keeps pointers to the values, so each entry is allocated separately.
std::vector<std::unique_ptr<Entry>> AddCommands(CLI::App* app) {
  std::vector<std::unique_ptr<Entry>> entries;
  for (std::unique_ptr<Command>& command : AllCommands()) {
    auto entry = std::make_unique<Entry>();
    entry->command = std::move(command);
    entry->app =
        app->add_subcommand(entry->command->name(), entry->command->summary());
    entry->command->AddArguments(entry->app);
    CheckNumbers(entry->app);
    RefuseEmptyValues(entry->app);
    // The flags may be before or after the command, so both parsers have them.
    AddFlags(entry->app, &entry->flags);
    const std::string notes = entry->command->notes();
    entry->app->footer(absl::StrCat(notes, notes.empty() ? "" : "\n",
                                    "Examples:\n", entry->command->examples(),
                                    "\n", kExitCodeHelp));
    entries.push_back(std::move(entry));
  }
  return entries;
}

void DescribeApp(CLI::App* app, Flags* flags) {
  app->name("ckptdb");
  app->get_formatter()->column_width(28);
  app->set_version_flag("--version", absl::StrCat("ckptdb ", LibraryVersion()),
                        "Print the version and exit");
  // A missing command is reported below, with our own message.
  app->require_subcommand(0, 1);
  AddFlags(app, flags);
  app->footer(
      absl::StrCat("Examples:\n"
                   "  ckptdb ls --store /checkpoints/ctr\n"
                   "  ckptdb show latest --store /checkpoints/ctr --json\n"
                   "  CKPTDB_STORE=/checkpoints/ctr ckptdb verify\n"
                   "\n\"ckptdb COMMAND --help\" describes a command.\n\n",
                   kExitCodeHelp));
}

Context MakeContext(const Entry& entry, const Flags& global,
                    const Streams& streams) {
  Context context;
  context.app = entry.app->get_parent();
  context.command = entry.command->name();
  context.json = entry.flags.json || global.json;
  context.now_micros = absl::ToUnixMicros(absl::Now());
  context.out = streams.out;
  context.err = streams.err;
  context.terminal = streams.terminal;
  const char* variable = std::getenv(kStoreVariable);
  // The command's own flag overrides the global one, which overrides the
  // environment variable.
  for (const std::string& store :
       {entry.flags.store, global.store,
        std::string(variable == nullptr ? "" : variable)}) {
    if (context.store.empty()) context.store = store;
  }
  context.store_given = !context.store.empty();
  if (!context.store_given) context.store = ".";
  return context;
}

// Returns `; did you mean "--json"?` for the first argument that this parser
// does not know, if it is similar to one that it knows.
std::string SuggestArgument(const CLI::App& app) {
  const std::vector<std::string> unknown = app.remaining();
  if (unknown.empty()) return "";
  std::vector<std::string> names;
  if (absl::StartsWith(unknown[0], "-")) {
    for (const CLI::Option* option : NamedOptionsOf(app)) {
      for (const std::string& name : option->get_lnames()) {
        names.push_back("--" + name);
      }
    }
  } else {
    for (const CLI::App* command : CommandsOf(app)) {
      names.push_back(command->get_name());
    }
  }
  const absl::string_view word = unknown[0];
  return DidYouMean(word.substr(0, word.find('=')), names);
}

// CLI11 also throws for --help and --version, which are not errors.
ExitCode ReportParse(const CLI::App& app,
                     const std::vector<std::unique_ptr<Entry>>& entries,
                     const CLI::ParseError& error, const Streams& streams) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    app.exit(error, *streams.out, *streams.err);
    return ExitCode::kOk;
  }
  std::string command;
  std::string suggestion = SuggestArgument(app);
  ExitCode code = ExitCode::kUsage;
  for (const auto& entry : entries) {
    if (!entry->app->parsed()) continue;
    command = entry->command->name();
    const std::string own = SuggestArgument(*entry->app);
    if (!own.empty()) suggestion = own;
    // Like diff(1), which exits with 1 only for a difference.
    const CLI::Option* as_diff = entry->app->get_option_no_throw("--exit-code");
    if (as_diff != nullptr && as_diff->count() > 0) code = kDiffTrouble;
  }
  *streams.err << "ckptdb: " << command << (command.empty() ? "" : ": ")
               << Printable(error.what()) << Printable(suggestion)
               << "\nRun \"ckptdb " << command << (command.empty() ? "" : " ")
               << "--help\" for help.\n";
  return code;
}

ExitCode RunEntry(const Entry& entry, const Flags& global,
                  const Streams& streams) {
  const Context context = MakeContext(entry, global, streams);
  const bool paged = entry.command->paged() && streams.start_pager != nullptr &&
                     streams.start_pager();
  absl::Status status = entry.command->Run(context);
  // If standard output is a file on a full disk, writing fails only when the
  // buffer is flushed; the exit code must not be 0 then.
  streams.out->flush();
  // The user may leave a pager early.
  if (status.ok() && !streams.out->good() && !paged) {
    status = absl::InternalError("cannot write to standard output");
  }
  if (!status.ok()) context.PrintError(status);
  return entry.command->ExitCodeFor(status);
}

}  // namespace

ExitCode RunCommandLine(int argc, const char* const* argv,
                        const Streams& streams) {
  CLI::App app("Inspects and changes checkpoint stores.");
  Flags global;
  DescribeApp(&app, &global);
  const auto entries = AddCommands(&app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ReportParse(app, entries, error, streams);
  }
  for (const auto& entry : entries) {
    if (entry->app->parsed()) return RunEntry(*entry, global, streams);
  }
  *streams.err << "ckptdb: a command is required\n"
                  "Run \"ckptdb --help\" for help.\n";
  return ExitCode::kUsage;
}

}  // namespace ckptdb::tool
