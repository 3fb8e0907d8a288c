// How much memory a program asks for.
//
//   const uint64_t before = AllocatedBytes();
//   Save();
//   EXPECT_LE(AllocatedBytes() - before, 3 * saved_bytes);
#ifndef CKPTDB_TESTS_SUPPORT_ALLOCATED_BYTES_H_
#define CKPTDB_TESTS_SUPPORT_ALLOCATED_BYTES_H_

#include <cstdint>

#include "ckptdb/tests/support/long_run.h"

namespace ckptdb::testing {

// Of all calls of operator new so far, on all threads and of all libraries,
// whatever was freed since. Memory that is used again is not counted again.
uint64_t AllocatedBytes();

// Sanitizers have an operator new of their own.
inline constexpr bool kCountsAllocations = !kSanitized;

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_ALLOCATED_BYTES_H_
