// Buffers that are used again; internal to cuda/.
//
// To allocate memory of a device, or host memory for its copies, makes the
// device wait for all that is queued. So the first saves allocate, and later
// ones find what those have given back. A buffer has up to an eighth more than
// was asked for.
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
#include "ckptdb/db/base/mutex.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {

// A pool of DeviceBuffer or PinnedBuffer. Thread-safe. It outlives its loans.
template <typename Buffer>
class BufferPool {
 public:
  // A buffer that goes back to its pool. Nothing that is queued refers to it
  // then.
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

  // `what` names the buffers in errors. All of them together have at most
  // `max_bytes`.
  BufferPool(const char* what, uint64_t max_bytes)
      : what_(what), max_bytes_(max_bytes) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  uint64_t max_bytes() const { return max_bytes_; }
  // Returns how many bytes could be lent now, in one buffer.
  uint64_t free_bytes() const {
    const MutexLock lock(&mutex_);
    return max_bytes_ - lent_bytes_;
  }

  // Returns a buffer of at least so many bytes, not set. Returns
  // ResourceExhausted if the pool would have more than max_bytes, or the device
  // has no such memory. Called on the device of the pool.
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
          absl::StrCat(what_, ": ", bytes, " bytes are needed, and ", left,
                       " of at most ", max_bytes_, " are left"));
    }
    // What grows a little from save to save still finds room in what is kept.
    const uint64_t whole =
        std::min(RoundUp(bytes, std::max(kGrain, std::bit_floor(bytes) / 8)),
                 left / kGrain * kGrain);
    // What is kept is too small. The largest one makes way, so that there are
    // never more buffers than were lent at once, and all where they are in the
    // way.
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

  // The smallest is found first.
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
  std::vector<Buffer> kept_ ABSL_GUARDED_BY(mutex_);  // by size
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_RUNTIME_BUFFER_POOL_H_
