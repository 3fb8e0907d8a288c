#include "ckptdb/tests/cuda/gpu_machine.h"
#include "ckptdb/tests/support/cuda_standin.h"
#include "ckptdb/tests/support/seed.h"
#include "ckptdb/tests/support/simt.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckptdb::testing {

bool GpuIsEmulated() { return true; }

bool GpuIsThere() {
  CudaStandin::Reset(
      {.order = CudaStandin::Order::kRandom, .seed = TestSeed()});
  Simt::Seed(TestSeed());
  return true;
}

void CheckGpu() {
  EXPECT_THAT(CudaStandin::violations(), ::testing::IsEmpty());
  EXPECT_EQ(CudaStandin::allocations(), 0);
}

}  // namespace ckptdb::testing
