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

// Returns the bytes that all calls of operator new have asked for so far, on
// all threads and by all libraries, whatever was freed since.
uint64_t AllocatedBytes();

// Sanitizers have an operator new of their own.
inline constexpr bool kCountsAllocations = !kSanitized;

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_ALLOCATED_BYTES_H_
