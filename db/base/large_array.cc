// SPDX-License-Identifier: Apache-2.0
#include "db/base/large_array.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "db/base/huge_page.h"
#include "db/base/mutex.h"

namespace ckptdb::internal {
namespace {

// Rounds up to huge pages, and by up to an eighth, so that an array that grows
// slightly from save to save still fits into kept memory. Untouched pages take
// no memory.
size_t RoundUp(uint64_t bytes) {
  const uint64_t step =
      std::max<uint64_t>(kHugePageBytes, std::bit_floor(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

class KeptArrays {
 public:
  // Returns kept or newly mapped memory. The most that was ever in use at once
  // bounds the kept memory.
  LargeMemory Take(size_t bytes) {
    const MutexLock lock(&mutex_);
    LargeMemory memory = TakeKept(bytes);
    if (memory.data == nullptr) memory = {MapHugePages(bytes), bytes};
    if (memory.data == nullptr) return {};
    usage_.used_bytes += memory.bytes;
    usage_.most_used_bytes =
        std::max(usage_.most_used_bytes, usage_.used_bytes);
    Trim();
    return memory;
  }

  void Give(const LargeMemory& memory) {
    const MutexLock lock(&mutex_);
    usage_.used_bytes -= memory.bytes;
    // Memory that the system cannot reclaim is not kept.
    if (madvise(memory.data, memory.bytes, MADV_FREE) != 0) {
      munmap(memory.data, memory.bytes);
      return;
    }
    kept_.push_back(memory);
    usage_.kept_bytes += memory.bytes;
    Trim();
  }

  LargeUsage usage() {
    const MutexLock lock(&mutex_);
    return usage_;
  }

 private:
  // Returns the smallest kept array that is large enough, but less than twice
  // as large.
  LargeMemory TakeKept(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto best = kept_.end();
    for (auto it = kept_.begin(); it != kept_.end(); ++it) {
      if (it->bytes < bytes || it->bytes / 2 >= bytes) continue;
      if (best == kept_.end() || it->bytes < best->bytes) best = it;
    }
    if (best == kept_.end()) return {};
    const LargeMemory memory = *best;
    kept_.erase(best);
    usage_.kept_bytes -= memory.bytes;
    return memory;
  }

  // Frees kept arrays, oldest first.
  void Trim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto it = kept_.begin();
    // Terminates, because used_bytes alone never exceeds most_used_bytes.
    while (usage_.used_bytes + usage_.kept_bytes > usage_.most_used_bytes) {
      munmap(it->data, it->bytes);
      usage_.kept_bytes -= it->bytes;
      ++it;
    }
    kept_.erase(kept_.begin(), it);
  }

  Mutex mutex_;
  std::vector<LargeMemory> kept_ ABSL_GUARDED_BY(mutex_);
  LargeUsage usage_ ABSL_GUARDED_BY(mutex_);
};

// Never destroyed, because other immortal objects may return arrays.
KeptArrays& Kept() {
  static KeptArrays* const kKept = new KeptArrays();
  return *kKept;
}

}  // namespace

LargeMemory TakeLarge(uint64_t bytes) {
  // The C library caches small memory itself.
  if (bytes < kHugePageBytes) {
    const auto some = static_cast<size_t>(std::max<uint64_t>(bytes, 1));
    return {std::malloc(some), some};
  }
  return Kept().Take(RoundUp(bytes));
}

void GiveLarge(const LargeMemory& memory) {
  if (memory.bytes < kHugePageBytes) {
    std::free(memory.data);
  } else {
    Kept().Give(memory);
  }
}

LargeUsage GetLargeUsage() { return Kept().usage(); }

}  // namespace ckptdb::internal
