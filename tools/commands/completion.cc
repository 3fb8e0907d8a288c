// SPDX-License-Identifier: Apache-2.0
// ckptdb completion, ckptdb man: scripts for shells, and the manual page.
#include <memory>
#include <string>

#include "CLI/App.hpp"
#include "tools/command.h"
#include "tools/json.h"
#include "tools/shell_completion.h"

namespace ckptdb::tool {
namespace {

class Completion : public Command {
 public:
  Completion()
      : Command({.name = "completion",
                 .summary = "Print a script that completes commands in a shell",
                 .examples = "  source <(ckptdb completion bash)\n"
                             "  ckptdb completion zsh > ~/.zfunc/_ckptdb\n"
                             "  ckptdb completion fish > "
                             "~/.config/fish/completions/ckptdb.fish\n"}) {}
  void AddArguments(CLI::App* app) override {
    app->add_option("SHELL", shell_, "bash, zsh or fish")
        ->type_name("")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  }
  absl::Status Run(const Context& context) override {
    const std::string script = shell_ == "bash"  ? BashCompletion(*context.app)
                               : shell_ == "zsh" ? ZshCompletion(*context.app)
                                                 : FishCompletion(*context.app);
    if (context.json) {
      PrintJson({{"shell", shell_}, {"script", script}}, context.out);
    } else {
      *context.out << script;
    }
    return absl::OkStatus();
  }

 private:
  std::string shell_;
};

class Man : public Command {
 public:
  Man()
      : Command({.name = "man",
                 .summary = "Print the manual page ckptdb(1)",
                 .examples = "  ckptdb man | man -l -\n"}) {}
  absl::Status Run(const Context& context) override {
    const std::string page = ManPage(*context.app);
    if (context.json) {
      PrintJson({{"page", page}}, context.out);
    } else {
      *context.out << page;
    }
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<Command> NewCompletion() {
  return std::make_unique<Completion>();
}
std::unique_ptr<Command> NewMan() { return std::make_unique<Man>(); }

}  // namespace ckptdb::tool
