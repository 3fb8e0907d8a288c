// SPDX-License-Identifier: Apache-2.0
// Counts the memory that a program allocates.
//
//   const uint64_t before = AllocatedBytes();
//   Save();
//   EXPECT_LE(AllocatedBytes() - before, 3 * saved_bytes);
#ifndef CKPTDB_TESTS_SUPPORT_ALLOCATED_BYTES_H_
#define CKPTDB_TESTS_SUPPORT_ALLOCATED_BYTES_H_

#include <cstdint>

#include "tests/support/long_run.h"

namespace ckptdb::testing {

// Returns the bytes requested from operator new so far, on all threads and by
// all libraries, including freed ones.
uint64_t AllocatedBytes();

// Sanitizers have their own operator new.
inline constexpr bool kCountsAllocations = !kSanitized;

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_ALLOCATED_BYTES_H_
