// SPDX-License-Identifier: Apache-2.0
#include "db/base/huge_page.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "db/base/mutex.h"

namespace ckptdb::internal {
namespace {

size_t OffsetInPage(const char* memory) {
  return reinterpret_cast<uintptr_t>(memory) % kHugePageBytes;
}

class Pool {
 public:
  char* Take() {
    const MutexLock lock(&mutex_);
    return TakePage();
  }
  void Give(char* page) {
    const MutexLock lock(&mutex_);
    GivePage(page);
  }

  // Returns a seventh of a huge page, for small windows. Parts come from one
  // page until it is full.
  char* TakePart() {
    const MutexLock lock(&mutex_);
    if (with_room_.empty()) {
      char* const page = TakePage();
      if (page == nullptr) return nullptr;
      used_parts_[page] = 0;
      with_room_.insert(page);
    }
    char* const page = *with_room_.begin();
    uint32_t& used = used_parts_[page];
    const int part = std::countr_one(used);
    used |= 1U << part;
    if (used == kAllParts) with_room_.erase(page);
    return page + static_cast<size_t>(part) * kHugePartBytes;
  }
  void GivePart(char* memory) {
    const size_t offset = OffsetInPage(memory);
    char* const page = memory - offset;
    const MutexLock lock(&mutex_);
    uint32_t& used = used_parts_[page];
    used &= ~(1U << (offset / kHugePartBytes));
    with_room_.insert(page);
    if (used != 0) return;
    // A page without parts in use is a whole page again.
    with_room_.erase(page);
    used_parts_.erase(page);
    GivePage(page);
  }

 private:
  // 48 MiB stay resident, and 40 more pages are marked as free for the system
  // to reclaim.
  static constexpr size_t kKept = 24;
  static constexpr size_t kMostFree = 64;
  static constexpr uint32_t kAllParts =
      (1U << (kHugePageBytes / kHugePartBytes)) - 1;

  char* TakePage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (free_.empty()) return MapHugePages(kHugePageBytes);
    char* const page = free_.back();
    free_.pop_back();
    return page;
  }
  // Returns a page to the pool. The page returned last is taken first. Beyond
  // kKept, keeps only memory that the system can reclaim.
  void GivePage(char* page) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (free_.size() < kKept ||
        (free_.size() < kMostFree &&
         madvise(page, kHugePageBytes, MADV_FREE) == 0)) {
      free_.push_back(page);
    } else {
      munmap(page, kHugePageBytes);
    }
  }

  Mutex mutex_;
  std::vector<char*> free_ ABSL_GUARDED_BY(mutex_);
  // For each page that is divided into parts, one bit per part in use.
  std::map<char*, uint32_t> used_parts_ ABSL_GUARDED_BY(mutex_);
  std::set<char*> with_room_ ABSL_GUARDED_BY(mutex_);
};

// Never destroyed, because other immortal objects may return pages.
Pool& SharedPool() {
  static Pool* const kPool = new Pool();
  return *kPool;
}

}  // namespace

char* MapHugePages(size_t bytes) {
  // Maps more than requested, because the unaligned ends are unmapped.
  const size_t mapped_bytes = bytes + kHugePageBytes;
  void* const mapped = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(mapped);
  const size_t over = OffsetInPage(begin);
  const size_t before = over == 0 ? 0 : kHugePageBytes - over;
  char* const pages = begin + before;
  if (before > 0) munmap(begin, before);
  munmap(pages + bytes, mapped_bytes - bytes - before);
  // An error is ignored, because the memory is usable without huge pages.
  madvise(pages, bytes, MADV_HUGEPAGE);
  return pages;
}

HugePage HugePage::Take(size_t bytes) {
  HugePage page;
  if (bytes > kHugePageBytes) return page;
  const bool part = bytes <= kHugePartBytes;
  page.data_ = part ? SharedPool().TakePart() : SharedPool().Take();
  if (page.data_ != nullptr) {
    page.bytes_ = part ? kHugePartBytes : kHugePageBytes;
  }
  return page;
}

HugePage::~HugePage() {
  if (data_ == nullptr) return;
  if (bytes_ == kHugePageBytes) {
    SharedPool().Give(data_);
  } else {
    SharedPool().GivePart(data_);
  }
}

}  // namespace ckptdb::internal
