// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <cstdlib>

#include "gtest/gtest.h"
#include "tests/cuda/gpu_machine.h"

namespace ckptdb::testing {

bool GpuIsEmulated() { return false; }

bool GpuIsThere() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) return true;
  EXPECT_EQ(std::getenv("CKPTDB_REQUIRE_GPU"), nullptr) << "there is no GPU";
  return false;
}

// compute-sanitizer checks this.
void CheckGpu() {}

}  // namespace ckptdb::testing
