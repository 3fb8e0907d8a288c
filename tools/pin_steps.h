// SPDX-License-Identifier: Apache-2.0
// The code shared by pin and unpin.
#ifndef CKPTDB_TOOLS_PIN_STEPS_H_
#define CKPTDB_TOOLS_PIN_STEPS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/command.h"

namespace ckptdb::tool {

// Pins or unpins the steps, or posts the request if another process has the
// store open, and prints which. Changes nothing if one of them does not exist.
absl::Status PinSteps(const Context& context,
                      const std::vector<std::string>& texts, bool pin);

// The --help notes of both commands.
inline std::string PinNotes() {
  return "While another process has the store open, the request is posted, and "
         "that process\ncarries it out with its next save.\n";
}

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_PIN_STEPS_H_
