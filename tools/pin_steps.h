// The common part of pin and unpin.
#ifndef CKPTDB_TOOLS_PIN_STEPS_H_
#define CKPTDB_TOOLS_PIN_STEPS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ckptdb/tools/command.h"

namespace ckptdb::tool {

// Pins or unpins the steps, and prints which. Nothing is changed when one of
// them does not exist.
absl::Status PinSteps(const Context& context,
                      const std::vector<std::string>& steps, bool pin);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_PIN_STEPS_H_
