// SPDX-License-Identifier: Apache-2.0
// A machine that has no memory to give, for one allocation.
//
//   NoMemory none(/*after=*/7);  // the 8th allocation of this thread throws
//   EXPECT_FALSE(store->Pin(1).ok());
#ifndef CKPTDB_TESTS_SUPPORT_NO_MEMORY_H_
#define CKPTDB_TESTS_SUPPORT_NO_MEMORY_H_

#include <cstdint>

#include "tests/support/long_run.h"

namespace ckptdb::testing {

// While it lives, one call of operator new by the thread that has made it
// throws std::bad_alloc: the first after so many others that is not made where
// RocksDB ends the process for any exception.
class NoMemory {
 public:
  explicit NoMemory(int64_t after);
  ~NoMemory();
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;

  // Returns whether the allocation has come.
  bool HasThrown() const;

  // Sanitizers have an operator new of their own.
  static constexpr bool kWorks = !kSanitized;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_NO_MEMORY_H_
