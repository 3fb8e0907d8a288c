// SPDX-License-Identifier: Apache-2.0
// Trainers on ranks that are threads: their state together is that of one.
#include "ranks/ranks.h"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/examples/train_ctr/state_copy.h"
#include "train_ctr/trainer.h"

namespace train_ctr {
namespace {

using ::ckptdb::testing::StatusIs;
using ::examples::Ranks;
using ::testing::HasSubstr;

constexpr absl::Duration kRankDeadline = absl::Minutes(1);

void RunRankThreads(uint32_t size,
                    const std::function<void(Ranks* own)>& body) {
  ckptdb::ThreadGroup group(size);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      body(examples::ThreadRank(group.Join(rank), kRankDeadline).get());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::unique_ptr<Trainer> TrainerOf(Ranks* own, Sharding sharding) {
  TrainerOptions options = SmallTrainer();
  options.batch = 29;  // which no number of ranks divides
  options.hidden = {7, 5};
  options.sharding = sharding;
  auto reader = Reader::Create(NewGeneratedLog({}).value(), 64, options.seed);
  return Trainer::Create(options, std::move(reader).value(), own).value();
}

TEST(RanksTest, StateMatchesOneRank) {
  auto alone = TrainerOf(nullptr, Sharding::kSlices);
  std::vector<double> losses;
  for (int s = 0; s < 40; ++s) losses.push_back(alone->Step().value());
  ASSERT_OK_AND_ASSIGN(const Evaluation expected, Evaluate(alone.get()));
  for (const uint32_t size : {1U, 2U, 5U, 31U}) {
    for (const Sharding sharding : {Sharding::kSlices, Sharding::kModulo}) {
      SCOPED_TRACE(size);
      RunRankThreads(size, [&](Ranks* own) {
        auto trainer = TrainerOf(own, sharding);
        for (const double loss : losses) EXPECT_EQ(*trainer->Step(), loss);
        ASSERT_OK_AND_ASSIGN(const std::string digest, SharedDigest(*trainer));
        EXPECT_EQ(digest, StateDigest(*alone));
        ASSERT_OK_AND_ASSIGN(const uint64_t rows,
                             examples::Sum(own, "rows", trainer->rows()));
        EXPECT_EQ(rows, alone->rows());
        EXPECT_LE(trainer->rows(), 2 * rows / size + 20);  // about even
        if (size > 2) return;  // an evaluation of many threads takes long
        ASSERT_OK_AND_ASSIGN(const Evaluation evaluation,
                             Evaluate(trainer.get()));
        EXPECT_EQ(evaluation.loss, expected.loss);
        EXPECT_EQ(evaluation.auc, expected.auc);
        EXPECT_EQ(evaluation.examples, expected.examples);
      });
    }
  }
}

// So does the program of a build without CUDA refuse one rank.
TEST(RanksTest, RejectsSeveralRanksInGpuMemory) {
  const auto make = [](Ranks* own) {
    TrainerOptions options = SmallTrainer();
    options.cuda_device = 2;
    auto reader = Reader::Create(NewGeneratedLog({}).value(), 64, options.seed);
    return Trainer::Create(options, std::move(reader).value(), own).status();
  };
  RunRankThreads(3, [&make](Ranks* own) {
    EXPECT_THAT(make(own),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("--device cuda:2 with 3 ranks: ")));
  });
  EXPECT_THAT(make(nullptr),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("--device cuda:2: this train_ctr was built "
                                 "without CUDA")));
}

TEST(RanksTest, ExchangesValues) {
  RunRankThreads(3, [](Ranks* own) {
    examples::PerRank<int64_t> to(3);
    for (int64_t r = 0; r < 3; ++r) {
      to[size_t(r)].assign(size_t(r), 10 * own->rank() + r);
    }
    ASSERT_OK_AND_ASSIGN(const auto from,
                         examples::Exchange(own, "values", to));
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(from[r], std::vector<int64_t>(own->rank(),
                                              int64_t(10 * r + own->rank())));
    }
  });
}

TEST(RanksTest, AsksOnlyTheOwner) {
  RunRankThreads(3, [](Ranks* own) {
    const auto value =
        examples::AskOwner(own, "value", [&]() -> absl::StatusOr<int64_t> {
          EXPECT_TRUE(own->is_owner());
          return -7;
        });
    EXPECT_EQ(*value, -7);
    for (const std::string words : {"no step 4", ""}) {
      const auto error =
          examples::AskOwner(own, "value", [&]() -> absl::StatusOr<int64_t> {
            return absl::NotFoundError(words);
          });
      EXPECT_THAT(error.status(), StatusIs(absl::StatusCode::kNotFound, words));
    }
  });
}

TEST(RanksTest, NamesAMissingRank) {
  ckptdb::ThreadGroup group(2);
  auto own = examples::ThreadRank(group.Join(0), absl::Milliseconds(50));
  EXPECT_THAT(examples::Sum(own.get(), "rows", 1).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("ranks 1 of 2 did not reach")));
}

}  // namespace
}  // namespace train_ctr
