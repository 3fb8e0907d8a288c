// SPDX-License-Identifier: Apache-2.0
// ckptdb pin: protects steps from removal.
#include <memory>
#include <string>
#include <vector>

#include "tools/command.h"
#include "tools/pin_steps.h"
#include "tools/step_argument.h"

namespace ckptdb::tool {
namespace {

class Pin : public Command {
 public:
  std::string name() const override { return "pin"; }
  std::string summary() const override {
    return "Pin steps, so that retention and rm do not remove them";
  }
  std::string notes() const override { return PinNotes(); }
  std::string examples() const override {
    return "  ckptdb pin 1000 --store /checkpoints/ctr\n";
  }
  void AddArguments(CLI::App* app) override { AddSteps(app, &steps_); }
  absl::Status Run(const Context& context) override {
    return PinSteps(context, steps_, /*pin=*/true);
  }

 private:
  std::vector<std::string> steps_;
};

}  // namespace

std::unique_ptr<Command> NewPin() { return std::make_unique<Pin>(); }

}  // namespace ckptdb::tool
