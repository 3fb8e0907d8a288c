// SPDX-License-Identifier: Apache-2.0
// Streams, events and memory of cuda/runtime, and the runtime's errors.
#include <cuda_runtime_api.h>

#include <utility>

#include "cuda/runtime/buffer.h"
#include "cuda/runtime/buffer_pool.h"
#include "cuda/runtime/status.h"
#include "cuda/runtime/stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda/expect_cuda.h"
#include "tests/support/cuda_standin.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::internal {
namespace {

using testing::CudaStandin;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;

TEST(CudaRuntime, ErrorsIncludeCallNameAndNumber) {
  EXPECT_OK(CudaStatus(cudaSuccess, "cudaMalloc"));
  const absl::Status full =
      CudaStatus(cudaErrorMemoryAllocation, "cudaMalloc of 7 bytes for x");
  EXPECT_THAT(full, StatusIs(absl::StatusCode::kResourceExhausted,
                             HasSubstr("cudaMalloc of 7 bytes for x: "
                                       "cudaErrorMemoryAllocation (2)")));
  EXPECT_EQ(CudaStatus(cudaErrorInsufficientDriver, "x").code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(CudaStatus(cudaErrorInvalidValue, "x").code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CudaStatus(cudaErrorLaunchFailure, "x").code(),
            absl::StatusCode::kInternal);
}

TEST(CudaRuntime, ObjectsAreDestroyedOnceAfterMoves) {
  CudaStandin::Reset({});
  {
    ASSERT_OK_AND_ASSIGN(CudaStream stream, CudaStream::Create());
    ASSERT_OK_AND_ASSIGN(CudaEvent event, CudaEvent::Create());
    ASSERT_OK_AND_ASSIGN(DeviceBuffer device,
                         DeviceBuffer::Allocate(100, "a test"));
    ASSERT_OK_AND_ASSIGN(PinnedBuffer pinned,
                         PinnedBuffer::Allocate(100, "a test"));
    const CudaStream moved = std::move(stream);
    const DeviceBuffer kept = std::move(device);
    EXPECT_EQ(CudaStandin::allocations(), 4);
    EXPECT_EQ(CudaStandin::device_bytes_used(), 100);
    ASSERT_OK(event.Record(moved.get()));
    ASSERT_OK(event.Synchronize());
    ASSERT_OK(CopyToHost(pinned.get(), kept.get(), 100, moved.get()));
    ASSERT_OK(moved.Synchronize());
  }
  EXPECT_EQ(CudaStandin::allocations(), 0);
  EXPECT_EQ(CudaStandin::device_bytes_used(), 0);
  EXPECT_THAT(CudaStandin::violations(), IsEmpty());
}

// Lists of changed rows grow a little from save to save.
TEST(CudaRuntime, PoolReusesBuffersOfGrowingSizes) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  CudaStandin::Reset({});
  {
    BufferPool<DeviceBuffer> pool("a test", 64 * kMiB);
    for (uint64_t bytes = kMiB; bytes <= 4 * kMiB; bytes += 5000) {
      ASSERT_OK_AND_ASSIGN(const auto loan, pool.Take(bytes));
      EXPECT_GE(loan.bytes(), bytes);
      EXPECT_EQ(CudaStandin::allocations(), 1);
    }
    // Each allocation frees the previous buffer: 8 sizes per doubling.
    EXPECT_LE(CudaStandin::calls(), 4 * 17);
    // The whole pool can be lent if the size is not rounded up.
    ASSERT_OK_AND_ASSIGN(const auto all, pool.Take(60 * kMiB));
    EXPECT_EQ(all.bytes(), 60 * kMiB);
    ASSERT_OK_AND_ASSIGN(const auto rest, pool.Take(4 * kMiB - 100));
    EXPECT_THAT(
        pool.Take(1).status(),
        StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("a test")));
  }
  EXPECT_EQ(CudaStandin::allocations(), 0);
}

TEST(CudaRuntime, FailedAllocationNamesTheBuffer) {
  CudaStandin::Reset({.device_bytes = 1000});
  const auto buffer = DeviceBuffer::Allocate(1001, "staging");
  EXPECT_THAT(buffer, StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("1001 bytes for staging")));
}

TEST(CudaRuntime, DetectsPinnedMemory) {
  CudaStandin::Reset({});
  char stack[8] = {};
  EXPECT_FALSE(IsPinned(stack, sizeof(stack)));
  ASSERT_CUDA(cudaHostRegister(stack, 4, cudaHostRegisterPortable));
  EXPECT_TRUE(IsPinned(stack, 4));
  EXPECT_FALSE(IsPinned(stack, 8));
  ASSERT_CUDA(cudaHostUnregister(stack));
}

}  // namespace
}  // namespace ckptdb::internal
