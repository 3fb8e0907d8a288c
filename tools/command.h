// The interface of the subcommands of ckptdb. Each is in a file of its own name
// and is created by a function below.
#ifndef CKPTDB_TOOLS_COMMAND_H_
#define CKPTDB_TOOLS_COMMAND_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}  // namespace CLI

namespace ckptdb::tool {

// The arguments of every command.
struct Context {
  std::string command;       // its name
  std::string store;         // the store's folder
  bool store_given = false;  // by flag or environment, not by default
  bool json = false;         // one document on `out`, else a table
  int64_t now_micros = 0;    // since 1970
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
  std::ostream* terminal = nullptr;  // for progress; null when there is none

  // Writes "ckptdb: <command>: <message>" to `err`.
  void PrintError(const absl::Status& status) const;
};

class Command {
 public:
  virtual ~Command() = default;

  virtual std::string name() const = 0;
  virtual std::string summary() const = 0;  // one line
  // Returns further text of --help: lines of at most 80 columns.
  virtual std::string notes() const { return {}; }
  // Returns the example command lines of --help.
  virtual std::string examples() const = 0;

  // Adds the command's own arguments; they are read before Run.
  virtual void AddArguments(CLI::App* app) = 0;

  // Prints to context.out. The caller prints the returned status, which decides
  // the exit code.
  virtual absl::Status Run(const Context& context) = 0;
};

std::unique_ptr<Command> NewLs();
std::unique_ptr<Command> NewShow();
std::unique_ptr<Command> NewItems();
std::unique_ptr<Command> NewChain();
std::unique_ptr<Command> NewDiff();
std::unique_ptr<Command> NewPlan();
std::unique_ptr<Command> NewRow();
std::unique_ptr<Command> NewHistory();
std::unique_ptr<Command> NewVerify();
std::unique_ptr<Command> NewDu();
std::unique_ptr<Command> NewFold();
std::unique_ptr<Command> NewRm();
std::unique_ptr<Command> NewGc();
std::unique_ptr<Command> NewPin();
std::unique_ptr<Command> NewUnpin();
std::unique_ptr<Command> NewMetrics();
std::unique_ptr<Command> NewDoctor();

// Returns all commands in the order of the help.
std::vector<std::unique_ptr<Command>> AllCommands();

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_COMMAND_H_
