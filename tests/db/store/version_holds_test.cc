// SPDX-License-Identifier: Apache-2.0
// What is held, by whom, and when the end of a hold asks for a sweep.
#include "db/store/version_holds.h"

#include <gmock/gmock.h>

#include "tests/db/store/sweep_counter.h"

namespace ckptdb::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Version kOne = {10, 1};
constexpr Version kTwo = {20, 2};
constexpr Version kThree = {30, 3};

class VersionHoldsTest : public ::testing::Test {
 protected:
  SweepRequests requests_;
  VersionHolds holds_{&requests_};
  SweepCounter sweeps_{&requests_};
};

TEST_F(VersionHoldsTest, VersionsAreHeldUntilTheLastOfTheirHoldsIsGone) {
  std::shared_ptr<void> first = holds_.Hold({kOne, kTwo});
  std::shared_ptr<void> second = holds_.Hold({kTwo, kThree});
  std::shared_ptr<void> copy = second;
  EXPECT_THAT(holds_.versions(), ElementsAre(kOne, kTwo, kThree));
  first.reset();
  EXPECT_THAT(holds_.versions(), ElementsAre(kTwo, kThree));
  second.reset();
  EXPECT_THAT(holds_.versions(), ElementsAre(kTwo, kThree));
  copy.reset();
  EXPECT_THAT(holds_.versions(), IsEmpty());
}

TEST_F(VersionHoldsTest, ReadersAreCountedAndCallsAreNot) {
  const std::shared_ptr<void> call = holds_.Hold({kOne});
  EXPECT_EQ(holds_.readers(), 0);
  std::shared_ptr<void> reader = holds_.Hold({kOne}, HeldBy::kReader);
  const std::shared_ptr<void> empty = holds_.Hold({}, HeldBy::kReader);
  EXPECT_EQ(holds_.readers(), 2);
  reader.reset();
  EXPECT_EQ(holds_.readers(), 1);
  EXPECT_THAT(holds_.versions(), ElementsAre(kOne));
}

TEST_F(VersionHoldsTest, AHoldThatEndsAsksForNoSweepWhereThereIsNoGarbage) {
  std::shared_ptr<void> hold = holds_.Hold({kOne});
  hold.reset();
  EXPECT_TRUE(sweeps_.None());
}

TEST_F(VersionHoldsTest, TheLastHoldOfGarbageAsksForOneSweep) {
  std::shared_ptr<void> first = holds_.Hold({kOne, kTwo});
  std::shared_ptr<void> second = holds_.Hold({kOne});
  holds_.NoteGarbage({kOne});
  EXPECT_TRUE(sweeps_.None());
  first.reset();
  EXPECT_TRUE(sweeps_.None());
  second.reset();
  EXPECT_TRUE(sweeps_.Take());
  // What was asked for is not asked for again.
  holds_.Hold({kOne}).reset();
  EXPECT_TRUE(sweeps_.None());
}

// A hold may end between the sweep's look at the holds and its note.
TEST_F(VersionHoldsTest, GarbageThatIsNotHeldAnyMoreAsksForASweepAtOnce) {
  const std::shared_ptr<void> hold = holds_.Hold({kTwo});
  holds_.NoteGarbage({kOne, kTwo});
  EXPECT_TRUE(sweeps_.Take());
  EXPECT_TRUE(sweeps_.None());
}

}  // namespace
}  // namespace ckptdb::internal
