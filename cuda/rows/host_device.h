// SPDX-License-Identifier: Apache-2.0
// Definitions shared by kernels and by host tests of their arithmetic; internal
// to cuda/.
#ifndef CKPTDB_CUDA_ROWS_HOST_DEVICE_H_
#define CKPTDB_CUDA_ROWS_HOST_DEVICE_H_

#include <cstdint>

// Marks a function that runs on the device and on the host. Empty for a
// host-only compiler.
#if defined(__CUDACC__)
#define CKPTDB_HOST_DEVICE __host__ __device__
#else
#define CKPTDB_HOST_DEVICE
#endif

namespace ckptdb::internal {

// The atomic operations of the kernels. They do not order other memory
// accesses; the end of a kernel orders them before later reads.

CKPTDB_HOST_DEVICE inline uint32_t AtomicLoad(const uint32_t* word) {
#if defined(__CUDA_ARCH__)
  return *static_cast<const volatile uint32_t*>(word);
#else
  return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

CKPTDB_HOST_DEVICE inline void AtomicOr(uint32_t* word, uint32_t bits) {
#if defined(__CUDA_ARCH__)
  atomicOr(word, bits);
#else
  __atomic_fetch_or(word, bits, __ATOMIC_RELAXED);
#endif
}

CKPTDB_HOST_DEVICE inline void AtomicMax(uint32_t* word, uint32_t value) {
#if defined(__CUDA_ARCH__)
  atomicMax(word, value);
#else
  uint32_t now = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (now < value &&
         !__atomic_compare_exchange_n(word, &now, value, /*weak=*/true,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
#endif
}

CKPTDB_HOST_DEVICE inline uint32_t AtomicExchange(uint32_t* word,
                                                  uint32_t value) {
#if defined(__CUDA_ARCH__)
  return atomicExch(word, value);
#else
  return __atomic_exchange_n(word, value, __ATOMIC_RELAXED);
#endif
}

CKPTDB_HOST_DEVICE inline void AtomicAdd(uint64_t* sum, uint64_t value) {
#if defined(__CUDA_ARCH__)
  static_assert(sizeof(unsigned long long) == sizeof(uint64_t));  // NOLINT
  atomicAdd(reinterpret_cast<unsigned long long*>(sum), value);   // NOLINT
#else
  __atomic_fetch_add(sum, value, __ATOMIC_RELAXED);
#endif
}

CKPTDB_HOST_DEVICE inline void AtomicStore(uint64_t* place, uint64_t value) {
#if defined(__CUDA_ARCH__)
  *static_cast<volatile uint64_t*>(place) = value;
#else
  __atomic_store_n(place, value, __ATOMIC_RELAXED);
#endif
}

CKPTDB_HOST_DEVICE inline uint32_t CountBits(uint32_t word) {
#if defined(__CUDA_ARCH__)
  return static_cast<uint32_t>(__popc(word));
#else
  return static_cast<uint32_t>(__builtin_popcount(word));
#endif
}

// Returns the index of the lowest set bit of a nonzero word.
CKPTDB_HOST_DEVICE inline uint32_t LowestBit(uint32_t word) {
#if defined(__CUDA_ARCH__)
  return static_cast<uint32_t>(__ffs(static_cast<int>(word)) - 1);
#else
  return static_cast<uint32_t>(__builtin_ctz(word));
#endif
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_ROWS_HOST_DEVICE_H_
