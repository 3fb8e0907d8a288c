// SPDX-License-Identifier: Apache-2.0
// Runs CUDA kernels on the host. Include it before a kernel source that the
// host compiler compiles. CUDA's keywords become macros and functions, and
// cudaLaunchKernel queues the kernel on the runtime's stand-in. <<<>>> launches
// do not compile.
//
// Each thread of a block is a fiber, which runs until it waits for others: at
// __syncthreads(), or at an exchange between the threads of a warp. The next
// fiber is chosen at random, and one warp of many in a block only continues
// when no other can, so a missing wait shows after a few blocks. Blocks run one
// after another, in random order. Shared memory has arbitrary contents when a
// block begins. Reported as violations of the stand-in are errors that hang a
// real block or are undefined: a wait that some thread never reaches, threads
// that wait at different places, and an exchange with a thread that does not
// take part.
//
// Threads do not run concurrently: two threads that write one word between the
// same two waits are only detected if their order matters.
#ifndef CKPTDB_TESTS_SUPPORT_SIMT_H_
#define CKPTDB_TESTS_SUPPORT_SIMT_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

namespace ckptdb::testing {

class Simt {
 public:
  // Sets the seed of random choices from now on.
  static void Seed(uint64_t seed);
  // Returns how many blocks have run since the process began.
  static uint64_t blocks();

  // Queues a kernel. `words` are those of its arguments: device memory that one
  // of them points into must not be freed before the kernel has run.
  static cudaError_t Queue(dim3 grid, dim3 block, cudaStream_t stream,
                           std::function<void()> kernel,
                           const std::vector<const void*>& words);

  // Waits for all threads of the block, at line `line`.
  static void SyncThreads(int line);
  // Returns the value of thread `from` of the warp, when all threads of `mask`
  // have reached the same exchange at line `line`.
  static uint64_t Exchange(uint32_t mask, uint64_t mine, uint32_t from,
                           int line);
};

inline constexpr uint32_t kSimtWarp = 32;

// Appends the aligned words of an argument of a kernel.
template <typename T>
void AppendWords(const T& argument, std::vector<const void*>* words) {
  for (size_t at = 0; at + sizeof(void*) <= sizeof(T); at += sizeof(void*)) {
    const void* word = nullptr;
    std::memcpy(&word, reinterpret_cast<const char*>(&argument) + at,
                sizeof(word));
    words->push_back(word);
  }
}

template <typename T>
T ExchangeInWarp(uint32_t mask, T value, uint32_t from, int line) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  bits = Simt::Exchange(mask, bits, from, line);
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace ckptdb::testing

// Copies the arguments, like a launch, so the caller may destroy them.
template <typename... Parameters>
cudaError_t cudaLaunchKernel(  // NOLINT(readability-identifier-naming)
    void (*kernel)(Parameters...), dim3 grid, dim3 block, void** arguments,
    size_t /*shared*/, cudaStream_t stream) {
  return [&]<size_t... kPlaces>(std::index_sequence<kPlaces...>) {
    std::vector<const void*> words;
    (ckptdb::testing::AppendWords(*static_cast<Parameters*>(arguments[kPlaces]),
                                  &words),
     ...);
    return ckptdb::testing::Simt::Queue(
        grid, block, stream,
        [kernel, values = std::tuple<Parameters...>(*static_cast<Parameters*>(
                     arguments[kPlaces])...)] { std::apply(kernel, values); },
        words);
  }
  (std::index_sequence_for<Parameters...>());
}

// Loads a kernel: a call of the stand-in, which may fail.
template <typename... Parameters>
cudaError_t cudaFuncGetAttributes(  // NOLINT(readability-identifier-naming)
    cudaFuncAttributes* attributes, void (* /*kernel*/)(Parameters...)) {
  return cudaFuncGetAttributes(attributes, static_cast<const void*>(nullptr));
}

// The scheduler sets these before a thread continues.
inline uint3 threadIdx;  // NOLINT(readability-identifier-naming)
inline uint3 blockIdx;   // NOLINT(readability-identifier-naming)
inline dim3 blockDim;    // NOLINT(readability-identifier-naming)
inline dim3 gridDim;     // NOLINT(readability-identifier-naming)

template <typename T>
T atomicAdd(T* place, T value) {  // NOLINT(readability-identifier-naming)
  return std::exchange(*place, *place + value);
}

// CUDA's own names.
// NOLINTBEGIN(readability-identifier-naming)
#undef __shared__
#undef __launch_bounds__
#define __shared__ [[gnu::section("simt_shared")]] static
#define __launch_bounds__(...)
#define __syncthreads() ::ckptdb::testing::Simt::SyncThreads(__LINE__)
// Beyond the warp, a thread receives its own value.
#define __shfl_down_sync(mask, value, by)                         \
  ::ckptdb::testing::ExchangeInWarp(mask, value,                  \
                                    threadIdx.x % 32 + (by) < 32  \
                                        ? threadIdx.x % 32 + (by) \
                                        : threadIdx.x % 32,       \
                                    __LINE__)
#define __shfl_xor_sync(mask, value, bits)                                  \
  ::ckptdb::testing::ExchangeInWarp(mask, value, threadIdx.x % 32 ^ (bits), \
                                    __LINE__)
// NOLINTEND(readability-identifier-naming)

#endif  // CKPTDB_TESTS_SUPPORT_SIMT_H_
