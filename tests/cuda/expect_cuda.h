// SPDX-License-Identifier: Apache-2.0
// Calls of the CUDA runtime that must succeed.
#ifndef CKPTDB_TESTS_CUDA_EXPECT_CUDA_H_
#define CKPTDB_TESTS_CUDA_EXPECT_CUDA_H_

#include <cuda_runtime_api.h>

#include "gtest/gtest.h"

#define EXPECT_CUDA(call) EXPECT_EQ((call), cudaSuccess)
#define ASSERT_CUDA(call) ASSERT_EQ((call), cudaSuccess)

#endif  // CKPTDB_TESTS_CUDA_EXPECT_CUDA_H_
