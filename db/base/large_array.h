// SPDX-License-Identifier: Apache-2.0
// Large arrays in huge pages, whose memory is reused; internal to the library.
//
// First touching memory is expensive: the system clears it, and under a
// hypervisor must obtain it first. So the memory of an array is kept for the
// next one, because the next save needs one as large. The system may reclaim it
// when it is short of memory (MADV_FREE); until then it counts as resident. The
// memory in use and kept together never exceeds the most that was in use at
// once.
#ifndef CKPTDB_DB_BASE_LARGE_ARRAY_H_
#define CKPTDB_DB_BASE_LARGE_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>

namespace ckptdb::internal {

struct LargeMemory {
  void* data = nullptr;  // null: out of memory
  size_t bytes = 0;      // at least the requested size
};

// Returns uninitialized memory. Thread-safe.
LargeMemory TakeLarge(uint64_t bytes);
void GiveLarge(const LargeMemory& memory);

// The memory of large arrays in this process.
struct LargeUsage {
  uint64_t used_bytes = 0;
  uint64_t kept_bytes = 0;
  uint64_t most_used_bytes = 0;
};
LargeUsage GetLargeUsage();

struct FreeLarge {
  size_t bytes = 0;
  void operator()(void* data) const { GiveLarge({data, bytes}); }
};
template <typename T>
using LargeArray = std::unique_ptr<T[], FreeLarge>;

// Allocates `count` uninitialized values. Returns null if there is no memory.
template <typename T>
LargeArray<T> AllocateArray(uint64_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (count > std::numeric_limits<ptrdiff_t>::max() / sizeof(T)) return {};
  const LargeMemory memory = TakeLarge(count * sizeof(T));
  return LargeArray<T>(static_cast<T*>(memory.data), FreeLarge{memory.bytes});
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_LARGE_ARRAY_H_
