// SPDX-License-Identifier: Apache-2.0
// The GPU on which the kernel tests run, chosen at link time: a real one
// (real_gpu.cc) or an emulation on the host (emulated_gpu.cc). Also arrays in
// its memory.
#ifndef CKPTDB_TESTS_CUDA_GPU_MACHINE_H_
#define CKPTDB_TESTS_CUDA_GPU_MACHINE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda/expect_cuda.h"

namespace ckptdb::testing {

// Emulated threads run one after another, so those tests use fewer rows.
bool GpuIsEmulated();

// Resets the GPU and returns whether it exists. With CKPTDB_REQUIRE_GPU in the
// environment a missing GPU is a failure.
bool GpuIsThere();

// Fails the test if the emulation reported a violation or memory was not freed.
// Does nothing on a real GPU, where compute-sanitizer checks this.
void CheckGpu();

// A test with a stream, which is skipped without a GPU.
class GpuMachineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GpuIsThere()) GTEST_SKIP() << "there is no GPU";
    ASSERT_CUDA(cudaStreamCreate(&stream_));
  }
  void TearDown() override {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    if (!IsSkipped()) CheckGpu();
  }

  cudaStream_t stream_ = nullptr;
};

// An array in device memory. All copies wait for all other work.
template <typename T>
class GpuArray {
 public:
  explicit GpuArray(uint64_t count) : GpuArray(std::vector<T>(count)) {}
  explicit GpuArray(const std::vector<T>& values) : count_(values.size()) {
    // Even an empty array has an address.
    EXPECT_CUDA(cudaMalloc(&memory_, (count_ + 1) * sizeof(T)));
    Write(values);
  }
  GpuArray(const GpuArray&) = delete;
  GpuArray& operator=(const GpuArray&) = delete;
  ~GpuArray() { cudaFree(memory_); }

  T* data() const { return static_cast<T*>(memory_); }
  void Write(const std::vector<T>& values) {
    if (values.empty()) return;
    EXPECT_CUDA(cudaMemcpy(memory_, values.data(), values.size() * sizeof(T),
                           cudaMemcpyHostToDevice));
  }
  std::vector<T> Read() const {
    std::vector<T> values(count_);
    if (values.empty()) return values;
    EXPECT_CUDA(cudaMemcpy(values.data(), memory_, count_ * sizeof(T),
                           cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  const uint64_t count_;
  void* memory_ = nullptr;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_CUDA_GPU_MACHINE_H_
