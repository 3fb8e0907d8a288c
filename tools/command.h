// SPDX-License-Identifier: Apache-2.0
// The interface of ckptdb's subcommands. Each is in its own file and is created
// by one of the functions below.
#ifndef CKPTDB_TOOLS_COMMAND_H_
#define CKPTDB_TOOLS_COMMAND_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tools/exit_code.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}  // namespace CLI

namespace ckptdb::tool {

// The arguments common to all commands.
struct Context {
  std::string command;       // its name
  std::string store;         // the store's folder
  bool store_given = false;  // by flag or environment variable
  bool json = false;         // print one JSON document instead of tables
  int64_t now_micros = 0;    // since 1970
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
  std::ostream* terminal = nullptr;  // for progress; may be null
  const CLI::App* app = nullptr;     // the parser of the whole command line

  // Writes "ckptdb: <command>: <message>" to `err`.
  void PrintError(const absl::Status& status) const;
};

class Command {
 public:
  // The texts of --help.
  struct Help {
    std::string name;
    std::string summary;     // one line
    std::string notes = {};  // more lines, at most 80 columns wide
    std::string examples;    // command lines
    bool paged = false;      // through a pager, on a terminal
  };

  explicit Command(Help help) : help_(std::move(help)) {}
  virtual ~Command() = default;

  const std::string& name() const { return help_.name; }
  const std::string& summary() const { return help_.summary; }
  const std::string& notes() const { return help_.notes; }
  const std::string& examples() const { return help_.examples; }
  bool paged() const { return help_.paged; }

  // Adds the command's arguments; they are parsed before Run.
  virtual void AddArguments(CLI::App* /*app*/) {}

  // Prints to context.out. The caller prints an error, which determines the
  // exit code.
  virtual absl::Status Run(const Context& context) = 0;

  // Returns the exit code after Run returned `status`.
  virtual ExitCode ExitCodeFor(const absl::Status& status) const {
    return ExitCodeOf(status);
  }

 private:
  const Help help_;
};

std::unique_ptr<Command> NewLs();
std::unique_ptr<Command> NewShow();
std::unique_ptr<Command> NewItems();
std::unique_ptr<Command> NewChain();
std::unique_ptr<Command> NewDiff();
std::unique_ptr<Command> NewPlan();
std::unique_ptr<Command> NewRow();
std::unique_ptr<Command> NewRows();
std::unique_ptr<Command> NewCat();
std::unique_ptr<Command> NewNan();
std::unique_ptr<Command> NewDigest();
std::unique_ptr<Command> NewHistory();
std::unique_ptr<Command> NewVerify();
std::unique_ptr<Command> NewDu();
std::unique_ptr<Command> NewExplain();
std::unique_ptr<Command> NewStats();
std::unique_ptr<Command> NewWatch();
std::unique_ptr<Command> NewReport();
std::unique_ptr<Command> NewFold();
std::unique_ptr<Command> NewRm();
std::unique_ptr<Command> NewGc();
std::unique_ptr<Command> NewPin();
std::unique_ptr<Command> NewUnpin();
std::unique_ptr<Command> NewPromote();
std::unique_ptr<Command> NewDemote();
std::unique_ptr<Command> NewQuarantine();
std::unique_ptr<Command> NewMetrics();
std::unique_ptr<Command> NewRepair();
std::unique_ptr<Command> NewCopy();
std::unique_ptr<Command> NewBackup();
std::unique_ptr<Command> NewRestoreBackup();
std::unique_ptr<Command> NewRemote();
std::unique_ptr<Command> NewExport();
std::unique_ptr<Command> NewImport();
std::unique_ptr<Command> NewDoctor();
std::unique_ptr<Command> NewCompletion();
std::unique_ptr<Command> NewMan();

// Returns all commands in the order of --help.
std::vector<std::unique_ptr<Command>> AllCommands();

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_COMMAND_H_
