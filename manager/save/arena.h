// SPDX-License-Identifier: Apache-2.0
// The staging memory that a save copies the model into; internal to manager/.
#ifndef CKPTDB_MANAGER_SAVE_ARENA_H_
#define CKPTDB_MANAGER_SAVE_ARENA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "db/base/large_array.h"
#include "manager/internal/tensor_device.h"
#include "manager/model_state.h"

namespace ckptdb::internal {

// Keeps the memory from one save to the next, as touching it the first time
// costs more than the copy. Used by one thread at a time.
class Arena {
 public:
  // Pins the memory for `device`, if given and able to pin memory, so that the
  // device copies to it directly.
  explicit Arena(uint64_t max_bytes, TensorState::Device* device = nullptr)
      : max_bytes_(max_bytes), device_(device) {}
  ~Arena() { Release(); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  uint64_t max_bytes() const { return max_bytes_; }
  // Returns the error of pinning the memory; OK without a device.
  const absl::Status& pin_status() const { return pin_status_; }

  // Returns memory of `bytes`, at most max_bytes(), which replaces the memory
  // returned before. Returns null if it cannot be allocated.
  char* Reserve(uint64_t bytes);

 private:
  void Release();

  const uint64_t max_bytes_;
  TensorState::Device* const device_;
  absl::Status pin_status_;
  uint64_t bytes_ = 0;
  LargeArray<char> memory_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_SAVE_ARENA_H_
