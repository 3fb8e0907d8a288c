// SPDX-License-Identifier: Apache-2.0
// The entries of a ModelState, in the order of registration.
#ifndef CKPTDB_MANAGER_STATE_REGISTERED_STATE_H_
#define CKPTDB_MANAGER_STATE_REGISTERED_STATE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/state.h"
#include "manager/model_state.h"

namespace ckptdb::internal {

struct RegisteredTensor {
  std::string name;
  TensorState state;
};

struct RegisteredTable {
  std::string name;
  TableState* state = nullptr;
  TableSharding sharding = {};
};

struct RegisteredIo {
  std::string name;
  BlobState* state = nullptr;
};

// An object or a value.
struct RegisteredExtra {
  std::string name;
  std::string type;    // of a value, such as "int64"; empty for an object
  uint64_t bytes = 0;  // of a value of a type of fixed size
  std::function<absl::StatusOr<std::string>()> save;
  std::function<absl::Status(absl::string_view)> load;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_REGISTERED_STATE_H_
