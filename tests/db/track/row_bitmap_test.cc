// SPDX-License-Identifier: Apache-2.0
// RowBitmap, sentence by sentence of its contract.

#include <limits>
#include <thread>

#include "absl/strings/str_cat.h"
#include "db/row_tracker.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

using Ids = std::vector<int64_t>;

class RowBitmapTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kRows = 1000;
  void SetUp() override {
    auto bitmap = RowBitmap::Make(kRows);
    ASSERT_OK(bitmap);
    bitmap_ = *std::move(bitmap);
    saves_ = Join("checkpoint");
  }
  ChangeTracker::Consumer Join(const std::string& name) {
    const absl::StatusOr<ChangeTracker::Consumer> consumer =
        bitmap_->AddConsumer(name);
    EXPECT_OK(consumer);
    EXPECT_FALSE(Take(*consumer).complete);
    return *consumer;
  }
  ChangeTracker::Changes Take(ChangeTracker::Consumer consumer) {
    absl::StatusOr<ChangeTracker::Changes> changes = bitmap_->Take(consumer);
    EXPECT_OK(changes);
    EXPECT_THAT(changes->erased, IsEmpty());
    return *std::move(changes);
  }
  Ids Rows(ChangeTracker::Consumer consumer) {
    ChangeTracker::Changes changes = Take(consumer);
    EXPECT_TRUE(changes.complete) << changes.reason;
    return std::move(changes.upserted);
  }
  std::unique_ptr<RowBitmap> bitmap_;
  ChangeTracker::Consumer saves_;
};

TEST_F(RowBitmapTest, ATakeHandsOverWhatWasMarkedSinceTheLastOne) {
  const ChangeTracker::Consumer feed = Join("feed");
  EXPECT_OK(bitmap_->MarkUpserted({999, 0, 63, 64, 0, 65}));
  EXPECT_OK(bitmap_->MarkUpserted({64, 500}));
  EXPECT_THAT(Rows(saves_), ElementsAre(0, 63, 64, 65, 500, 999));
  EXPECT_THAT(Rows(saves_), IsEmpty());
  EXPECT_OK(bitmap_->MarkUpserted({64}));
  EXPECT_THAT(Rows(saves_), ElementsAre(64));
  EXPECT_THAT(Rows(feed), ElementsAre(0, 63, 64, 65, 500, 999));
  EXPECT_OK(bitmap_->MarkUpserted({2}));
  EXPECT_THAT(Rows(saves_), ElementsAre(2));
  EXPECT_THAT(Rows(feed), ElementsAre(2));
}

TEST_F(RowBitmapTest, AReturnedSetComesAgain) {
  const ChangeTracker::Consumer feed = Join("feed");
  EXPECT_OK(bitmap_->MarkUpserted({1, 2}));
  ChangeTracker::Changes first = Take(saves_);
  EXPECT_OK(bitmap_->MarkUpserted({2, 3}));
  ChangeTracker::Changes second = Take(saves_);
  EXPECT_OK(bitmap_->MarkUpserted({4}));
  EXPECT_OK(bitmap_->Return(saves_, std::move(first)));
  EXPECT_OK(bitmap_->Return(saves_, std::move(second)));
  EXPECT_THAT(Rows(saves_), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Rows(feed), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Rows(feed), IsEmpty());
}

TEST_F(RowBitmapTest, ANewConsumerNeedsABaseFirst) {
  EXPECT_OK(bitmap_->MarkUpserted({1}));
  ASSERT_OK_AND_ASSIGN(const ChangeTracker::Consumer feed,
                       bitmap_->AddConsumer("feed"));
  for (const bool returned : {false, true}) {
    ChangeTracker::Changes base = Take(feed);
    EXPECT_FALSE(base.complete);
    EXPECT_THAT(base.reason, HasSubstr("\"feed\" is new"));
    EXPECT_THAT(base.upserted, IsEmpty());
    if (returned) break;
    EXPECT_OK(bitmap_->MarkUpserted({2}));
    EXPECT_OK(bitmap_->Return(feed, std::move(base)));
  }
  EXPECT_THAT(Rows(feed), IsEmpty());
  EXPECT_OK(bitmap_->MarkUpserted({3}));
  EXPECT_THAT(Rows(feed), ElementsAre(3));
  EXPECT_THAT(Rows(saves_), ElementsAre(1, 2, 3));
}

TEST_F(RowBitmapTest, RejectsIdsOutOfRangeAndMarksNothing) {
  for (const int64_t id :
       {int64_t{1000}, int64_t{-1}, std::numeric_limits<int64_t>::min(),
        std::numeric_limits<int64_t>::max()}) {
    EXPECT_THAT(bitmap_->MarkUpserted({1, id, 2}),
                OutOfRange("row " + std::to_string(id) +
                           " is out of range for a table of 1000 rows"));
  }
  EXPECT_THAT(Rows(saves_), IsEmpty());
  EXPECT_OK(bitmap_->MarkUpserted({1}));
  ChangeTracker::Changes changes = Take(saves_);
  changes.upserted.push_back(1000);
  EXPECT_THAT(bitmap_->Return(saves_, std::move(changes)),
              OutOfRange("row 1000"));
  EXPECT_THAT(Rows(saves_), IsEmpty());
}

TEST_F(RowBitmapTest, ErrorsAreThoseOfRowTracker) {
  const ChangeTracker::Consumer unknown{7};
  const auto not_found = NotFound("no consumer 7");
  EXPECT_THAT(bitmap_->Take(unknown), not_found);
  EXPECT_THAT(bitmap_->RemoveConsumer(unknown), not_found);
  EXPECT_THAT(bitmap_->Return(unknown, ChangeTracker::Changes()), not_found);
  EXPECT_THAT(bitmap_->Return(saves_, ChangeTracker::Changes()),
              InvalidArgument("not taken from this tracker"));
  EXPECT_THAT(bitmap_->AddConsumer("checkpoint"),
              AlreadyExists("\"checkpoint\" already exists"));
  EXPECT_OK(bitmap_->RemoveConsumer(saves_));
  EXPECT_THAT(bitmap_->Take(saves_), NotFound("consumer 0"));
}

TEST_F(RowBitmapTest, MemoryIsOneBitARowForEachConsumerAndThread) {
  constexpr uint64_t kBytes = (kRows + 63) / 64 * 8;
  EXPECT_EQ(bitmap_->memory_bytes(), kBytes);
  EXPECT_OK(bitmap_->MarkUpserted({1}));
  EXPECT_EQ(bitmap_->memory_bytes(), 2 * kBytes);
  Join("feed");
  EXPECT_EQ(bitmap_->memory_bytes(), 3 * kBytes);
}

TEST(RowBitmapLimitsTest, AnyNumberOfRowsUpToTheLimit) {
  for (const uint64_t rows : {uint64_t{1}, uint64_t{64}, uint64_t{65}}) {
    ASSERT_OK_AND_ASSIGN(const auto bitmap, RowBitmap::Make(rows));
    ASSERT_OK_AND_ASSIGN(const ChangeTracker::Consumer saves,
                         bitmap->AddConsumer("s"));
    ASSERT_OK(bitmap->Take(saves));
    const auto last = static_cast<int64_t>(rows) - 1;
    EXPECT_OK(bitmap->MarkUpserted({last}));
    EXPECT_THAT(bitmap->MarkUpserted({last + 1}), OutOfRange("row "));
    ASSERT_OK_AND_ASSIGN(const ChangeTracker::Changes changes,
                         bitmap->Take(saves));
    EXPECT_THAT(changes.upserted, ElementsAre(last));
  }
  ASSERT_OK_AND_ASSIGN(const auto none, RowBitmap::Make(0));
  EXPECT_THAT(none->MarkUpserted({0}), OutOfRange("of 0 rows"));
  EXPECT_OK(RowBitmap::Make(kMaxBitmapRows));
  EXPECT_THAT(RowBitmap::Make(kMaxBitmapRows + 1),
              InvalidArgument("68719476737 rows; the limit is 68719476736"));
}

TEST(RowBitmapLimitsTest, IdsBeginAtTheFirstOne) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t first :
       {int64_t{-3}, int64_t{1000}, std::numeric_limits<int64_t>::min(),
        kMost - 70}) {
    ASSERT_OK_AND_ASSIGN(const auto bitmap, RowBitmap::Make(70, first));
    ASSERT_OK_AND_ASSIGN(const ChangeTracker::Consumer saves,
                         bitmap->AddConsumer("s"));
    ASSERT_OK(bitmap->Take(saves));
    EXPECT_OK(bitmap->MarkUpserted({first + 69, first}));
    EXPECT_THAT(bitmap->MarkUpserted({first + 70}),
                OutOfRange(absl::StrCat("row ", first + 70,
                                        " is out of range for a table of 70 "
                                        "rows from id ",
                                        first)));
    ChangeTracker::Changes changes = bitmap->Take(saves).value();
    EXPECT_THAT(changes.upserted, ElementsAre(first, first + 69));
    EXPECT_OK(bitmap->Return(saves, std::move(changes)));
    EXPECT_THAT(bitmap->Take(saves).value().upserted,
                ElementsAre(first, first + 69));
  }
  EXPECT_THAT(RowBitmap::Make(70, kMost - 69),
              InvalidArgument("the last of 70 rows from id "));
}

// Each row is marked once, by one of the threads, while sets are taken.
TEST(RowBitmapThreadsTest, EveryMarkIsInOneSet) {
  constexpr int64_t kThreads = 10;
  constexpr int64_t kRowsEach = 20'000;
  constexpr int64_t kBatch = 100;
  ASSERT_OK_AND_ASSIGN(const auto bitmap,
                       RowBitmap::Make(kThreads * kRowsEach));
  ASSERT_OK_AND_ASSIGN(const ChangeTracker::Consumer saves,
                       bitmap->AddConsumer("s"));
  ASSERT_OK(bitmap->Take(saves));
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&bitmap, t] {
      for (int64_t at = 0; at < kRowsEach; at += kBatch) {
        Ids ids;
        for (int64_t i = at; i < at + kBatch; ++i)
          ids.push_back(i * kThreads + t);
        EXPECT_OK(bitmap->MarkUpserted(ids));
      }
    });
  }
  std::vector<int> seen(kThreads * kRowsEach);
  const auto take = [&](bool give_back) {
    absl::StatusOr<ChangeTracker::Changes> changes = bitmap->Take(saves);
    ASSERT_OK(changes);
    if (give_back) {
      ASSERT_OK(bitmap->Return(saves, *std::move(changes)));
      return;
    }
    for (const int64_t row : changes->upserted)
      ++seen[static_cast<size_t>(row)];
  };
  for (int i = 0; i < 50; ++i) take(i % 3 == 0);
  for (std::thread& thread : threads) thread.join();
  take(false);
  EXPECT_THAT(seen, ::testing::Each(1));
}

}  // namespace
}  // namespace ckptdb::testing
