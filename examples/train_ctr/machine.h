// SPDX-License-Identifier: Apache-2.0
// The memory that has a model, and the processor that trains it: the host's, or
// a GPU's.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_MACHINE_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_MACHINE_H_

#include <ckptdb/manager/model_state.h>

#include <algorithm>
#include <cstddef>
#include <list>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/math.h"

namespace train_ctr {

using LayerOperation =
    std::variant<ForwardLayer, BackwardLayer, WeightGradient, AdamStep>;

// Calls take effect one after the other. After an error the machine must not be
// used further. Not thread-safe.
class Machine {
 public:
  virtual ~Machine() = default;

  // Returns memory for so many floats, valid as long as the machine.
  virtual absl::StatusOr<float*> Allocate(size_t count) = 0;
  // Begins an operation on the machine's memory.
  virtual absl::Status Run(const LayerOperation& operation) = 0;
  // Copy floats from the host's memory to the machine's, and back. The memory
  // is free again, or has the values, when they return.
  virtual absl::Status Write(const float* from, size_t count, float* to) = 0;
  virtual absl::Status Read(const float* from, size_t count, float* to) = 0;
  // Declares that the tensor's data is in this machine's memory.
  virtual void Place(ckptdb::TensorState* tensor) const = 0;
};

class HostMachine final : public Machine {
 public:
  absl::StatusOr<float*> Allocate(size_t count) override {
    return memory_.emplace_back(count).data();
  }
  absl::Status Run(const LayerOperation& operation) override {
    std::visit([](const auto& layer) { RunTiles(layer); }, operation);
    return absl::OkStatus();
  }
  absl::Status Write(const float* from, size_t count, float* to) override {
    std::copy_n(from, count, to);
    return absl::OkStatus();
  }
  absl::Status Read(const float* from, size_t count, float* to) override {
    std::copy_n(from, count, to);
    return absl::OkStatus();
  }
  void Place(ckptdb::TensorState* /*tensor*/) const override {}

 private:
  std::list<std::vector<float>> memory_;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_MACHINE_H_
