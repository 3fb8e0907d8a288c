// SPDX-License-Identifier: Apache-2.0
// ParallelFor when memory runs out.
#include "db/base/parallel.h"

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "tests/support/no_memory.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

// Starting a thread allocates. If that fails for any but the first, the threads
// that were started must still be joined.
TEST(ParallelFor, FewerThreadsDoAllTasks_WhenMemoryRunsOut) {
  if (!NoMemory::kWorks) GTEST_SKIP() << "under a sanitizer";
  constexpr uint64_t kTasks = 100;
  bool thrown = true;
  int64_t after = 0;
  for (; thrown; ++after) {
    SCOPED_TRACE(absl::StrCat("allocation ", after));
    std::atomic<uint64_t> done = 0;
    const std::function<absl::Status(int, uint64_t)> task = [&](int, uint64_t) {
      ++done;
      return absl::OkStatus();
    };
    absl::Status status;
    {
      const NoMemory none(after);
      status = internal::CallGuarded("ParallelFor", [&] {
        return internal::ParallelFor(/*threads=*/4, kTasks, task, nullptr);
      });
      thrown = none.HasThrown();
    }
    if (!status.ok()) {
      // No thread was started yet.
      EXPECT_THAT(status, ResourceExhausted("ParallelFor: out of memory"));
      EXPECT_EQ(done, 0U);
      continue;
    }
    EXPECT_EQ(done, kTasks);
  }
  EXPECT_GE(after, 4) << "the list of threads, three threads and no failure";
}

}  // namespace
}  // namespace ckptdb::testing
