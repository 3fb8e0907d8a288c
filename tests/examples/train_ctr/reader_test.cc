// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/reader.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/examples/train_ctr/log_files.h"
#include "tests/support/seed.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "train_ctr/log.h"

namespace train_ctr {
namespace {

using ::ckptdb::testing::StatusIs;
using ::testing::HasSubstr;

enum class Kind { kCriteo, kMovieLens, kGenerated };

class ReaderTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    WriteFile(dir_.path() + "/criteo", CriteoLog(50, 1));
    WriteFile(dir_.path() + "/movielens", MovieLensLog(50, 1, "::"));
  }

  // Logs of 50 examples, 40 of them for training.
  std::unique_ptr<Log> OpenLog(Kind log) {
    if (log == Kind::kGenerated) {
      GeneratedLogOptions options;
      options.examples = 50;
      options.holdout = 0.2;
      return NewGeneratedLog(options).value();
    }
    const bool criteo = log == Kind::kCriteo;
    return OpenFileLog(dir_.path() + (criteo ? "/criteo" : "/movielens"),
                       criteo ? Format::kCriteo : Format::kMovieLens, 0.2)
        .value();
  }

  std::unique_ptr<Reader> Open(Kind log, size_t shuffle, uint64_t seed = 1) {
    return Reader::Create(OpenLog(log), shuffle, seed).value();
  }

  ckptdb::testing::TempDir dir_;
};

Batch Next(Reader& reader, size_t examples) {
  Batch batch;
  EXPECT_OK(reader.NextBatch(examples, &batch));
  EXPECT_EQ(batch.size(), examples);
  return batch;
}

bool operator==(const Batch& a, const Batch& b) {
  return a.labels == b.labels && a.ids == b.ids;
}

TEST_P(ReaderTest, RepeatsTheLogInOrderWithoutShuffling) {
  auto reader = Open(GetParam(), 1);
  const Batch first = Next(*reader, 40);
  const Batch second = Next(*reader, 40);
  EXPECT_TRUE(first == second);
  EXPECT_EQ(reader->epoch(), 2u);
}

TEST_P(ReaderTest, ShufflingKeepsTheExamples) {
  auto plain = Open(GetParam(), 1);
  auto shuffled = Open(GetParam(), 16);
  // One epoch less what the buffer still holds, over many epochs: every
  // example comes about as often as without shuffling.
  std::vector<int64_t> expected = Next(*plain, 40 * 50).ids;
  std::vector<int64_t> found = Next(*shuffled, 40 * 50).ids;
  EXPECT_NE(expected, found);
  std::sort(expected.begin(), expected.end());
  std::sort(found.begin(), found.end());
  std::vector<int64_t> missing;
  std::set_difference(expected.begin(), expected.end(), found.begin(),
                      found.end(), std::back_inserter(missing));
  EXPECT_LE(missing.size(), 16 * plain->layout().fields());
}

TEST_P(ReaderTest, SeedDecidesTheOrder) {
  auto one = Open(GetParam(), 16, 1);
  auto same = Open(GetParam(), 16, 1);
  auto other = Open(GetParam(), 16, 2);
  const Batch batch = Next(*one, 100);
  EXPECT_TRUE(batch == Next(*same, 100));
  EXPECT_FALSE(batch == Next(*other, 100));
}

TEST_P(ReaderTest, ResumesFromEverySavedPosition) {
  const uint64_t seed = ckptdb::testing::TestSeed();
  auto reader = Open(GetParam(), 8, seed);
  for (int save = 0; save < 40; ++save) {
    const std::string position = reader->SavePosition();
    const Batch expected = Next(*reader, 7);
    auto restored = Open(GetParam(), 8, seed + 1);
    ASSERT_OK(restored->RestorePosition(position));
    EXPECT_EQ(restored->SavePosition(), position);
    EXPECT_TRUE(Next(*restored, 7) == expected) << save;
    EXPECT_EQ(restored->SavePosition(), reader->SavePosition());
  }
  EXPECT_GE(reader->epoch(), 6u);
}

TEST_P(ReaderTest, HeldOutExamplesDoNotMoveThePosition) {
  auto reader = Open(GetParam(), 8);
  auto undisturbed = Open(GetParam(), 8);
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(Next(*reader, 25) == Next(*undisturbed, 25));
    LogPosition position = reader->held_out_begin();
    size_t held_out = 0;
    Batch batch;
    do {
      ASSERT_OK(reader->NextHeldOut(3, &position, &batch));
      held_out += batch.size();
    } while (batch.size() > 0);
    EXPECT_EQ(held_out, 10u);
  }
}

TEST_P(ReaderTest, RefusesDamagedPositions) {
  auto reader = Open(GetParam(), 8);
  Next(*reader, 9);
  const std::string position = reader->SavePosition();
  for (size_t bytes = 0; bytes < position.size(); ++bytes) {
    EXPECT_THAT(reader->RestorePosition(position.substr(0, bytes)),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("damaged")));
  }
  EXPECT_THAT(reader->RestorePosition(position + "x"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("damaged")));
  EXPECT_EQ(reader->SavePosition(), position);
}

TEST_P(ReaderTest, RefusesPositionsOfOtherLogs) {
  auto reader = Open(GetParam(), 8);
  const std::string other_shuffle = Open(GetParam(), 9)->SavePosition();
  EXPECT_THAT(reader->RestorePosition(other_shuffle),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("shuffled through 9")));
  const Kind other =
      GetParam() == Kind::kCriteo ? Kind::kGenerated : Kind::kCriteo;
  EXPECT_THAT(reader->RestorePosition(Open(other, 8)->SavePosition()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("the saved position is of a")));
}

TEST_P(ReaderTest, LimitsTheShuffleBuffer) {
  for (const size_t examples : {size_t{0}, kMaxShuffleExamples + 1}) {
    EXPECT_THAT(Reader::Create(OpenLog(GetParam()), examples, 1),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("a shuffle buffer of " +
                                   std::to_string(examples) + " examples")));
  }
  EXPECT_OK(Reader::Create(OpenLog(GetParam()), kMaxShuffleExamples, 1));
}

INSTANTIATE_TEST_SUITE_P(Logs, ReaderTest,
                         ::testing::Values(Kind::kCriteo, Kind::kMovieLens,
                                           Kind::kGenerated));

}  // namespace
}  // namespace train_ctr
