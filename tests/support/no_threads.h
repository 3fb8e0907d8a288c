// SPDX-License-Identifier: Apache-2.0
// Makes starting threads fail.
//
//   NoThreads none;
//   EXPECT_THAT(Store::Open(path), StatusIs(kResourceExhausted, ...));
#ifndef CKPTDB_TESTS_SUPPORT_NO_THREADS_H_
#define CKPTDB_TESTS_SUPPORT_NO_THREADS_H_

#include "tests/support/long_run.h"

namespace ckptdb::testing {

// While it exists, the process can have at most `first` more threads than
// before at a time. Only one may exist at a time, and no older thread may end
// meanwhile.
class NoThreads {
 public:
  explicit NoThreads(int first = 0);
  ~NoThreads();
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

  // Sanitizers start threads in other ways.
  static constexpr bool kWorks = !kSanitized;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_NO_THREADS_H_
