// SPDX-License-Identifier: Apache-2.0
// Names of items, slots and metrics: UTF-8, 1 to kMaxNameBytes bytes, no NUL.
#ifndef CKPTDB_SCHEMA_BYTES_NAMES_H_
#define CKPTDB_SCHEMA_BYTES_NAMES_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ckptdb {

// Returns InvalidArgument unless `name` is valid. The error calls it `what`,
// such as "item name", and describes the fault and its position.
absl::Status CheckName(absl::string_view what, absl::string_view name);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_BYTES_NAMES_H_
