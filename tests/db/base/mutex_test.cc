// SPDX-License-Identifier: Apache-2.0
#include "db/base/mutex.h"

#include <chrono>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "gtest/gtest.h"

namespace ckptdb::internal {
namespace {

class Counter {
 public:
  void Add() {
    const MutexLock lock(&mutex);
    ++count_;
    changed_.NotifyAll();
  }
  void WaitFor(int count) {
    const MutexLock lock(&mutex);
    while (count_ < count) changed_.Wait(&mutex);
  }
  bool WaitFor(int count, std::chrono::milliseconds time) {
    const auto deadline = std::chrono::steady_clock::now() + time;
    const MutexLock lock(&mutex);
    while (count_ < count) {
      if (!changed_.WaitUntil(&mutex, deadline)) return count_ >= count;
    }
    return true;
  }
  bool AddIfFree() {
    if (!mutex.TryLock()) return false;
    ++count_;
    mutex.Unlock();
    return true;
  }
  Mutex mutex;

 private:
  ConditionVariable changed_;
  int count_ ABSL_GUARDED_BY(mutex) = 0;
};

TEST(MutexTest, ThreadsWaitForEachOther) {
  constexpr int kThreads = 4;
  constexpr int kAdds = 1000;
  Counter counter;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < kAdds; ++j) counter.Add();
    });
  }
  counter.WaitFor(kThreads * kAdds);
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(counter.WaitFor(kThreads * kAdds, std::chrono::milliseconds(0)));
}

TEST(MutexTest, WaitUntilTellsThatTheTimeIsOver) {
  Counter counter;
  EXPECT_FALSE(counter.WaitFor(1, std::chrono::milliseconds(1)));
  counter.Add();
  EXPECT_TRUE(counter.WaitFor(1, std::chrono::milliseconds(1)));
}

TEST(MutexTest, TryLockFailsWhileAnotherThreadHasIt) {
  Counter counter;
  EXPECT_TRUE(counter.AddIfFree());
  {
    const MutexLock lock(&counter.mutex);
    std::thread([&] { EXPECT_FALSE(counter.AddIfFree()); }).join();
  }
  EXPECT_TRUE(counter.AddIfFree());
}

}  // namespace
}  // namespace ckptdb::internal
