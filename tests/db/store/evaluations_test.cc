// SPDX-License-Identifier: Apache-2.0
// Evaluations that are under way: kept with their step, and gone with it.

#include "db/rocks/change_batch.h"
#include "db/rocks/database.h"
#include "schema/bytes/keys.h"
#include "schema/records/evaluation.h"
#include "schema/types.h"
#include "tests/db/delta_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::Eq;
using ::testing::Optional;

constexpr char kTest[] = "test/day_7";
constexpr char kGroup[] = "eval/ctr";

using Evaluation = StepRecord::Evaluation;

class EvaluationsTest : public DeltaFixture {
 protected:
  absl::Status SaveParts(int64_t step, const std::string& evaluation,
                         const std::vector<Evaluation>& ranks) {
    return store_->SaveEvaluation(step, evaluation, kGroup, ranks);
  }
  std::optional<Evaluation> Find(int64_t step, uint32_t rank = 0) {
    return store_->FindEvaluation(step, kTest, rank).value();
  }
  std::vector<std::pair<std::string, uint32_t>> List(int64_t step) {
    return store_->ListEvaluations(step).value();
  }
};

TEST_F(EvaluationsTest, ComesBackOfEachRank) {
  ASSERT_OK_AND_ASSIGN(const SaveResult saved, Save(7, SmallContent(1)));
  EXPECT_EQ(Find(7), std::nullopt);
  const std::vector<Evaluation> parts = {
      {10, std::string("\0\xff", 2), "line 10"}, {11, "", ""}};
  ASSERT_OK(SaveParts(7, kTest, parts));
  ASSERT_OK(SaveParts(7, "another", {{1, "a", "b"}}));
  Reopen();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    Evaluation expected = parts[rank];
    expected.version = saved.version;
    expected.evaluation = kTest;
    expected.group = kGroup;
    expected.rank = rank;
    expected.world_size = 2;
    EXPECT_THAT(Find(7, rank), Optional(Eq(expected)));
  }
  EXPECT_EQ(Find(7, 2), std::nullopt);
  EXPECT_THAT(List(7),
              ElementsAre(Pair("another", 0), Pair(kTest, 0), Pair(kTest, 1)));
  // A later one takes the place of all ranks.
  ASSERT_OK(SaveParts(7, kTest, {{1, "a", ""}, {2, "b", ""}, {3, "c", ""}}));
  ASSERT_OK(SaveParts(7, kTest, {{4, "d", ""}, {5, "e", ""}}));
  EXPECT_EQ(Find(7, 0)->meters, "d");
  EXPECT_EQ(Find(7, 1)->processed, 5U);
  EXPECT_EQ(Find(7, 2), std::nullopt);
}

TEST_F(EvaluationsTest, WhatCannotBeStoredIsRefused) {
  ASSERT_OK(Save(7, SmallContent(1)));
  const auto unknown = NotFound("no step 8");
  EXPECT_THAT(SaveParts(8, kTest, {{}}), unknown);
  EXPECT_THAT(store_->FindEvaluation(8, kTest, 0), unknown);
  EXPECT_THAT(store_->ListEvaluations(8), unknown);
  EXPECT_THAT(SaveParts(7, "", {{}}),
              InvalidArgument("evaluation \"\" is empty"));
  EXPECT_THAT(
      store_->SaveEvaluation(7, kTest, "\xff", std::vector<Evaluation>(1)),
      InvalidArgument("metrics group \"\\xff\" is not UTF-8"));
  EXPECT_THAT(SaveParts(7, kTest, {}), InvalidArgument("has 0 ranks"));
  EXPECT_THAT(SaveParts(7, kTest, std::vector<Evaluation>(kMaxWorldSize + 1)),
              InvalidArgument("has 65537 ranks; the world size is 1 to 65536"));
  EXPECT_THAT(List(7), IsEmpty());
}

TEST_F(EvaluationsTest, BytesBelowAtAndOverTheLimit) {
  ASSERT_OK(Save(7, SmallContent(1)));
  const auto sized = [](size_t bytes) {
    return std::vector<Evaluation>{{},
                                   {1, std::string(bytes - 7, 'm'), "7 bytes"}};
  };
  for (const size_t bytes : {kMaxEvaluationBytes - 1, kMaxEvaluationBytes}) {
    ASSERT_OK(SaveParts(7, kTest, sized(bytes)));
    EXPECT_EQ(Find(7, 1)->meters, sized(bytes)[1].meters);
    EXPECT_EQ(Find(7, 1)->loader, "7 bytes");
  }
  EXPECT_THAT(SaveParts(7, kTest, sized(kMaxEvaluationBytes + 1)),
              InvalidArgument("rank 1: ", "8388609", "8388608"));
  EXPECT_EQ(Find(7, 1)->meters, sized(kMaxEvaluationBytes)[1].meters);
}

TEST_F(EvaluationsTest, DeletedByStep) {
  for (const int64_t step : {1, 2, 3}) {
    ASSERT_OK(Save(step, SmallContent(1)));
    ASSERT_OK(SaveParts(step, kTest, {{1, "", ""}, {2, "", ""}}));
    ASSERT_OK(SaveParts(step, "another", {{3, "", ""}}));
  }
  ASSERT_OK(store_->DeleteEvaluations({1, 3, 99}));
  Reopen();
  EXPECT_THAT(List(1), IsEmpty());
  EXPECT_EQ(List(2).size(), 3U);
  EXPECT_THAT(List(3), IsEmpty());
  ASSERT_OK(store_->DeleteEvaluations({1}));
}

TEST_F(EvaluationsTest, GoesWithItsStep) {
  for (const int64_t step : {1, 2, 3}) {
    ASSERT_OK(Save(step, SmallContent(step)));
    ASSERT_OK(SaveParts(step, kTest, {{1, "", ""}}));
  }
  ASSERT_OK(store_->Delete(1));
  ASSERT_OK(Save(4, SmallContent(4), {.retire = {2}}));
  ASSERT_OK(Overwrite(3, SmallContent(5)));
  SaveSmall({1, 2});  // other steps, under the same numbers
  for (int sweeps = 0; sweeps < 2; ++sweeps) {
    for (const int64_t step : {1, 2, 3}) EXPECT_THAT(List(step), IsEmpty());
    ASSERT_OK(store_->Sweep());
  }
}

TEST_F(EvaluationsTest, StaysWhenItsStepIsFolded) {
  content_ = UserContent({1, 2, 3});
  SaveNext(1);
  rows()[2] = RowOf(2, 1);
  SaveNext(2);
  ASSERT_OK(SaveParts(2, kTest, {{5, "half", "line 5"}}));
  ASSERT_TRUE(store_->Fold(2).value().folded);
  ASSERT_OK(store_->Sweep());
  EXPECT_EQ(Find(2)->meters, "half");
  ASSERT_OK(SaveParts(2, kTest, {{9, "more", "line 9"}}));
  Reopen();
  EXPECT_EQ(Find(2)->meters, "more");
  ASSERT_OK(Overwrite(2, content_));
  EXPECT_THAT(List(2), IsEmpty());
}

TEST_F(EvaluationsTest, DamageAndForeignRecordsAreDataLoss) {
  ASSERT_OK_AND_ASSIGN(const SaveResult saved, Save(7, SmallContent(1)));
  ASSERT_OK(SaveParts(7, kTest, {{5, "half", ""}, {6, "more", ""}}));
  const std::string other = EncodeEvaluationRecord(*Find(7, 1)).value();
  std::string flipped = other;
  flipped.back() ^= 1;
  const std::string place =
      "evaluation \"test/day_7\" of step 7 attempt 1 rank 0";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {flipped, place + ": evaluation record: hash"},
      {other,
       "expected " + place +
           ", got evaluation \"test/day_7\" of step 7 attempt 1 rank 1"}};
  for (const auto& [bytes, words] : cases) {
    store_.reset();
    RawDatabase(path()).Put(1, EvaluationKey(saved.version, kTest, 0), bytes);
    Reopen();
    EXPECT_THAT(store_->FindEvaluation(7, kTest, 0), DataLoss(words));
    EXPECT_EQ(Find(7, 1)->meters, "more");
  }
}

TEST_F(EvaluationsTest, AReaderSeesIt) {
  ASSERT_OK(Save(7, SmallContent(1)));
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path()));
  ASSERT_OK(SaveParts(7, kTest, {{5, "half", "line 5"}}));
  ASSERT_OK(reader->Refresh());
  EXPECT_THAT(reader->FindEvaluation(7, kTest, 0).value(),
              Optional(Eq(*Find(7))));
  EXPECT_THAT(reader->ListEvaluations(7).value(), ElementsAre(Pair(kTest, 0)));
  EXPECT_THAT(reader->FindEvaluation(8, kTest, 0), NotFound("no step 8"));
  ASSERT_OK(store_->DeleteEvaluations({7}));
  ASSERT_OK(reader->Refresh());
  EXPECT_EQ(reader->FindEvaluation(7, kTest, 0).value(), std::nullopt);
}

}  // namespace
}  // namespace ckptdb::testing
