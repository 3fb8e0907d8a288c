// SPDX-License-Identifier: Apache-2.0
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda/gpu_machine.h"
#include "tests/support/cuda_standin.h"
#include "tests/support/seed.h"
#include "tests/support/simt.h"

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
