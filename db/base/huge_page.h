// SPDX-License-Identifier: Apache-2.0
// Memory in huge pages, for disk reads and writes; internal to db/.
//
// A direct read or write is split wherever the pages of its memory are not
// physically contiguous, and ordinary 4 KiB pages never are: requests of a
// megabyte or more then take twice as long, and more threads do not help.
#ifndef CKPTDB_DB_BASE_HUGE_PAGE_H_
#define CKPTDB_DB_BASE_HUGE_PAGE_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

namespace ckptdb::internal {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;
// The block size of a disk: direct requests consist of whole blocks.
inline constexpr size_t kDiskBlockBytes = 4096;
// A seventh of a huge page, for data too small for a whole one: 292 KiB, the
// longest page of a table with the disk blocks that it spans.
inline constexpr size_t kHugePartBytes =
    kHugePageBytes / 7 / kDiskBlockBytes * kDiskBlockBytes;

// Maps `bytes` of memory, aligned to huge pages; free it with munmap. Uses
// ordinary pages if the system has no huge ones. Returns null if there is no
// memory.
char* MapHugePages(size_t bytes);

// A huge page or a part of one, aligned to blocks, uninitialized; uses ordinary
// pages if the system has no huge ones. Pages come from a pool of the process.
// The pool keeps up to 24 unused huge pages, 48 MiB, and up to 40 more that the
// system may reclaim when it is short of memory (MADV_FREE). Thread-safe except
// for a single object.
class HugePage {
 public:
  // Holds no memory, like a moved-from object.
  HugePage() = default;
  // Returns a page of at least `bytes`, which is at most kHugePageBytes; empty
  // if the system is out of memory.
  static HugePage Take(size_t bytes = kHugePageBytes);
  ~HugePage();
  HugePage(HugePage&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  HugePage& operator=(HugePage&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  char* data() const { return data_; }  // null: no memory
  size_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  size_t bytes_ = 0;
};

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
// `bytes` rounded up to whole disk blocks, and aligned to them.
using AlignedMemory = std::unique_ptr<char[], FreeMemory>;
inline AlignedMemory AllocateAligned(size_t bytes) {
  const size_t whole =
      (bytes + kDiskBlockBytes - 1) / kDiskBlockBytes * kDiskBlockBytes;
  return AlignedMemory(
      static_cast<char*>(std::aligned_alloc(kDiskBlockBytes, whole)));
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_HUGE_PAGE_H_
