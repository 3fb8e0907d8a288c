// SPDX-License-Identifier: Apache-2.0
// Changes of steps that the store's owner can make, and any other process can
// post to it: pins, lifetimes, metrics.
#ifndef CKPTDB_TOOLS_STEP_CHANGE_H_
#define CKPTDB_TOOLS_STEP_CHANGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/reader.h"
#include "db/store.h"
#include "tools/command.h"

namespace ckptdb::tool {

// One change of a step, by the owner and by another process.
struct StepChange {
  std::function<absl::Status(Store* store, int64_t step)> apply;
  std::function<absl::Status(Reader* reader, int64_t step)> post;
};

struct ChangedSteps {
  std::vector<int64_t> steps;
  bool posted = false;  // another process has the store open
};

// Applies the change to each of these steps, or posts it if another process has
// the store open. Changes nothing if one of them does not exist.
absl::StatusOr<ChangedSteps> ChangeSteps(const Context& context,
                                         const std::vector<std::string>& steps,
                                         const StepChange& change);

// Returns a command that makes this change of all steps in its arguments and
// prints them: "pinned step 100" or "posted: pin step 100". In JSON the field
// "<done>_steps" lists them.
std::unique_ptr<Command> NewStepChange(Command::Help help, std::string done,
                                       StepChange change);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_STEP_CHANGE_H_
