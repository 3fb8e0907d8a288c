// SPDX-License-Identifier: Apache-2.0
// RowTracker, sentence by sentence of its contract; random orders of calls and
// threads are in row_tracker_model_test.
#include "db/row_tracker.h"

#include "tests/support/seed.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

using Ids = std::vector<int64_t>;

constexpr int64_t kLowestId = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighestId = std::numeric_limits<int64_t>::max();

// `count` ids from `first` on, times `factor`.
Ids Range(int64_t first, int64_t count, int64_t factor = 1) {
  Ids ids;
  for (int64_t i = first; i < first + count; ++i) ids.push_back(i * factor);
  return ids;
}

Ids Sorted(Ids ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

MATCHER_P2(Holds, upserted, erased, "") {
  *result_listener << "complete: " << arg.complete
                   << "; upserted: " << ::testing::PrintToString(arg.upserted)
                   << "; erased: " << ::testing::PrintToString(arg.erased);
  return arg.complete && arg.reason.empty() &&
         Sorted(arg.upserted) == Sorted(upserted) &&
         Sorted(arg.erased) == Sorted(erased);
}

MATCHER_P(NeedsABase, reason, "") {
  *result_listener << "whose reason is \"" << arg.reason << "\"";
  return !arg.complete && arg.upserted.empty() && arg.erased.empty() &&
         ExplainMatchResult(HasSubstr(reason), arg.reason, result_listener);
}

class RowTrackerTest : public ::testing::Test {
 protected:
  static ChangeTracker::Consumer Join(const std::string& name,
                                      RowTracker* tracker) {
    const absl::StatusOr<ChangeTracker::Consumer> consumer =
        tracker->AddConsumer(name);
    EXPECT_OK(consumer);
    EXPECT_FALSE(TakeFrom(*consumer, tracker).complete);
    return *consumer;
  }
  static ChangeTracker::Changes TakeFrom(ChangeTracker::Consumer consumer,
                                         RowTracker* tracker) {
    absl::StatusOr<ChangeTracker::Changes> changes = tracker->Take(consumer);
    EXPECT_OK(changes);
    return *std::move(changes);
  }
  ChangeTracker::Changes Take(ChangeTracker::Consumer consumer) {
    return TakeFrom(consumer, &tracker_);
  }
  ChangeTracker::Changes Take() { return Take(saves_); }
  void Return(ChangeTracker::Changes changes) {
    EXPECT_OK(tracker_.Return(saves_, std::move(changes)));
  }
  static absl::Status TryReturn(RowTracker* tracker,
                                ChangeTracker::Consumer consumer,
                                ChangeTracker::Changes* changes) {
    return tracker->Return(consumer, std::move(*changes));
  }
  RowTracker tracker_;
  const ChangeTracker::Consumer saves_ = Join("checkpoint", &tracker_);
};

TEST_F(RowTrackerTest, ANewConsumerNeedsABaseFirst) {
  tracker_.MarkUpserted({1, 2});
  ASSERT_OK_AND_ASSIGN(const ChangeTracker::Consumer feed,
                       tracker_.AddConsumer("feed"));
  tracker_.MarkUpserted({3});
  EXPECT_THAT(Take(feed), NeedsABase("\"feed\" is new"));
  EXPECT_THAT(Take(feed), Holds(Ids{}, Ids{}));
  tracker_.MarkUpserted({4});
  EXPECT_THAT(Take(feed), Holds(Ids{4}, Ids{}));
  EXPECT_THAT(Take(), Holds(Ids({1, 2, 3, 4}), Ids{}));
}

TEST_F(RowTrackerTest, ATakeHandsOverWhatWasMarkedSinceTheLastOne) {
  tracker_.MarkUpserted({1, 2, 3});
  tracker_.MarkErased({4});
  tracker_.MarkUpserted({});
  EXPECT_THAT(Take(), Holds(Ids({1, 2, 3}), Ids{4}));
  EXPECT_THAT(Take(), Holds(Ids{}, Ids{}));
  tracker_.MarkErased({2});
  EXPECT_THAT(Take(), Holds(Ids{}, Ids{2}));
  tracker_.MarkUpserted({1, 2});
  EXPECT_THAT(Take(), Holds(Ids({1, 2}), Ids{}));
}

// Erasing many ids at once forgets all that the filters know, erasing few
// these alone.
TEST_F(RowTrackerTest, TheNewestMarkOfManyIdsWins) {
  const Ids ids = Range(0, 5000);
  for (const size_t erased : {size_t{1}, size_t{100}, size_t{3000}}) {
    const Ids some(ids.begin(), ids.begin() + static_cast<int64_t>(erased));
    const Ids rest(ids.begin() + static_cast<int64_t>(erased), ids.end());
    tracker_.MarkUpserted(ids);
    tracker_.MarkErased(some);
    EXPECT_THAT(Take(), Holds(rest, some));
    tracker_.MarkUpserted(ids);
    tracker_.MarkErased(some);
    tracker_.MarkUpserted(some);
    EXPECT_THAT(Take(), Holds(ids, Ids{}));
  }
}

// A small bound makes small filters, which 3000 ids fill.
TEST_F(RowTrackerTest, TheNewestMarkWinsWhenTheFilterIsFull) {
  RowTracker small(1'000'000);
  const ChangeTracker::Consumer saves = Join("checkpoint", &small);
  const Ids ids = Range(0, 3000);
  small.MarkUpserted(ids);
  small.MarkUpserted({2999});
  small.MarkErased({2999});
  small.MarkUpserted({2999});
  EXPECT_THAT(TakeFrom(saves, &small), Holds(ids, Ids{}));
}

TEST_F(RowTrackerTest, AnyIdCanBeMarked) {
  const Ids ids = {
      0, 1, -1, kLowestId, kHighestId, kLowestId + 1, kHighestId - 1};
  tracker_.MarkUpserted(ids);
  EXPECT_THAT(Take(), Holds(ids, Ids{}));
  tracker_.MarkErased(ids);
  EXPECT_THAT(Take(), Holds(Ids{}, ids));
}

TEST_F(RowTrackerTest, IdsThatDifferInFewBits) {
  for (const int shift : {0, 8, 16, 17, 24, 32, 40, 48}) {
    const Ids ids = Range(-3000, 6000, int64_t{1} << shift);
    tracker_.MarkUpserted(ids);
    tracker_.MarkErased({ids[0], ids[5999]});
    EXPECT_THAT(Take(), Holds(Ids(ids.begin() + 1, ids.end() - 1),
                              Ids({ids[0], ids[5999]})))
        << shift;
  }
}

TEST_F(RowTrackerTest, ManyIdsInLargeBatches) {
  std::mt19937_64 random(TestSeed());
  Ids ids(700'000);
  for (int64_t& id : ids) id = static_cast<int64_t>(random() % 500'000);
  tracker_.MarkUpserted(ids);
  tracker_.MarkUpserted(Ids(ids.begin(), ids.begin() + 300'000));
  const std::set<int64_t> expected(ids.begin(), ids.end());
  EXPECT_THAT(Take(), Holds(Ids(expected.begin(), expected.end()), Ids{}));
}

TEST_F(RowTrackerTest, MarksMadeSinceTheTakeWinOverReturnedOnes) {
  tracker_.MarkUpserted({1, 2, 6, 7});
  tracker_.MarkErased({3, 4, 8});
  ChangeTracker::Changes changes = Take();
  tracker_.MarkErased({1, 5});
  tracker_.MarkUpserted({3});
  Return(std::move(changes));
  // Marks made after the return are also newer.
  tracker_.MarkErased({6});
  tracker_.MarkUpserted({8});
  EXPECT_THAT(Take(), Holds(Ids({2, 3, 7, 8}), Ids({1, 4, 5, 6})));
}

TEST_F(RowTrackerTest, ASetOutlivesItsTracker) {
  auto tracker = std::make_unique<RowTracker>();
  const ChangeTracker::Consumer saves = Join("checkpoint", tracker.get());
  tracker->MarkUpserted({1});
  const ChangeTracker::Changes changes = TakeFrom(saves, tracker.get());
  tracker.reset();
  EXPECT_THAT(changes, Holds(Ids{1}, Ids{}));
}

TEST_F(RowTrackerTest, RejectsUnknownConsumersAndNames) {
  EXPECT_THAT(tracker_.AddConsumer("checkpoint"),
              AlreadyExists("consumer \"checkpoint\" already exists"));
  EXPECT_THAT(tracker_.AddConsumer(""),
              InvalidArgument("consumer name is empty"));
  const ChangeTracker::Consumer unknown{7};
  const auto not_found = NotFound("no consumer 7");
  EXPECT_THAT(tracker_.Take(unknown), not_found);
  EXPECT_THAT(tracker_.RemoveConsumer(unknown), not_found);
  tracker_.MarkUpserted({1});
  ChangeTracker::Changes changes = Take();
  EXPECT_THAT(TryReturn(&tracker_, unknown, &changes), not_found);
  EXPECT_THAT(changes, Holds(Ids{1}, Ids{}));
  Return(std::move(changes));
  EXPECT_THAT(Take(), Holds(Ids{1}, Ids{}));
}

TEST_F(RowTrackerTest, OnlyTheConsumerThatTookASetReturnsIt) {
  const ChangeTracker::Consumer feed = Join("feed", &tracker_);
  tracker_.MarkUpserted({1});
  ChangeTracker::Changes changes = Take(feed);
  EXPECT_THAT(TryReturn(&tracker_, saves_, &changes),
              InvalidArgument("consumer 0 was taken by consumer 1"));
  RowTracker other;
  Join("checkpoint", &other);
  Join("feed", &other);
  const auto not_taken = InvalidArgument("not taken from this tracker");
  EXPECT_THAT(TryReturn(&other, feed, &changes), not_taken);
  EXPECT_THAT(tracker_.Return(feed, ChangeTracker::Changes()), not_taken);
  EXPECT_OK(TryReturn(&tracker_, feed, &changes));
  EXPECT_THAT(TryReturn(&tracker_, feed, &changes), not_taken);
  EXPECT_THAT(Take(feed), Holds(Ids{1}, Ids{}));
}

TEST_F(RowTrackerTest, ARemovedConsumerIsUnknownAndItsNameFree) {
  const ChangeTracker::Consumer feed = Join("feed", &tracker_);
  tracker_.MarkUpserted({1});
  ChangeTracker::Changes changes = Take(feed);
  EXPECT_OK(tracker_.RemoveConsumer(feed));
  const auto not_found = NotFound("no consumer 1");
  EXPECT_THAT(tracker_.Take(feed), not_found);
  EXPECT_THAT(tracker_.Return(feed, std::move(changes)), not_found);
  ASSERT_OK_AND_ASSIGN(const ChangeTracker::Consumer next,
                       tracker_.AddConsumer("feed"));
  EXPECT_FALSE(next == feed);
  EXPECT_THAT(Take(next), NeedsABase("\"feed\" is new"));
  EXPECT_THAT(Take(), Holds(Ids{1}, Ids{}));
}

}  // namespace
}  // namespace ckptdb::testing
