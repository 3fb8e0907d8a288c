// SPDX-License-Identifier: Apache-2.0
// ckptdb unpin: makes pinned steps removable again.
#include <memory>
#include <string>
#include <vector>

#include "tools/command.h"
#include "tools/pin_steps.h"
#include "tools/step_argument.h"

namespace ckptdb::tool {
namespace {

class Unpin : public Command {
 public:
  std::string name() const override { return "unpin"; }
  std::string summary() const override {
    return "Unpin steps, so that they can be removed";
  }
  std::string notes() const override { return PinNotes(); }
  std::string examples() const override {
    return "  ckptdb unpin 1000 --store /checkpoints/ctr\n";
  }
  void AddArguments(CLI::App* app) override { AddSteps(app, &steps_); }
  absl::Status Run(const Context& context) override {
    return PinSteps(context, steps_, /*pin=*/false);
  }

 private:
  std::vector<std::string> steps_;
};

}  // namespace

std::unique_ptr<Command> NewUnpin() { return std::make_unique<Unpin>(); }

}  // namespace ckptdb::tool
