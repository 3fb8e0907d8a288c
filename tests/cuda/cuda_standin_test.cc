// SPDX-License-Identifier: Apache-2.0
// Tests the behavior of the CUDA runtime's stand-in that the tests of cuda/
// need.
#include <cuda_runtime_api.h>

#include <cstring>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda/expect_cuda.h"
#include "tests/support/cuda_standin.h"

namespace ckptdb::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Two streams, an event, and memory on both sides.
class CudaStandinTest : public ::testing::Test {
 protected:
  void Start(Order order) {
    CudaStandin::Reset({.order = order});
    ASSERT_CUDA(cudaStreamCreate(&a_));
    ASSERT_CUDA(cudaStreamCreate(&b_));
    ASSERT_CUDA(cudaEventCreateWithFlags(&event_, 0));
    ASSERT_CUDA(cudaMalloc(&device_, 4));
    ASSERT_CUDA(cudaHostAlloc(&host_, 4, 0));
  }
  void Write(cudaStream_t stream, const std::string& text) {
    ASSERT_CUDA(CudaStandin::Queue(stream, "write", [this, text] {
      std::memcpy(device_, text.data(), 4);
    }));
  }
  void Copy(cudaStream_t stream) {
    ASSERT_CUDA(
        cudaMemcpyAsync(host_, device_, 4, cudaMemcpyDeviceToHost, stream));
  }
  std::string Host() const { return {static_cast<char*>(host_), 4}; }

  cudaStream_t a_ = nullptr;
  cudaStream_t b_ = nullptr;
  cudaEvent_t event_ = nullptr;
  void* device_ = nullptr;
  void* host_ = nullptr;
};

TEST_F(CudaStandinTest, LazyDeviceRunsOnlyAwaitedWork) {
  Start(Order::kLazy);
  Write(a_, "trai");
  Copy(b_);
  ASSERT_CUDA(cudaStreamSynchronize(b_));
  EXPECT_NE(Host(), "trai");  // no event orders b after a
  ASSERT_CUDA(cudaEventRecord(event_, a_));
  ASSERT_CUDA(cudaStreamWaitEvent(b_, event_, 0));
  Copy(b_);
  EXPECT_NE(Host(), "trai");  // nobody has waited
  ASSERT_CUDA(cudaStreamSynchronize(b_));
  EXPECT_EQ(Host(), "trai");
  EXPECT_THAT(CudaStandin::violations(), IsEmpty());
}

TEST_F(CudaStandinTest, EventCoversTheWorkBeforeItsRecord) {
  Start(Order::kLazy);
  Write(a_, "old_");
  Copy(a_);
  ASSERT_CUDA(cudaEventRecord(event_, a_));
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
  Write(a_, "new_");
  Copy(a_);
  ASSERT_CUDA(cudaEventSynchronize(event_));
  EXPECT_EQ(Host(), "old_");
  EXPECT_CUDA(cudaEventQuery(event_));
  ASSERT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(Host(), "new_");
}

TEST_F(CudaStandinTest, EagerDeviceRunsWorkAtOnce) {
  Start(Order::kEager);
  Write(a_, "soon");
  Copy(a_);
  EXPECT_EQ(Host(), "soon");
}

TEST_F(CudaStandinTest, FailsTheNumberedCall) {
  Start(Order::kLazy);
  CudaStandin::FailCall(CudaStandin::calls() + 2, cudaErrorLaunchFailure);
  Write(a_, "once");
  EXPECT_EQ(cudaEventRecord(event_, a_), cudaErrorLaunchFailure);
  EXPECT_CUDA(cudaEventRecord(event_, a_));
  CudaStandin::FailCall(1, cudaErrorLaunchFailure, /*forever=*/true);
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaErrorLaunchFailure);
  EXPECT_CUDA(cudaStreamDestroy(a_));
}

TEST_F(CudaStandinTest, FlipsABitOfACopy) {
  Start(Order::kEager);
  Write(a_, "good");
  CudaStandin::FlipCopy(2, 1);
  Copy(a_);
  EXPECT_EQ(Host(), "good");
  Copy(a_);
  EXPECT_NE(Host(), "good");
}

TEST_F(CudaStandinTest, ReportsUndefinedBehavior) {
  Start(Order::kLazy);
  char stack[4] = {};
  EXPECT_NE(cudaMemcpyAsync(stack, device_, 4, cudaMemcpyDeviceToHost, a_),
            cudaSuccess);
  EXPECT_NE(cudaMemcpyAsync(host_, device_, 5, cudaMemcpyDeviceToHost, a_),
            cudaSuccess);
  Copy(a_);
  ASSERT_CUDA(cudaFreeHost(host_));
  ASSERT_CUDA(cudaStreamDestroy(b_));
  EXPECT_NE(cudaStreamSynchronize(b_), cudaSuccess);
  EXPECT_THAT(
      CudaStandin::violations(),
      ElementsAre("a copy of unpinned host memory",
                  "a copy beyond the memory of the device",
                  "cudaFreeHost of memory that \"copy to host\" is queued for",
                  "a nonexistent stream is used"));
}

TEST_F(CudaStandinTest, KeepsAnErrorUntilItIsRead) {
  Start(Order::kLazy);
  CudaStandin::FailCall(CudaStandin::calls() + 1, cudaErrorLaunchFailure);
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaErrorLaunchFailure);
  EXPECT_CUDA(CudaStandin::Queue(a_, "kernel", [] {}));
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  EXPECT_CUDA(cudaGetLastError());
}

TEST_F(CudaStandinTest, DeviceCountIsUnchangedWithoutADriver) {
  CudaStandin::Reset({.devices = 0});
  int count = 7;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  EXPECT_EQ(count, 7);
}

}  // namespace
}  // namespace ckptdb::testing
