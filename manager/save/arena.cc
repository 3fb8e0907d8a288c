// SPDX-License-Identifier: Apache-2.0
#include "manager/save/arena.h"

#include <algorithm>

namespace ckptdb::internal {

char* Arena::Reserve(uint64_t bytes) {
  if (bytes <= bytes_) return memory_.get();
  Release();
  // A growing model usually grows again: allocate an eighth more.
  bytes_ = std::clamp(bytes + bytes / 8, bytes, std::max(bytes, max_bytes_));
  memory_ = AllocateArray<char>(bytes_);
  if (memory_ == nullptr) bytes_ = 0;
  if (memory_ != nullptr && device_ != nullptr) {
    pin_status_ = device_->Pin(memory_.get(), bytes_);
  }
  return memory_.get();
}

void Arena::Release() {
  if (memory_ != nullptr && device_ != nullptr && pin_status_.ok()) {
    device_->Unpin(memory_.get());
  }
  memory_.reset();
}

}  // namespace ckptdb::internal
