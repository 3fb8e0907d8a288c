// Arrays of many values, in huge pages, out of memory that is used again;
// internal to the library.
//
// Memory that a process touches for the first time is what costs: the system
// clears it, and under a hypervisor has to get it first. An array that has done
// its work is therefore kept for the next, as the next save needs one as large.
// The system is told that it may take the memory back whenever it is short of
// it (MADV_FREE); until then it counts as resident. Never more is in use and
// kept together than was once in use at a time.
#ifndef CKPTDB_DB_BASE_LARGE_ARRAY_H_
#define CKPTDB_DB_BASE_LARGE_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>

namespace ckptdb::internal {

struct LargeMemory {
  void* data = nullptr;  // null: there was none
  size_t bytes = 0;      // what it has, or more than was asked for
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

// Allocates `count` values that are not set. It is null if there is no memory.
template <typename T>
LargeArray<T> AllocateArray(uint64_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (count > std::numeric_limits<ptrdiff_t>::max() / sizeof(T)) return {};
  const LargeMemory memory = TakeLarge(count * sizeof(T));
  return LargeArray<T>(static_cast<T*>(memory.data), FreeLarge{memory.bytes});
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_LARGE_ARRAY_H_
