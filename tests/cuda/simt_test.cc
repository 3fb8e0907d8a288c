// SPDX-License-Identifier: Apache-2.0
// The emulation of blocks and warps detects incorrect kernels: each kernel here
// works as intended on a device, or only sometimes.
#include "tests/support/simt.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda/gpu_machine.h"
#include "tests/support/cuda_standin.h"

namespace ckptdb::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kThreads = 128;

class SimtTest : public ::testing::Test {
 protected:
  void SetUp() override { GpuIsThere(); }

  // Returns the numbers that the threads of all blocks write.
  template <typename Kernel>
  std::vector<uint32_t> Run(Kernel kernel, uint32_t blocks) {
    std::vector<uint32_t> results(blocks * kThreads);
    uint32_t* to = results.data();
    void* arguments[] = {&to};
    EXPECT_CUDA(cudaLaunchKernel(kernel, dim3(blocks), dim3(kThreads),
                                 arguments, 0, nullptr));
    EXPECT_CUDA(cudaDeviceSynchronize());
    return results;
  }
  std::vector<std::string> violations() { return CudaStandin::violations(); }
};

uint32_t Number() { return blockIdx.x * blockDim.x + threadIdx.x; }

void GiveNumbers(uint32_t* to) { to[Number()] = Number() + gridDim.x; }

TEST_F(SimtTest, EachThreadOfEachBlockRunsOnce) {
  const uint64_t before = Simt::blocks();
  const std::vector<uint32_t> numbers = Run(GiveNumbers, 9);
  for (uint32_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], i + 9);
  EXPECT_EQ(Simt::blocks() - before, 9U);
  EXPECT_THAT(violations(), IsEmpty());
}

// The sum over all threads before this one, in the same steps as the kernels.
template <bool kWaits>
void SumBefore(uint32_t* to) {
  __shared__ uint32_t sums[2][kThreads];
  uint32_t now = 0;
  sums[now][threadIdx.x] = threadIdx.x;
  __syncthreads();
  for (uint32_t step = 1; step < kThreads; step *= 2) {
    sums[1 - now][threadIdx.x] =
        sums[now][threadIdx.x] +
        (threadIdx.x >= step ? sums[now][threadIdx.x - step] : 0);
    now = 1 - now;
    if (kWaits) __syncthreads();
  }
  to[Number()] = sums[now][threadIdx.x];
}

TEST_F(SimtTest, SharedMemoryBelongsToABlockAndWaitsOrderIt) {
  const std::vector<uint32_t> sums = Run(SumBefore<true>, 5);
  for (uint32_t i = 0; i < sums.size(); ++i) {
    const uint32_t t = i % kThreads;
    EXPECT_EQ(sums[i], t * (t + 1) / 2);
  }
  EXPECT_NE(Run(SumBefore<false>, 5), sums);
  EXPECT_THAT(violations(), IsEmpty());
}

// Sums that start from uninitialized shared memory, unless kClears.
template <bool kClears>
void CountThreads(uint32_t* to) {
  __shared__ uint32_t count;
  if (kClears && threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1U);
  __syncthreads();
  to[Number()] = count;
}

TEST_F(SimtTest, SharedMemoryStartsUninitialized) {
  const std::vector<uint32_t> all(16 * kThreads, kThreads);
  EXPECT_EQ(Run(CountThreads<true>, 16), all);
  EXPECT_NE(Run(CountThreads<false>, 16), all);
}

// One thread reads values that all threads overwrite in the next round.
template <bool kWaits>
void Rounds(uint32_t* to) {
  __shared__ uint32_t round_of[kThreads / 32];
  uint32_t wrong = 0;
  for (uint32_t round = 0; round < 8; ++round) {
    if (threadIdx.x % 32 == 0) round_of[threadIdx.x / 32] = round;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (const uint32_t other : round_of) wrong += other != round ? 1 : 0;
    }
    if (kWaits) __syncthreads();
  }
  to[Number()] = wrong;
}

TEST_F(SimtTest, DetectsAWriteBeforeTheRead) {
  const std::vector<uint32_t> none(16 * kThreads, 0);
  EXPECT_EQ(Run(Rounds<true>, 16), none);
  EXPECT_NE(Run(Rounds<false>, 16), none);
  EXPECT_THAT(violations(), IsEmpty());
}

void SumOfWarp(uint32_t* to) {
  uint32_t down = threadIdx.x;
  for (uint32_t half = 16; half > 0; half /= 2) {
    down += __shfl_down_sync(~0U, down, half);
  }
  uint32_t everywhere = threadIdx.x;
  for (uint32_t half = 16; half > 0; half /= 2) {
    everywhere += __shfl_xor_sync(~0U, everywhere, half);
  }
  to[Number()] = threadIdx.x % 32 == 0 ? down : everywhere;
}

TEST_F(SimtTest, ThreadsOfAWarpExchangeValues) {
  const std::vector<uint32_t> sums = Run(SumOfWarp, 3);
  for (uint32_t i = 0; i < sums.size(); ++i) {
    const uint32_t first = i % kThreads / 32 * 32;
    EXPECT_EQ(sums[i], 32 * first + 31 * 32 / 2) << i;
  }
  EXPECT_THAT(violations(), IsEmpty());
}

// The upper threads of a warp keep their own number.
void ShiftDown(uint32_t* to) {
  to[Number()] = __shfl_down_sync(~0U, threadIdx.x, 8U);
}

TEST_F(SimtTest, ExchangeBeyondTheWarpReturnsTheOwnValue) {
  const std::vector<uint32_t> shifted = Run(ShiftDown, 1);
  for (uint32_t t = 0; t < kThreads; ++t) {
    EXPECT_EQ(shifted[t], t % 32 < 24 ? t + 8 : t);
  }
}

void LeaveBeforeAnExchange(uint32_t* to) {
  if (threadIdx.x == 40) return;
  to[Number()] = __shfl_xor_sync(~0U, threadIdx.x, 1U);
}

TEST_F(SimtTest, ReportsAnExchangeWithAThreadThatExited) {
  Run(LeaveBeforeAnExchange, 1);
  EXPECT_THAT(violations(), Contains(HasSubstr("wait for others forever")));
}

void WaitInOneBranch(uint32_t* to) {
  if (threadIdx.x < 64) {
    __syncthreads();
  } else {
    to[Number()] = 1;
    __syncthreads();
  }
}

TEST_F(SimtTest, ReportsWaitsAtDifferentPlaces) {
  Run(WaitInOneBranch, 1);
  EXPECT_THAT(violations(), Contains(HasSubstr("at different places")));
}

void ExchangeInOneBranch(uint32_t* to) {
  if (threadIdx.x % 32 < 16) {
    to[Number()] = __shfl_xor_sync(~0U, threadIdx.x, 1U);
  } else {
    to[Number()] = __shfl_xor_sync(~0U, threadIdx.x, 2U);
  }
}

TEST_F(SimtTest, ReportsExchangesAtDifferentPlaces) {
  Run(ExchangeInOneBranch, 1);
  EXPECT_THAT(violations(), Contains(HasSubstr("at different places")));
}

void ExchangeOutsideOfTheMask(uint32_t* to) {
  to[Number()] = __shfl_xor_sync(0xffffU, threadIdx.x, 16U);
}

TEST_F(SimtTest, ReportsAnExchangeOutsideItsMask) {
  Run(ExchangeOutsideOfTheMask, 1);
  EXPECT_THAT(violations(), Contains(HasSubstr("outside the mask")));
}

}  // namespace
}  // namespace ckptdb::testing
