// SPDX-License-Identifier: Apache-2.0
#include "manager/coordinator.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace ckptdb {
namespace {

using ::ckptdb::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Long enough for any machine; no test waits for it to pass.
constexpr absl::Duration kLong = absl::Minutes(5);
constexpr absl::Duration kShort = absl::Milliseconds(20);

// Runs each rank on a separate thread.
void RunRanks(uint32_t world_size,
              const std::function<void(Coordinator*)>& rank) {
  ThreadGroup group(world_size);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < world_size; ++i) {
    threads.emplace_back([&, ranks = group.Join(i)] { rank(ranks.get()); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SingleProcess, AnswersItsOwnCalls) {
  const auto ranks = SingleProcess();
  EXPECT_EQ(ranks->rank(), 0);
  EXPECT_EQ(ranks->world_size(), 1);
  EXPECT_OK(ranks->Barrier("begin", kShort));
  ASSERT_OK_AND_ASSIGN(const std::string value,
                       ranks->Broadcast("value", "mine", kShort));
  EXPECT_EQ(value, "mine");
  ASSERT_OK_AND_ASSIGN(const auto values, ranks->Gather("all", "mine", kShort));
  EXPECT_THAT(values, ElementsAre("mine"));
  EXPECT_OK(Agree(ranks.get(), "end", absl::OkStatus(), kShort));
  EXPECT_THAT(Agree(ranks.get(), "end", absl::DataLossError("x"), kShort),
              StatusIs(absl::StatusCode::kDataLoss, "x"));
}

TEST(ThreadGroup, RanksAndWorldSize) {
  ThreadGroup group(3);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const auto ranks = group.Join(rank);
    EXPECT_EQ(ranks->rank(), rank);
    EXPECT_EQ(ranks->world_size(), 3);
  }
}

TEST(ThreadGroup, GatherReturnsValuesByRankToTheOwner) {
  RunRanks(4, [](Coordinator* ranks) {
    for (int round = 0; round < 50; ++round) {
      ASSERT_OK_AND_ASSIGN(
          const auto values,
          ranks->Gather("part", absl::StrCat(ranks->rank(), ".", round),
                        kLong));
      if (ranks->rank() != kOwnerRank) {
        EXPECT_THAT(values, IsEmpty());
        continue;
      }
      EXPECT_THAT(
          values,
          ElementsAre(absl::StrCat("0.", round), absl::StrCat("1.", round),
                      absl::StrCat("2.", round), absl::StrCat("3.", round)));
    }
  });
}

// With the coordinator's own implementation, and with the default one.
TEST(ThreadGroup, AllToAllDeliversEachValueToItsRank) {
  for (const bool by_default : {false, true}) {
    RunRanks(4, [=](Coordinator* ranks) {
      for (int round = 0; round < 20; ++round) {
        std::vector<std::string> values;
        for (uint32_t to = 0; to < 4; ++to) {
          values.push_back(absl::StrCat(ranks->rank(), to, ".", round));
        }
        ASSERT_OK_AND_ASSIGN(
            const auto received,
            by_default ? ranks->Coordinator::AllToAll("rows", values, kLong)
                       : ranks->AllToAll("rows", values, kLong));
        ASSERT_EQ(received.size(), 4U);
        for (uint32_t from = 0; from < 4; ++from) {
          EXPECT_EQ(received[from],
                    absl::StrCat(from, ranks->rank(), ".", round));
        }
      }
    });
  }
}

// With the coordinator's own implementation, and with the default one.
TEST(ThreadGroup, TellEachDeliversEachValueToItsRank) {
  for (const bool by_default : {false, true}) {
    RunRanks(4, [=](Coordinator* ranks) {
      for (int round = 0; round < 20; ++round) {
        std::vector<std::string> values;
        for (uint32_t to = 0; to < 4 && ranks->rank() == kOwnerRank; ++to) {
          values.push_back(absl::StrCat(to, ".", round));
        }
        const auto told =
            by_default ? ranks->Coordinator::TellEach("ticket", values, kLong)
                       : ranks->TellEach("ticket", values, kLong);
        ASSERT_OK(told.status());
        EXPECT_EQ(*told, absl::StrCat(ranks->rank(), ".", round));
      }
    });
  }
}

TEST(Coordinator, TellEachFails_WithoutAValueForEachRank) {
  ThreadGroup group(3);
  const std::unique_ptr<Coordinator> owner = group.Join(kOwnerRank);
  for (const bool by_default : {false, true}) {
    EXPECT_THAT(by_default
                    ? owner->Coordinator::TellEach("ticket", {"a"}, kLong)
                    : owner->TellEach("ticket", {"a"}, kLong),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("TellEach: 1 values, expected one for each "
                                   "of the 3 ranks")));
  }
}

TEST(Coordinator, AllToAllFails_WithoutAValueForEachRank) {
  RunRanks(3, [](Coordinator* ranks) {
    EXPECT_THAT(ranks->Coordinator::AllToAll("rows", {"a", "b"}, kLong),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("2 values, expected one for each of the 3 "
                                   "ranks")));
    EXPECT_THAT(ranks->AllToAll("rows", {"a", "b", "c", "d"}, kLong),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("4 values, expected one for each")));
  });
}

TEST(ThreadGroup, BroadcastReturnsTheOwnersValue) {
  RunRanks(3, [](Coordinator* ranks) {
    ASSERT_OK_AND_ASSIGN(
        const std::string value,
        ranks->Broadcast("decision", absl::StrCat("of ", ranks->rank()),
                         kLong));
    EXPECT_EQ(value, "of 0");
  });
}

TEST(ThreadGroup, BarrierWaitsForAllRanks) {
  constexpr uint32_t kRanks = 4;
  std::atomic<uint32_t> arrived = 0;
  RunRanks(kRanks, [&](Coordinator* ranks) {
    ++arrived;
    ASSERT_OK(ranks->Barrier("all", kLong));
    EXPECT_EQ(arrived, kRanks);
  });
}

TEST(ThreadGroup, AgreeReturnsTheErrorOfTheLowestRank) {
  RunRanks(4, [](Coordinator* ranks) {
    EXPECT_OK(Agree(ranks, "staged", absl::OkStatus(), kLong));
    const absl::Status own = ranks->rank() < 2
                                 ? absl::OkStatus()
                                 : absl::ResourceExhaustedError(
                                       absl::StrCat("disk of ", ranks->rank()));
    EXPECT_THAT(
        Agree(ranks, "staged", own, kLong),
        StatusIs(absl::StatusCode::kResourceExhausted, "rank 2: disk of 2"));
    // The next call works.
    EXPECT_OK(ranks->Barrier("after", kLong));
  });
}

// Ranks 0 and 2 of 3 make a call, and rank 1 makes it after they have given up.
class AbsentRank : public ::testing::Test {
 protected:
  using Call = std::function<absl::Status(Coordinator*, absl::Duration)>;

  void ExpectNamedToAll(const Call& call) {
    std::vector<absl::Status> statuses(3);
    std::thread two([&] { statuses[2] = call(ranks_[2].get(), kLong); });
    statuses[0] = call(ranks_[0].get(), kShort);
    two.join();
    statuses[1] = call(ranks_[1].get(), kLong);
    // On a slow machine rank 2 may be late as well.
    EXPECT_THAT(statuses[0],
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         AllOf(HasSubstr("ranks 1"),
                               HasSubstr(" of 3 did not reach \""))));
    EXPECT_EQ(statuses[1], statuses[0]);
    EXPECT_EQ(statuses[2], statuses[0]);
  }
  void ExpectAllTogetherAgain() {
    std::vector<std::thread> threads;
    for (const auto& rank : ranks_) {
      threads.emplace_back([&] { EXPECT_OK(rank->Barrier("next", kLong)); });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  ThreadGroup group_{3};
  std::vector<std::unique_ptr<Coordinator>> ranks_ = [this] {
    std::vector<std::unique_ptr<Coordinator>> ranks;
    for (uint32_t rank = 0; rank < 3; ++rank)
      ranks.push_back(group_.Join(rank));
    return ranks;
  }();
};

TEST_F(AbsentRank, FailsABarrier) {
  ExpectNamedToAll([](Coordinator* ranks, absl::Duration deadline) {
    return ranks->Barrier("all", deadline);
  });
  ExpectAllTogetherAgain();
}

TEST_F(AbsentRank, FailsABroadcast) {
  ExpectNamedToAll([](Coordinator* ranks, absl::Duration deadline) {
    return ranks->Broadcast("decision", "x", deadline).status();
  });
  ExpectAllTogetherAgain();
}

// All ranks fail, although only the owner waits for all.
TEST_F(AbsentRank, FailsAnAgreement) {
  ExpectNamedToAll([](Coordinator* ranks, absl::Duration deadline) {
    return Agree(ranks, "staged", absl::OkStatus(), deadline);
  });
  ExpectAllTogetherAgain();
}

TEST(ThreadGroup, AllRanksFail_WhenTheirCallsDiffer) {
  RunRanks(2, [](Coordinator* ranks) {
    const bool owner = ranks->rank() == kOwnerRank;
    const absl::Status status = ranks->Barrier(owner ? "save" : "load", kLong);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted,
                                 HasSubstr("the ranks disagree: rank ")));
    EXPECT_THAT(status.message(), HasSubstr("\"barrier save\""));
    EXPECT_THAT(status.message(), HasSubstr("\"barrier load\""));
    EXPECT_OK(ranks->Barrier("after", kLong));
  });
}

// A thread may have ended before the others read its value.
TEST(ThreadGroup, CoordinatorsOutliveTheGroup) {
  auto group = std::make_unique<ThreadGroup>(2);
  auto zero = group->Join(0);
  auto one = group->Join(1);
  group.reset();
  ASSERT_OK(one->Gather("part", "x", kLong));
  one.reset();
  ASSERT_OK_AND_ASSIGN(const auto values, zero->Gather("part", "y", kLong));
  EXPECT_THAT(values, ElementsAre("y", "x"));
}

}  // namespace
}  // namespace ckptdb
