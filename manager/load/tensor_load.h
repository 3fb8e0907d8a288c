// Loads a tensor, wherever the model has it; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_TENSOR_LOAD_H_
#define CKPTDB_MANAGER_LOAD_TENSOR_LOAD_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/manager/coordinator.h"
#include "ckptdb/manager/model_state.h"
#include "ckptdb/schema/types.h"

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

// Loads the model's part of a tensor; casts it if its dtype in the step is
// another one. A tensor of a device is loaded by way of 64 MiB of host memory,
// or of a row where that is larger. Then all ranks have it on a device, or
// none.
absl::Status LoadTensor(const TensorLoad& load);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_TENSOR_LOAD_H_
