// Memory in huge pages, for the disk to read into and write from; internal to
// db/.
//
// A direct read or write is cut into pieces where the pages of its memory do
// not lie side by side, which ordinary pages of 4 KiB nowhere do: requests of
// a megabyte or more then take twice as long, and more threads do not help.
#ifndef CKPTDB_DB_BASE_HUGE_PAGE_H_
#define CKPTDB_DB_BASE_HUGE_PAGE_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

namespace ckptdb::internal {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;
// The block size of a disk: a direct request is of whole blocks.
inline constexpr size_t kDiskBlockBytes = 4096;
// A seventh of a huge page, for what is too small for one: 292 KiB, the longest
// page of a table with the rest of the blocks that it lies in.
inline constexpr size_t kHugePartBytes =
    kHugePageBytes / 7 / kDiskBlockBytes * kDiskBlockBytes;

// Maps memory of so many huge pages, aligned to them, which munmap gives back.
// Takes ordinary pages if the system has no huge ones. Returns null if there is
// none.
char* MapHugePages(size_t bytes);

// A huge page or a part of one, aligned to blocks, with whatever is in it; in
// ordinary pages where the system has no huge ones. It comes from a pool of the
// process. When none is in use that keeps 24 huge pages, 48 MiB, and up to 40
// more that the system may take back whenever it is short of memory
// (MADV_FREE). Thread-safe but for the single object.
class HugePage {
 public:
  // Holds no memory, as one does that was moved from.
  HugePage() = default;
  // Takes a page of at least `bytes`, which is at most kHugePageBytes. It is
  // empty if the system has no more memory.
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
// `bytes` rounded up to whole blocks of a disk, and aligned to them.
using AlignedMemory = std::unique_ptr<char[], FreeMemory>;
inline AlignedMemory AllocateAligned(size_t bytes) {
  const size_t whole =
      (bytes + kDiskBlockBytes - 1) / kDiskBlockBytes * kDiskBlockBytes;
  return AlignedMemory(
      static_cast<char*>(std::aligned_alloc(kDiskBlockBytes, whole)));
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_HUGE_PAGE_H_
