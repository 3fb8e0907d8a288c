// The GPU of a test of kernels: a real one (real_gpu.cc), or the kernels on the
// host (emulated_gpu.cc), by which a program is linked with. And arrays in its
// memory.
//
//   void SetUp() override {
//     if (!GpuIsThere()) GTEST_SKIP() << "there is no GPU";
//   }
//   void TearDown() override {
//     if (!IsSkipped()) CheckGpu();
//   }
#ifndef CKPTDB_TESTS_CUDA_GPU_MACHINE_H_
#define CKPTDB_TESTS_CUDA_GPU_MACHINE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckptdb::testing {

// Emulated threads run one after the other, so they are given fewer rows.
bool GpuIsEmulated();

// Begins anew. With CKPTDB_REQUIRE_GPU in the environment it is a failure to
// have none.
bool GpuIsThere();

// Fails the test if the emulation noted a violation or memory was not freed. On
// a real GPU it checks nothing: compute-sanitizer does.
void CheckGpu();

// An array in the memory of the device. All copies wait for all other work.
template <typename T>
class GpuArray {
 public:
  explicit GpuArray(uint64_t count) : GpuArray(std::vector<T>(count)) {}
  explicit GpuArray(const std::vector<T>& values) : count_(values.size()) {
    // An array of nothing has an address, too.
    EXPECT_EQ(cudaMalloc(&memory_, (count_ + 1) * sizeof(T)), cudaSuccess);
    Write(values);
  }
  GpuArray(const GpuArray&) = delete;
  GpuArray& operator=(const GpuArray&) = delete;
  ~GpuArray() { cudaFree(memory_); }

  T* data() const { return static_cast<T*>(memory_); }
  void Write(const std::vector<T>& values) {
    if (values.empty()) return;
    EXPECT_EQ(cudaMemcpy(memory_, values.data(), values.size() * sizeof(T),
                         cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  std::vector<T> Read() const {
    std::vector<T> values(count_);
    if (values.empty()) return values;
    EXPECT_EQ(cudaMemcpy(values.data(), memory_, count_ * sizeof(T),
                         cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }

 private:
  const uint64_t count_;
  void* memory_ = nullptr;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_CUDA_GPU_MACHINE_H_
