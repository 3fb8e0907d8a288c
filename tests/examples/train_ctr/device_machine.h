// SPDX-License-Identifier: Apache-2.0
// The GPU of a test of train_ctr: a real one, or with TRAIN_CTR_STANDIN the
// stand-in for the runtime, which does things as late as it may, at once, or at
// random, and runs the kernels on the host (tests/support/simt.h).
#ifndef CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_DEVICE_MACHINE_H_
#define CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_DEVICE_MACHINE_H_

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#ifdef TRAIN_CTR_STANDIN
#include "tests/support/cuda_standin.h"
#include "tests/support/seed.h"
#include "tests/support/simt.h"
#endif

namespace train_ctr {

#ifdef TRAIN_CTR_STANDIN

inline std::vector<std::string> Machines() {
  return {"lazy", "eager", "random"};
}

// Begins anew. Returns why there is no GPU: here, never.
inline std::string StartMachine(const std::string& machine) {
  using Standin = ckptdb::testing::CudaStandin;
  Standin::Reset({.order = machine == "lazy"    ? Standin::Order::kLazy
                           : machine == "eager" ? Standin::Order::kEager
                                                : Standin::Order::kRandom,
                  .seed = ckptdb::testing::TestSeed(),
                  .device_bytes = uint64_t{1} << 30});
  ckptdb::testing::Simt::Seed(ckptdb::testing::TestSeed());
  return "";
}

// Nothing was done that a GPU would punish, and nothing is left.
inline void CheckMachine() {
  using Standin = ckptdb::testing::CudaStandin;
  EXPECT_THAT(Standin::violations(), ::testing::IsEmpty());
  EXPECT_EQ(Standin::allocations(), 0);
}

#else

inline std::vector<std::string> Machines() { return {"gpu"}; }

// With CKPTDB_REQUIRE_GPU in the environment it is a failure to have none.
inline std::string StartMachine(const std::string& /*machine*/) {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) return "";
  if (std::getenv("CKPTDB_REQUIRE_GPU") != nullptr) {
    ADD_FAILURE() << "there is no GPU";
  }
  return "there is no GPU";
}

inline void CheckMachine() {}

#endif

}  // namespace train_ctr

#endif  // CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_DEVICE_MACHINE_H_
