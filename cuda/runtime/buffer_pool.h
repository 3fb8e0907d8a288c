// SPDX-License-Identifier: Apache-2.0
// A pool of reusable buffers; internal to cuda/.
//
// Allocating device memory, or pinned host memory, makes the device wait for
// all queued work. So the first saves allocate, and later saves reuse their
// buffers. A buffer may be up to an eighth larger than requested.
#ifndef CKPTDB_CUDA_RUNTIME_BUFFER_POOL_H_
#define CKPTDB_CUDA_RUNTIME_BUFFER_POOL_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "db/base/mutex.h"
#include "schema/status.h"

namespace ckptdb::internal {

// A pool of DeviceBuffer or PinnedBuffer. Thread-safe. Must outlive its loans.
template <typename Buffer>
class BufferPool {
 public:
  // A buffer that returns to its pool when destroyed. No queued work may refer
  // to it then.
  class Loan {
   public:
    Loan() = default;
    Loan(BufferPool* pool, Buffer buffer)
        : pool_(pool), buffer_(std::move(buffer)) {}
    Loan(Loan&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)),
          buffer_(std::move(other.buffer_)) {}
    Loan& operator=(Loan&& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(buffer_, other.buffer_);
      return *this;
    }
    ~Loan() {
      if (pool_ != nullptr) pool_->Return(std::move(buffer_));
    }

    char* get() const { return buffer_.get(); }
    uint64_t bytes() const { return buffer_.bytes(); }

   private:
    BufferPool* pool_ = nullptr;
    Buffer buffer_;
  };

  // `what` names the buffers in errors. Together they have at most `max_bytes`.
  BufferPool(const char* what, uint64_t max_bytes)
      : what_(what), max_bytes_(max_bytes) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  uint64_t max_bytes() const { return max_bytes_; }
  // Returns the size of the largest buffer that could be lent now.
  uint64_t free_bytes() const {
    const MutexLock lock(&mutex_);
    return max_bytes_ - lent_bytes_;
  }

  // Returns an uninitialized buffer of at least `bytes`. Returns
  // ResourceExhausted if the pool would exceed max_bytes or the device is out
  // of memory. Call it with the pool's device current.
  absl::StatusOr<Loan> Take(uint64_t bytes) {
    const MutexLock lock(&mutex_);
    const auto fits = std::find_if(
        kept_.begin(), kept_.end(),
        [&](const Buffer& buffer) { return buffer.bytes() >= bytes; });
    if (fits != kept_.end()) {
      Buffer buffer = std::move(*fits);
      kept_.erase(fits);
      kept_bytes_ -= buffer.bytes();
      lent_bytes_ += buffer.bytes();
      return Loan(this, std::move(buffer));
    }
    const uint64_t left = max_bytes_ - lent_bytes_;
    if (RoundUp(bytes, kGrain) > left) {
      return absl::ResourceExhaustedError(
          absl::StrCat(what_, ": needs ", bytes, " bytes, but only ", left,
                       " of ", max_bytes_, " are free"));
    }
    // Round up, so that a request that grows a little from save to save still
    // fits in a kept buffer.
    const uint64_t whole =
        std::min(RoundUp(bytes, std::max(kGrain, std::bit_floor(bytes) / 8)),
                 left / kGrain * kGrain);
    // All kept buffers are too small. Free the largest, so that there are never
    // more buffers than were lent at once, and free all if they would exceed
    // the limit.
    if (!kept_.empty()) {
      kept_bytes_ -= kept_.back().bytes();
      kept_.pop_back();
    }
    if (whole > left - kept_bytes_) {
      kept_.clear();
      kept_bytes_ = 0;
    }
    CKPTDB_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(whole, what_));
    lent_bytes_ += whole;
    return Loan(this, std::move(buffer));
  }

 private:
  static constexpr uint64_t kGrain = uint64_t{1} << 12;

  static uint64_t RoundUp(uint64_t bytes, uint64_t step) {
    return (bytes + step - 1) / step * step;
  }

  // Keeps buffers sorted, so that Take finds the smallest that fits.
  void Return(Buffer buffer) {
    const MutexLock lock(&mutex_);
    lent_bytes_ -= buffer.bytes();
    kept_bytes_ += buffer.bytes();
    const auto place = std::find_if(
        kept_.begin(), kept_.end(),
        [&](const Buffer& other) { return other.bytes() >= buffer.bytes(); });
    kept_.insert(place, std::move(buffer));
  }

  const char* const what_;
  const uint64_t max_bytes_;
  mutable Mutex mutex_;
  uint64_t lent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Buffer> kept_ ABSL_GUARDED_BY(mutex_);  // sorted by size
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_RUNTIME_BUFFER_POOL_H_
