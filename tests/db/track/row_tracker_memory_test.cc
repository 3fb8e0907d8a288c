// SPDX-License-Identifier: Apache-2.0

#include <numeric>

#include "db/row_tracker.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

using Ids = std::vector<int64_t>;

constexpr int64_t kTableRows = 100'000;

Ids IdsFrom(int64_t first, int64_t count) {
  Ids ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

// The tracker and its consumer of checkpoints, which has its base.
struct Tracked : RowTracker {
  using RowTracker::RowTracker;
  ChangeTracker::Consumer Join(const std::string& name) {
    const ChangeTracker::Consumer consumer = AddConsumer(name).value();
    EXPECT_FALSE(Next(consumer).complete);
    return consumer;
  }
  ChangeTracker::Changes Next(ChangeTracker::Consumer consumer) {
    return Take(consumer).value();
  }
  ChangeTracker::Changes Next() { return Next(saves); }
  const ChangeTracker::Consumer saves = Join("checkpoint");
};

void MarkRange(int64_t first, int64_t count, RowTracker* tracker) {
  constexpr int64_t kBatch = 1000;
  for (int64_t at = 0; at < count; at += kBatch)
    tracker->MarkUpserted(IdsFrom(first + at, std::min(kBatch, count - at)));
}

std::string OverBound(uint64_t max_bytes) {
  return "exceeded its memory limit of " + std::to_string(max_bytes) + " bytes";
}

bool Fits(uint64_t max_bytes) {
  Tracked tracker(max_bytes);
  MarkRange(0, kTableRows, &tracker);
  EXPECT_LE(tracker.memory_bytes(), max_bytes);
  const ChangeTracker::Changes changes = tracker.Next();
  EXPECT_EQ(changes.upserted.size(), changes.complete ? kTableRows : 0);
  return changes.complete;
}

// A bound at which kTableRows rows fit, and one byte below it they do not.
uint64_t NeededBytes() {
  static const uint64_t kNeeded = [] {
    uint64_t fits = 100 * kTableRows;
    for (uint64_t too_little = kTableRows; fits - too_little > 1;) {
      const uint64_t middle = too_little + (fits - too_little) / 2;
      (Fits(middle) ? fits : too_little) = middle;
    }
    return fits;
  }();
  return kNeeded;
}

TEST(RowTrackerMemoryTest, ARowTakesLittleMoreThanItsId) {
  EXPECT_GE(NeededBytes(), 8 * kTableRows);
  EXPECT_LE(NeededBytes(), 16 * kTableRows);
  EXPECT_TRUE(Fits(NeededBytes()));
}

TEST(RowTrackerMemoryTest, OneByteBelowTheLimitDropsMarks) {
  const uint64_t max_bytes = NeededBytes() - 1;
  Tracked tracker(max_bytes);
  const ChangeTracker::Consumer feed = tracker.Join("feed");
  MarkRange(0, kTableRows, &tracker);
  EXPECT_LE(tracker.memory_bytes(), max_bytes);
  for (const ChangeTracker::Consumer consumer : {tracker.saves, feed}) {
    const ChangeTracker::Changes changes = tracker.Next(consumer);
    EXPECT_FALSE(changes.complete);
    EXPECT_THAT(changes.reason, HasSubstr(OverBound(max_bytes)));
    EXPECT_THAT(changes.upserted, IsEmpty());
    EXPECT_THAT(changes.erased, IsEmpty());
  }
}

constexpr uint64_t kMaxTrackerBytes = uint64_t{16} << 20;

// Each round is an interval of the feed, so that filters keep nothing back.
bool FitsRepeatedly(int64_t rows) {
  Tracked tracker(kMaxTrackerBytes);
  const ChangeTracker::Consumer feed = tracker.Join("feed");
  for (int round = 0; round < 4; ++round) {
    MarkRange(0, rows, &tracker);
    tracker.Next(feed);
    EXPECT_LE(tracker.memory_bytes(), kMaxTrackerBytes);
  }
  const ChangeTracker::Changes changes = tracker.Next();
  EXPECT_EQ(changes.upserted.size(), changes.complete ? rows : 0);
  return changes.complete;
}

TEST(RowTrackerMemoryTest, AnIdForSixteenBytesAlwaysFits) {
  EXPECT_TRUE(FitsRepeatedly(kMaxTrackerBytes / 16));
  EXPECT_FALSE(FitsRepeatedly(kMaxTrackerBytes / 8 + 1));
}

TEST(RowTrackerMemoryTest, NeverExceedsTheLimit) {
  for (const uint64_t max_bytes :
       {uint64_t{0}, uint64_t{10'000}, uint64_t{30'000}, uint64_t{300'000}}) {
    Tracked tracker(max_bytes);
    for (int64_t first = 0; first < kTableRows; first += 10'000) {
      MarkRange(first, 10'000, &tracker);
      // But for a filter, which comes before the log.
      EXPECT_LE(tracker.memory_bytes(), std::max<uint64_t>(max_bytes, 20'000));
    }
    EXPECT_THAT(tracker.Next().reason, HasSubstr(OverBound(max_bytes)));
  }
}

TEST(RowTrackerMemoryTest, TracksAgainAfterTheLimit) {
  Tracked tracker(NeededBytes());
  const ChangeTracker::Consumer feed = tracker.Join("feed");
  MarkRange(0, 2 * kTableRows, &tracker);
  const uint64_t after_drop = tracker.memory_bytes();
  EXPECT_LT(after_drop, NeededBytes() / 2);
  // Nobody wants these: all next sets are bases.
  MarkRange(0, 2 * kTableRows, &tracker);
  EXPECT_EQ(tracker.memory_bytes(), after_drop);
  EXPECT_FALSE(tracker.Next().complete);
  MarkRange(5, 10, &tracker);
  tracker.MarkErased({7});
  const ChangeTracker::Changes changes = tracker.Next();
  EXPECT_TRUE(changes.complete);
  EXPECT_THAT(changes.upserted, SizeIs(9));
  EXPECT_THAT(changes.erased, UnorderedElementsAre(7));
  // The feed has missed what was dropped, whatever came later.
  EXPECT_FALSE(tracker.Next(feed).complete);
  EXPECT_TRUE(tracker.Next(feed).complete);
}

TEST(RowTrackerMemoryTest, ASetTakenBeforeTheBoundIsInTheBase) {
  const uint64_t max_bytes = NeededBytes();
  Tracked tracker(max_bytes);
  tracker.MarkUpserted({1});
  ChangeTracker::Changes before = tracker.Next();
  ChangeTracker::Changes older = tracker.Next();
  MarkRange(0, 2 * kTableRows, &tracker);
  EXPECT_OK(tracker.Return(tracker.saves, std::move(before)));
  ChangeTracker::Changes base = tracker.Next();
  EXPECT_THAT(base.reason, HasSubstr(OverBound(max_bytes)));
  EXPECT_OK(tracker.Return(tracker.saves, std::move(older)));
  EXPECT_THAT(tracker.Next().upserted, IsEmpty());
  EXPECT_OK(tracker.Return(tracker.saves, std::move(base)));
  EXPECT_THAT(tracker.Next().reason, HasSubstr(OverBound(max_bytes)));
}

TEST(RowTrackerMemoryTest, ReturnedSetsCount) {
  for (const bool returned : {false, true}) {
    Tracked tracker(kMaxTrackerBytes);
    MarkRange(0, 11 * kTableRows, &tracker);
    ChangeTracker::Changes changes = tracker.Next();
    MarkRange(11 * kTableRows, 11 * kTableRows, &tracker);
    if (returned) {
      EXPECT_OK(tracker.Return(tracker.saves, std::move(changes)));
    }
    EXPECT_LE(tracker.memory_bytes(), kMaxTrackerBytes);
    EXPECT_EQ(tracker.Next().reason.empty(), !returned);
  }
}

// Marking few ids again and again never exceeds the bound.
TEST(RowTrackerMemoryTest, RepetitionsAreMergedAtTheBound) {
  Tracked tracker(100'000);
  const Ids odd = {1, 3, 5};
  const Ids even = {2, 4, 6};
  for (int i = 0; i < 20'000; ++i) {
    tracker.MarkErased(odd);
    tracker.MarkUpserted(odd);
    tracker.MarkUpserted(even);
    tracker.MarkErased(even);
    ASSERT_LE(tracker.memory_bytes(), 100'000);
  }
  const ChangeTracker::Changes changes = tracker.Next();
  EXPECT_TRUE(changes.complete) << changes.reason;
  EXPECT_THAT(changes.upserted, UnorderedElementsAre(1, 3, 5));
  EXPECT_THAT(changes.erased, UnorderedElementsAre(2, 4, 6));
}

// Also far from the bound, and of ids that no sample has.
TEST(RowTrackerMemoryTest, RepetitionsOfFewIdsAreMerged) {
  Tracked tracker;
  const Ids ids = IdsFrom(0, 1000);
  for (int i = 0; i < 2000; ++i) {
    tracker.MarkErased(ids);
    ASSERT_LT(tracker.memory_bytes(), 8'000'000);
  }
  tracker.MarkUpserted({0});
  const ChangeTracker::Changes changes = tracker.Next();
  EXPECT_THAT(changes.upserted, UnorderedElementsAre(0));
  EXPECT_THAT(changes.erased, SizeIs(999));
}

// The feed ends an interval sixty times, so that the filters repeat
// themselves to the log.
TEST(RowTrackerMemoryTest, RepetitionsForALateConsumerAreMerged) {
  Tracked tracker;
  const ChangeTracker::Consumer feed = tracker.Join("feed");
  for (int minute = 0; minute < 60; ++minute) {
    MarkRange(0, kTableRows, &tracker);
    tracker.MarkErased({minute, -1 - minute});
    ASSERT_LT(tracker.memory_bytes(), 8 * 8 * kTableRows);
    const ChangeTracker::Changes changes = tracker.Next(feed);
    EXPECT_THAT(changes.upserted, SizeIs(kTableRows - 1));
    EXPECT_THAT(changes.erased, UnorderedElementsAre(minute, -1 - minute));
  }
  tracker.MarkErased({5});
  const ChangeTracker::Changes changes = tracker.Next();
  EXPECT_THAT(changes.upserted, SizeIs(kTableRows - 2));
  EXPECT_THAT(changes.erased, SizeIs(62));
}

TEST(RowTrackerMemoryTest, WhatOneConsumerTookIsKeptForTheOther) {
  Tracked tracker;
  const ChangeTracker::Consumer feed = tracker.Join("feed");
  MarkRange(0, kTableRows, &tracker);
  const uint64_t marked = tracker.memory_bytes();
  tracker.Next(feed);
  EXPECT_EQ(tracker.memory_bytes(), marked);
}

TEST(RowTrackerMemoryTest, MemoryIsKeptForOneInterval) {
  Tracked tracker;
  MarkRange(0, 20 * kTableRows, &tracker);
  const uint64_t marked = tracker.memory_bytes();
  tracker.Next();
  EXPECT_GT(tracker.memory_bytes(), marked * 99 / 100);
  EXPECT_LE(tracker.memory_bytes(), marked);
  tracker.Next();
  EXPECT_LT(tracker.memory_bytes(), marked / 4);
}

TEST(RowTrackerMemoryTest, ARemovedConsumerKeepsNothing) {
  Tracked tracker;
  const ChangeTracker::Consumer feed = tracker.Join("feed");
  MarkRange(0, 20 * kTableRows, &tracker);
  const uint64_t marked = tracker.memory_bytes();
  EXPECT_OK(tracker.RemoveConsumer(tracker.saves));
  tracker.Next(feed);
  tracker.Next(feed);
  EXPECT_LT(tracker.memory_bytes(), marked / 4);
}

// A set that may still be returned needs the marks made since; a set that is
// gone does not.
TEST(RowTrackerMemoryTest, ASetThatIsOutKeepsLaterMarks) {
  Tracked tracker;
  uint64_t marked = 0;
  {
    const ChangeTracker::Changes out = tracker.Next();
    MarkRange(0, 20 * kTableRows, &tracker);
    marked = tracker.memory_bytes();
    tracker.Next();
    tracker.Next();
    EXPECT_EQ(tracker.memory_bytes(), marked);
  }
  tracker.Next();
  tracker.Next();
  EXPECT_LT(tracker.memory_bytes(), marked / 4);
}

TEST(RowTrackerMemoryTest, ASetOlderThanABaseKeepsNothing) {
  RowTracker tracker;
  const ChangeTracker::Consumer saves = tracker.AddConsumer("s").value();
  ChangeTracker::Changes failed = tracker.Take(saves).value();
  const ChangeTracker::Changes out = tracker.Take(saves).value();
  EXPECT_TRUE(out.complete);
  EXPECT_OK(tracker.Return(saves, std::move(failed)));
  EXPECT_FALSE(tracker.Take(saves)->complete);
  MarkRange(0, 20 * kTableRows, &tracker);
  const uint64_t marked = tracker.memory_bytes();
  for (int i = 0; i < 2; ++i) ASSERT_OK(tracker.Take(saves));
  EXPECT_LT(tracker.memory_bytes(), marked / 4);
}

}  // namespace
}  // namespace ckptdb::testing
