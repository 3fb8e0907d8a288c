// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include "tests/db/store/sweep_counter.h"

namespace ckptdb::internal {
namespace {

TEST(SweepRequestsTest, SeveralRequestsBeforeASweepAreOne) {
  SweepRequests requests;
  requests.Request();
  requests.Request();
  SweepCounter sweeps(&requests);
  EXPECT_TRUE(sweeps.Take());
  EXPECT_TRUE(sweeps.None());
}

TEST(SweepRequestsTest, ARequestWhileASweepIsUnderWayIsFollowedByAnother) {
  SweepRequests requests;
  requests.Request();
  ASSERT_TRUE(requests.Wait());  // the sweep has begun
  requests.Request();
  EXPECT_TRUE(requests.Wait());
}

TEST(SweepRequestsTest, GarbageOfALeaseIsLookedAtAgainWithoutARequest) {
  SweepRequests requests;
  requests.SetLeasedGarbage(true);
  SweepCounter sweeps(&requests);
  EXPECT_TRUE(sweeps.Take());
}

TEST(SweepRequestsTest, StopEndsTheWaitAndOutdoesARequest) {
  SweepRequests requests;
  std::thread waits([&] { EXPECT_FALSE(requests.Wait()); });
  EXPECT_FALSE(requests.stopped());
  requests.Stop();
  waits.join();
  EXPECT_TRUE(requests.stopped());
  requests.Request();
  EXPECT_FALSE(requests.Wait());
}

}  // namespace
}  // namespace ckptdb::internal
