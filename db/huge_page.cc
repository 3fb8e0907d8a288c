#include "ckptdb/db/huge_page.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace ckptdb::internal {
namespace {

// More than is asked for, without what is not aligned.
char* Map() {
  constexpr size_t kMapped = 2 * kHugePageBytes;
  void* const mapped = mmap(nullptr, kMapped, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(mapped);
  const size_t over = reinterpret_cast<uintptr_t>(mapped) % kHugePageBytes;
  const size_t before = over == 0 ? 0 : kHugePageBytes - over;
  char* const page = begin + before;
  if (before > 0) munmap(begin, before);
  munmap(page + kHugePageBytes, kMapped - kHugePageBytes - before);
  // Without huge pages it is memory all the same.
  madvise(page, kHugePageBytes, MADV_HUGEPAGE);
  return page;
}

class Pool {
 public:
  char* Take() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        char* const page = free_.back();
        free_.pop_back();
        return page;
      }
    }
    return Map();
  }
  void Give(char* page) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (free_.size() < kKept) {
        free_.push_back(page);
        return;
      }
    }
    munmap(page, kHugePageBytes);
  }

 private:
  static constexpr size_t kKept = 24;
  std::mutex mutex_;
  std::vector<char*> free_;
};

// Never destroyed: pages may come back from other objects that are not.
Pool& SharedPool() {
  static Pool* const kPool = new Pool();
  return *kPool;
}

}  // namespace

void* AllocateLarge(uint64_t bytes) {
  if (bytes < kHugePageBytes) return std::malloc(std::max<uint64_t>(bytes, 1));
  const uint64_t whole =
      (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  void* const memory = std::aligned_alloc(kHugePageBytes, whole);
  if (memory != nullptr) madvise(memory, whole, MADV_HUGEPAGE);
  return memory;
}

HugePage HugePage::Take() {
  HugePage page;
  page.data_ = SharedPool().Take();
  return page;
}

HugePage::~HugePage() {
  if (data_ != nullptr) SharedPool().Give(data_);
}

}  // namespace ckptdb::internal
