// SPDX-License-Identifier: Apache-2.0
#include "tests/support/allocated_bytes.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

namespace ckptdb::testing {

uint64_t AllocatedBytes() { return 0; }

}  // namespace ckptdb::testing

#else

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace ckptdb::testing {
namespace {

std::atomic<uint64_t> allocated_bytes = 0;

}  // namespace

uint64_t AllocatedBytes() { return allocated_bytes; }

}  // namespace ckptdb::testing

// Replaces the standard library's operator new in all libraries of the program.
// Its other forms, for arrays and without exceptions, call this one.
void* operator new(size_t bytes) {
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  ckptdb::testing::allocated_bytes.fetch_add(bytes, std::memory_order_relaxed);
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}

#endif
