// SPDX-License-Identifier: Apache-2.0
// The interface of device memory, which ckptdb::cuda implements. For libraries
// that add a device, not for users.
#ifndef CKPTDB_MANAGER_INTERNAL_TENSOR_DEVICE_H_
#define CKPTDB_MANAGER_INTERNAL_TENSOR_DEVICE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "db/state.h"
#include "manager/model_state.h"

namespace ckptdb {

// Device memory, such as a GPU's, with tensors of a model.
//
// Thread-safe, as long as each tensor is in one call at a time.
class TensorState::Device {
 public:
  // A tensor to be saved.
  struct Item {
    absl::string_view name;
    const TensorState* state = nullptr;
    uint64_t bytes = 0;
    // The offset of its bytes in the save's memory, a multiple of kAlignment.
    // Offsets ascend from item to item, and ranges do not overlap.
    uint64_t at = 0;
  };
  static constexpr uint64_t kAlignment = 64;

  // Tensors that are set aside for a save, so that they may change.
  class Capture {
   public:
    // Waits until the device no longer uses the tensors or the save's memory
    // for this capture.
    virtual ~Capture() = default;
    // Copies the tensors to their places in the save's memory, and returns when
    // they are there. Called once, by any thread. Returns DataLoss naming the
    // tensor whose bytes the copy changed. After an error the contents of the
    // memory are undefined.
    virtual absl::Status Fetch() = 0;
  };

  // A tensor that is being restored.
  class Upload {
   public:
    // Waits until the device no longer writes the tensor for this upload.
    virtual ~Upload() = default;
    // Writes bytes of the tensor, row-major and contiguous, from byte `first`
    // on, a multiple of kAlignment. `bytes` may change afterwards.
    virtual absl::Status Write(uint64_t first,
                               absl::Span<const char> bytes) = 0;
    // Returns when all bytes are in the tensor. Returns DataLoss naming the
    // tensor if the copy changed bytes. After an error of Write or Finish the
    // contents of the tensor are undefined.
    virtual absl::Status Finish() = 0;
  };

  virtual ~Device() = default;

  // Returns InvalidArgument for a tensor that is not in the memory of this
  // device, or whose rows overlap.
  virtual absl::Status Check(const TensorState& tensor) const = 0;

  // Sets the tensors aside without waiting for the device: only their streams
  // wait. `memory` is the save's memory, valid as long as the capture, and has
  // room for each item's bytes rounded up to a multiple of kAlignment. Tensors
  // that do not fit in the device's staging memory are copied to their places
  // before the call returns, which waits for the device.
  virtual absl::StatusOr<std::unique_ptr<Capture>> SetAside(
      absl::Span<const Item> items, char* memory) = 0;

  // Begins to restore a tensor of `bytes` bytes.
  virtual absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(
      absl::string_view name, const TensorState& tensor, uint64_t bytes) = 0;

  // Registers host memory, so that the device copies to it directly. Without
  // it, or if it fails, copies pass through a buffer.
  virtual absl::Status Pin(char* memory, uint64_t bytes) = 0;
  // Undoes Pin. No copy uses the memory.
  virtual void Unpin(char* memory) = 0;
};

// Rows of a table in device memory that are set aside for a save, so that the
// table may change.
class TableState::Captured : public RowSource {
 public:
  // Copies the rows to host memory, and returns when they are there. Called
  // once, by any thread, before any other function. Returns DataLoss naming the
  // slot whose bytes the copy changed.
  virtual absl::Status Fetch() = 0;
};

}  // namespace ckptdb

#endif  // CKPTDB_MANAGER_INTERNAL_TENSOR_DEVICE_H_
