// SPDX-License-Identifier: Apache-2.0
// Loads a tensor to host or device memory; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_TENSOR_LOAD_H_
#define CKPTDB_MANAGER_LOAD_TENSOR_LOAD_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "db/reader.h"
#include "manager/coordinator.h"
#include "manager/model_state.h"
#include "schema/types.h"

namespace ckptdb::internal {

struct TensorLoad {
  const StepReader* step = nullptr;
  ReadOptions read;
  std::string source;  // its name in the step
  DType from = DType::kF32;
  TensorState state;
  // The owner reads the tensor and broadcasts it to these ranks, which all call
  // LoadTensor and return the same status. Null: each rank reads it.
  Coordinator* ranks = nullptr;
  absl::Duration deadline;
};

// Loads the model's part of a tensor, and casts it if its dtype in the step
// differs. A device tensor passes through twice 32 MiB of host memory, or two
// rows if they are larger. With `ranks`, it must be a device tensor on all of
// them or on none.
absl::Status LoadTensor(const TensorLoad& load);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_TENSOR_LOAD_H_
