// SPDX-License-Identifier: Apache-2.0
#include "remote/s3/limits.h"

#include <atomic>
#include <chrono>

#include "remote/s3/pause.h"
#include "tests/support/on_threads.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using internal::s3::ByteRate;
using internal::s3::Pause;
using internal::s3::Poll;
using internal::s3::RequestLimit;
using internal::s3::SteadyClock;

absl::Status GoOn() { return absl::OkStatus(); }

TEST(ByteRateTest, DelaysByWhatWasTaken) {
  ByteRate rate(1'000'000);
  EXPECT_EQ(rate.Delay(), SteadyClock::duration::zero());
  rate.Take(10'000'000);
  rate.Take(10'000'000);
  EXPECT_GT(rate.Delay(), std::chrono::seconds(19));
  EXPECT_LE(rate.Delay(), std::chrono::seconds(20));
}

TEST(ByteRateTest, SavesNothingWhileIdle) {
  ByteRate rate(1000);
  ASSERT_OK(Pause(std::chrono::milliseconds(20), GoOn));
  rate.Take(1000);
  EXPECT_GT(rate.Delay(), std::chrono::milliseconds(990));
}

TEST(ByteRateTest, HasNoLimitAtZero) {
  ByteRate rate(0);
  rate.Take(uint64_t{1} << 60);
  EXPECT_EQ(rate.Delay(), SteadyClock::duration::zero());
}

TEST(RequestLimitTest, LetsSoManyRunAtATime) {
  RequestLimit limit(3);
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  RunOnThreads(8, [&](uint32_t) {
    for (int i = 0; i < 20; ++i) {
      ASSERT_OK(limit.Enter(GoOn));
      const int now = ++running;
      if (now > most) most = now;
      --running;
      limit.Leave();
    }
  });
  EXPECT_LE(most, 3);
}

TEST(RequestLimitTest, HalvesOncePerRoundAndGrowsAgain) {
  RequestLimit limit(8);
  const SteadyClock::time_point began = SteadyClock::now();
  limit.SlowDown(began);
  EXPECT_EQ(limit.limit(), 4);
  limit.SlowDown(began);
  EXPECT_EQ(limit.limit(), 4);
  for (const int expected : {2, 1, 1}) {
    limit.SlowDown(SteadyClock::now());
    EXPECT_EQ(limit.limit(), expected);
  }
  for (int i = 0; i < 100; ++i) limit.Succeeded();
  EXPECT_EQ(limit.limit(), 8);
}

TEST(RequestLimitTest, EndsItsWaitWhenCancelled) {
  RequestLimit limit(1);
  ASSERT_OK(limit.Enter(GoOn));
  const Poll cancelled = [] { return absl::CancelledError("stop"); };
  EXPECT_THAT(limit.Enter(cancelled), Cancelled("stop"));
}

}  // namespace
}  // namespace ckptdb::testing
