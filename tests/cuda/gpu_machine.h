// The GPU of a test of kernels: a real one, or with CKPTDB_SIMT the kernels on
// the host (tests/support/simt.h). And arrays in its memory.
//
//   void SetUp() override {
//     if (!GpuIsThere()) GTEST_SKIP() << "there is no GPU";
//   }
//   void TearDown() override { CheckGpu(); }
#ifndef CKPTDB_TESTS_CUDA_GPU_MACHINE_H_
#define CKPTDB_TESTS_CUDA_GPU_MACHINE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#ifdef CKPTDB_SIMT
#include "ckptdb/tests/support/cuda_standin.h"
#include "ckptdb/tests/support/seed.h"
#include "ckptdb/tests/support/simt.h"
#endif

namespace ckptdb::testing {

#ifdef CKPTDB_SIMT

// Threads are drawn one after the other, so there are fewer rows.
inline constexpr bool kGpuIsEmulated = true;

// Begins anew.
inline bool GpuIsThere() {
  CudaStandin::Reset(
      {.order = CudaStandin::Order::kRandom, .seed = TestSeed()});
  Simt::Seed(TestSeed());
  return true;
}

// Nothing was done that a GPU would punish, and nothing is left.
inline void CheckGpu() {
  EXPECT_THAT(CudaStandin::violations(), ::testing::IsEmpty());
  EXPECT_EQ(CudaStandin::allocations(), 0);
}

#else

inline constexpr bool kGpuIsEmulated = false;

// With CKPTDB_REQUIRE_GPU in the environment it is a failure to have none.
inline bool GpuIsThere() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) return true;
  EXPECT_EQ(std::getenv("CKPTDB_REQUIRE_GPU"), nullptr) << "there is no GPU";
  return false;
}

inline void CheckGpu() {}

#endif

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
    EXPECT_EQ(cudaMemcpy(memory_, values.data(), values.size() * sizeof(T),
                         cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  std::vector<T> Read() const {
    std::vector<T> values(count_);
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
