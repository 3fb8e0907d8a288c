// SPDX-License-Identifier: Apache-2.0
// What a soak is made of: its content, its ledger, its bounds, its words.
#include <set>
#include <string>
#include <vector>

#include "bench/soak/content.h"
#include "bench/soak/driver.h"
#include "bench/soak/event.h"
#include "bench/soak/ledger.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::soak {
namespace {

using ::ckptdb::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kLoss = absl::StatusCode::kDataLoss;

TEST(SoakContent, ChangesLeadFromEachStepToTheNext) {
  const Content content(7);
  Rows rows = content.RowsAt(0);
  for (int64_t step = 1; step <= 100; ++step) {
    const RowChange change = content.ChangesOf(step);
    for (const int64_t id : change.erased) EXPECT_EQ(rows.erase(id), 1u);
    for (const auto& [id, row] : change.upserted) rows[id] = row;
    ASSERT_TRUE(rows == content.RowsAt(step)) << step;
    EXPECT_GT(change.upserted.size(), 20u) << step;
  }
  EXPECT_GT(rows.size(), 3000u);
}

TEST(SoakContent, StepsAndSeedsDiffer) {
  const Content content(7);
  EXPECT_FALSE(content.RowsAt(5) == content.RowsAt(6));
  EXPECT_FALSE(content.RowsAt(5) == Content(8).RowsAt(5));
  EXPECT_NE(content.Dense(5), content.Dense(6));
  EXPECT_EQ(content.Frozen(5), content.Frozen(6));
  EXPECT_NE(content.Frozen(kFrozenSteps - 1), content.Frozen(kFrozenSteps));
  EXPECT_NE(content.Position(5, 0), content.Position(5, 1));
}

TEST(SoakRows, ReportsTheFirstDifference) {
  const Rows expected = {{3, {}}, {5, {}}};
  EXPECT_OK(CompareRows(expected, expected, "step 1"));
  EXPECT_THAT(CompareRows({{3, {}}}, expected, "step 1"),
              StatusIs(kLoss, AllOf(HasSubstr("step 1"), HasSubstr("id 5"),
                                    HasSubstr("missing"))));
  EXPECT_THAT(CompareRows({{3, {}}, {4, {}}, {5, {}}}, expected, "step 1"),
              StatusIs(kLoss, HasSubstr("id 4: the row should not be there")));
  EXPECT_THAT(CompareRows({{3, {}}, {5, {.adagrad_sum = 1}}}, expected, "s"),
              StatusIs(kLoss, HasSubstr("id 5: the row has other values")));
}

TEST(SoakLedger, RejectsMissingAcknowledgedSteps) {
  Ledger ledger;
  for (const int64_t step : {1, 2, 3}) {
    ledger.Began(step);
    ledger.Saved(step, {});
  }
  EXPECT_OK(ledger.Settle({1, 2, 3}, 3));
  EXPECT_THAT(ledger.Settle({1, 3}, 3),
              StatusIs(kLoss, HasSubstr("step 2 was acknowledged")));
  EXPECT_THAT(ledger.Settle({1, 2, 3, 9}, 3),
              StatusIs(kLoss, HasSubstr("step 9 should not be there")));
  EXPECT_THAT(ledger.Settle({1, 2, 3}, 2),
              StatusIs(kLoss, HasSubstr("step 2 instead of step 3")));
}

TEST(SoakLedger, RejectsRetiredSteps) {
  Ledger ledger;
  ledger.Saved(1, {});
  ledger.Saved(2, {1});
  EXPECT_OK(ledger.Settle({2}, 2));
  EXPECT_THAT(ledger.Settle({1, 2}, 2),
              StatusIs(kLoss, HasSubstr("step 1 should not be there")));
}

TEST(SoakLedger, AcceptsASaveInDoubtEitherWay) {
  Ledger happened;
  happened.Saved(1, {});
  happened.Began(2);
  Ledger did_not = happened;
  EXPECT_OK(did_not.Settle({1}, 1));
  EXPECT_THAT(did_not.Settle({1, 2}, 2), StatusIs(kLoss, HasSubstr("step 2")));
  // It may have retired what was there before, but not what is pinned.
  Ledger pinned = happened;
  pinned.Pinned(1);
  EXPECT_THAT(pinned.Settle({2}, 2),
              StatusIs(kLoss, HasSubstr("step 1 is pinned and gone")));
  EXPECT_OK(happened.Settle({2}, 2));
  EXPECT_OK(happened.Settle({2}, 2));
  EXPECT_THAT(happened.Settle({1, 2}, 2), StatusIs(kLoss, HasSubstr("step 1")));
}

TEST(SoakLedger, OnlyTheLastFailedSaveIsInDoubt) {
  Ledger ledger;
  ledger.Saved(1, {});
  ledger.Began(2);
  ledger.Failed(2);
  ledger.Began(3);
  ledger.Failed(3);
  Ledger acknowledged = ledger;
  acknowledged.Saved(4, {});
  EXPECT_THAT(ledger.Settle({1, 2}, 2), StatusIs(kLoss, HasSubstr("step 2")));
  EXPECT_OK(ledger.Settle({1, 3}, 3));
  EXPECT_THAT(acknowledged.Settle({1, 3, 4}, 4),
              StatusIs(kLoss, HasSubstr("step 3 should not be there")));
}

// Returns samples whose figures grow by these amounts.
std::vector<Sample> Growing(uint64_t disk, uint64_t files, uint64_t manifest,
                            uint64_t memory) {
  std::vector<Sample> samples;
  for (uint64_t i = 1; i <= 10; ++i) {
    samples.push_back({i * 1000,
                       {(uint64_t{40} << 20) + i * disk, 50 + i * files,
                        i * manifest, (uint64_t{100} << 20) + i * memory}});
  }
  return samples;
}

TEST(SoakFigures, RejectsGrowthOverABound) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  constexpr uint64_t kNeeded = 20 * kMiB;
  const auto is_over = [](const std::string& figure) {
    return StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(figure));
  };
  EXPECT_OK(CheckBounds(Growing(0, 0, 0, 0), kNeeded));
  EXPECT_THAT(CheckBounds(Growing(20 * kMiB, 0, 0, 0), kNeeded),
              is_over("disk"));
  EXPECT_THAT(CheckBounds(Growing(0, 100, 0, 0), kNeeded), is_over("files"));
  EXPECT_THAT(CheckBounds(Growing(0, 0, kMiB, 0), kNeeded),
              is_over("MANIFEST"));
  EXPECT_THAT(CheckBounds(Growing(0, 0, 0, 50 * kMiB), kNeeded),
              is_over("resident"));
}

TEST(SoakFigures, AreComparedByHalves) {
  const Halves most(Growing(0, 1, 0, 0));
  EXPECT_EQ(most.first[1], 55u);
  EXPECT_EQ(most.second[1], 60u);
}

TEST(SoakEvent, RoundTrips) {
  const Event event = {.kind = Event::Kind::kSaved,
                       .step = 12,
                       .began_micros = 456,
                       .steps = {1, 2},
                       .text = "full\tpermanent"};
  std::string line = EncodeEvent(event);
  ASSERT_EQ(line.back(), '\n');
  line.pop_back();
  ASSERT_OK_AND_ASSIGN(const Event decoded, DecodeEvent(line));
  EXPECT_EQ(decoded.kind, event.kind);
  EXPECT_EQ(decoded.step, 12);
  EXPECT_EQ(decoded.began_micros, 456);
  EXPECT_EQ(decoded.steps, event.steps);
  EXPECT_EQ(decoded.text, event.text);
}

TEST(SoakEvent, RejectsOtherLines) {
  for (const char* line : {"", "saved", "moved\t1\t0\t\t", "saved\tx\t0\t\t",
                           "saved\t1\t0\t1,y\t"}) {
    EXPECT_THAT(DecodeEvent(line),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(line)));
  }
}

}  // namespace
}  // namespace ckptdb::soak
