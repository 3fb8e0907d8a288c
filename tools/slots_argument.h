// SPDX-License-Identifier: Apache-2.0
// Lists of slots on the command line.
#ifndef CKPTDB_TOOLS_SLOTS_ARGUMENT_H_
#define CKPTDB_TOOLS_SLOTS_ARGUMENT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ckptdb::tool {

// Splits "a,b" into names. "\," is a comma in a name, and "\\" a backslash;
// empty names are left out.
std::vector<std::string> SplitSlots(absl::string_view text);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_SLOTS_ARGUMENT_H_
