// SPDX-License-Identifier: Apache-2.0

#include <atomic>

#include "tests/manager/ranks/all_calls.h"
#include "tests/support/on_threads.h"

namespace ckptdb::testing {
namespace {

constexpr absl::Duration kSoon = absl::Milliseconds(20);

// Runs each rank on a separate thread.
void OnGroup(uint32_t world_size,
             const std::function<void(Coordinator*)>& rank) {
  ThreadGroup group(world_size);
  RunOnThreads(world_size, [&](uint32_t r) { rank(group.Join(r).get()); });
}

TEST(SingleProcess, AnswersItsOwnCalls) {
  const auto ranks = SingleProcess();
  EXPECT_EQ(ranks->rank(), 0);
  EXPECT_EQ(ranks->world_size(), 1);
  EXPECT_OK(ranks->Barrier("begin", kSoon));
  EXPECT_EQ(ranks->Broadcast("value", "mine", kSoon).value(), "mine");
  EXPECT_THAT(ranks->Gather("all", "mine", kSoon).value(), ElementsAre("mine"));
  EXPECT_OK(Agree(ranks.get(), "end", absl::OkStatus(), kSoon));
  EXPECT_THAT(Agree(ranks.get(), "end", absl::DataLossError("x"), kSoon),
              StatusIs(absl::StatusCode::kDataLoss, "x"));
}

// With the coordinator's own implementations, and with the default ones.
TEST(ThreadGroup, RunsAllCalls) {
  for (const bool by_default : {false, true}) {
    OnGroup(4, [=](Coordinator* ranks) {
      EXPECT_OK(MakeAllCalls(ranks, by_default));
    });
  }
  OnGroup(3, [](Coordinator* ranks) {
    EXPECT_OK(MakeAllCallsOnTwoThreads(ranks));
  });
}

TEST(Coordinator, TellEachFails_WithoutAValueForEachRank) {
  ThreadGroup group(3);
  const std::unique_ptr<Coordinator> owner = group.Join(kOwnerRank);
  for (const bool by_default : {false, true}) {
    EXPECT_THAT(
        by_default ? owner->Coordinator::TellEach("ticket", {"a"}, kLong)
                   : owner->TellEach("ticket", {"a"}, kLong),
        InvalidArgument(
            "TellEach: 1 values, expected one for each of the 3 ranks"));
  }
}

TEST(Coordinator, AllToAllFails_WithoutAValueForEachRank) {
  OnGroup(3, [](Coordinator* ranks) {
    EXPECT_THAT(
        ranks->Coordinator::AllToAll("rows", {"a", "b"}, kLong),
        InvalidArgument("2 values, expected one for each of the 3 ranks"));
    EXPECT_THAT(ranks->AllToAll("rows", {"a", "b", "c", "d"}, kLong),
                InvalidArgument("4 values, expected one for each"));
  });
}

TEST(ThreadGroup, BarrierWaitsForAllRanks) {
  constexpr uint32_t kRanks = 4;
  std::atomic<uint32_t> arrived = 0;
  OnGroup(kRanks, [&](Coordinator* ranks) {
    ++arrived;
    ASSERT_OK(ranks->Barrier("all", kLong));
    EXPECT_EQ(arrived, kRanks);
  });
}

// Ranks 0 and 2 of 3 make a call, and rank 1 makes it after they have given up.
class AbsentRank : public ::testing::Test {
 protected:
  using Call = std::function<absl::Status(Coordinator*, absl::Duration)>;

  void ExpectNamedToAll(const Call& call) {
    std::vector<absl::Status> statuses(3);
    std::thread two([&] { statuses[2] = call(ranks_[2].get(), kLong); });
    statuses[0] = call(ranks_[0].get(), kSoon);
    two.join();
    statuses[1] = call(ranks_[1].get(), kLong);
    // On a slow machine rank 2 may be late as well.
    EXPECT_THAT(statuses[0],
                DeadlineExceeded("ranks 1", " of 3 did not reach \""));
    EXPECT_EQ(statuses[1], statuses[0]);
    EXPECT_EQ(statuses[2], statuses[0]);
  }
  void ExpectAllTogetherAgain() {
    RunOnThreads(3, [&](uint32_t rank) {
      EXPECT_OK(ranks_[rank]->Barrier("next", kLong));
    });
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

// All ranks fail in an agreement, too, although only the owner waits for all
// of them.
TEST_F(AbsentRank, FailsEachCall) {
  const Call calls[] = {
      [](Coordinator* ranks, absl::Duration deadline) {
        return ranks->Barrier("all", deadline);
      },
      [](Coordinator* ranks, absl::Duration deadline) {
        return ranks->Broadcast("decision", "x", deadline).status();
      },
      [](Coordinator* ranks, absl::Duration deadline) {
        return Agree(ranks, "staged", absl::OkStatus(), deadline);
      }};
  for (const Call& call : calls) {
    ExpectNamedToAll(call);
    ExpectAllTogetherAgain();
  }
}

TEST(ThreadGroup, AllRanksFail_WhenTheirCallsDiffer) {
  OnGroup(2, [](Coordinator* ranks) {
    const bool owner = ranks->rank() == kOwnerRank;
    const absl::Status status = ranks->Barrier(owner ? "save" : "load", kLong);
    EXPECT_THAT(status, Aborted("the ranks disagree: rank "));
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
  EXPECT_THAT(zero->Gather("part", "y", kLong).value(), ElementsAre("y", "x"));
}

}  // namespace
}  // namespace ckptdb::testing
