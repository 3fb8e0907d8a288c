#include "ckptdb/tests/support/no_memory.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace ckptdb::testing {
namespace {

constexpr int64_t kNever = -1;
thread_local int64_t allocations_left = kNever;

}  // namespace

NoMemory::NoMemory(int64_t after) { allocations_left = after; }
NoMemory::~NoMemory() { allocations_left = kNever; }
bool NoMemory::HasThrown() const { return allocations_left == kNever; }

// Returns whether this allocation is the one that fails.
bool TakeFailure() {
  if (allocations_left == kNever) return false;
  return allocations_left-- == 0;
}

}  // namespace ckptdb::testing

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// Found before those of the standard library, by all libraries of the program.
// Its other forms, for arrays and without exceptions, call these.
void* operator new(size_t bytes) {
  if (ckptdb::testing::TakeFailure()) throw std::bad_alloc();
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}

#endif
