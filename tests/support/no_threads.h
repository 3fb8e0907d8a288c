// A machine that has no thread to give.
//
//   NoThreads none;
//   EXPECT_THAT(Store::Open(path), StatusIs(kResourceExhausted, ...));
#ifndef CKPTDB_TESTS_SUPPORT_NO_THREADS_H_
#define CKPTDB_TESTS_SUPPORT_NO_THREADS_H_

#include "ckptdb/tests/support/long_run.h"

namespace ckptdb::testing {

// While it lives the process can have at most `first` more threads than before
// at a time. One of them at a time, and no thread that was there before may end
// while it lives.
class NoThreads {
 public:
  explicit NoThreads(int first = 0);
  ~NoThreads();
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

  // Sanitizers start threads in ways of their own.
  static constexpr bool kWorks = !kSanitized;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_NO_THREADS_H_
