// SPDX-License-Identifier: Apache-2.0
// Tests coordinators over messages and over collectives: all their calls, and
// ranks that are late, gone, or in another call.
#include <atomic>
#include <thread>

#include "absl/time/clock.h"
#include "manager/checkpoint_manager.h"
#include "tests/manager/ranks/run_ranks.h"
#include "tests/support/seed.h"

namespace ckptdb::testing {
namespace {

TEST(MessageCoordinator, RunsAllCallsOnTwoThreads) {
  for (const uint32_t world_size : {1U, 2U, 5U, 16U}) {
    RankNetwork network(world_size, {});
    EXPECT_THAT(RunRanks(world_size, Over(&network), MakeAllCallsOnTwoThreads),
                Each(IsOk()));
    CollectiveGroup group(world_size);
    EXPECT_THAT(RunRanks(world_size, Over(&group), MakeAllCallsOnTwoThreads),
                Each(IsOk()));
  }
}

// A late rank receives its values when it calls; until then the errors name its
// own values as missing.
TEST(MessageCoordinator, AllToAllErrorNamesALateRankOnAllRanks) {
  RankNetwork network(3, {});
  std::vector<std::unique_ptr<Coordinator>> ranks;
  for (uint32_t r = 0; r < 3; ++r) {
    ranks.push_back(MessageCoordinator(network.Join(r)));
    EXPECT_TRUE(ranks[r]->HasDirectAllToAll());
  }
  const std::vector<std::string> values = {"a", "", std::string(100'000, 'c')};
  const auto exchange = [&](uint32_t r, absl::Duration deadline) {
    return ranks[r]->AllToAll("rows", values, deadline).status();
  };
  Statuses statuses(3);
  std::thread two([&] { statuses[2] = exchange(2, kLong); });
  statuses[0] = exchange(0, kShort);
  two.join();
  statuses[1] = exchange(1, kLong);
  EXPECT_THAT(statuses, Each(DeadlineExceeded("ranks 1 of 3 did not reach",
                                              "\"all-to-all rows\"")));
  RunOnThreads(3, [&](uint32_t r) {
    ASSERT_OK_AND_ASSIGN(const auto received,
                         ranks[r]->AllToAll("next", values, kLong));
    EXPECT_THAT(received, ElementsAre(values[r], values[r], values[r]));
  });
}

// A rank in an all-to-all reports it at once, without waiting for its deadline.
TEST(MessageCoordinator, AllRanksFail_WhenOnlySomeCallAllToAll) {
  RankNetwork network(4, {});
  const Statuses statuses = RunRanks(4, Over(&network), [](Coordinator* ranks) {
    if (ranks->rank() == 2) return ranks->Barrier("rows", kLong);
    return ranks->AllToAll("rows", std::vector<std::string>(4, "x"), kLong)
        .status();
  });
  EXPECT_THAT(statuses,
              Each(Aborted("\"barrier rows\"", "\"all-to-all rows\"")));
}

TEST(MessageCoordinator, RunsAllCalls_WhenMessagesAreLost) {
  RankNetwork network(3, {.seed = TestSeed(),
                          .lost = 0.1,
                          .duplicated = 0.2,
                          .max_delay = absl::Milliseconds(5)});
  EXPECT_THAT(RunRanks(3, Over(&network),
                       [](Coordinator* ranks) {
                         const absl::Status status =
                             MakeAllCallsOnTwoThreads(ranks);
                         ranks->Leave();
                         ranks->Leave();  // may be called twice
                         return status;
                       }),
              Each(IsOk()));
}

// All leave right after the last call, and some do not know its outcome yet.
TEST(MessageCoordinator, LeavingOwnerAnswersUntilAllRanksKnowTheOutcome) {
  constexpr uint32_t kWorld = 4;
  constexpr uint32_t kRounds = 16;
  const uint64_t seed = TestSeed();
  RunOnThreads(kRounds, [=](uint32_t round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    RankNetwork network(
        kWorld, {.seed = seed + round, .lost = round % 2 == 0 ? 0.05 : 0.15});
    const Statuses statuses =
        RunRanks(kWorld, Over(&network), [](Coordinator* ranks) {
          const absl::Duration deadline = absl::Seconds(4);
          absl::Status status =
              ranks->Gather("parts", "part", deadline).status();
          status.Update(ranks->Tell("outcome", "saved", deadline).status());
          ranks->Leave();
          return status;
        });
    EXPECT_THAT(statuses, Each(IsOk()));
  });
}

TEST(CollectiveCoordinator, RejectsMissingFunctionsAndInvalidRanks) {
  CollectiveGroup group(2);
  Coordinator::Collectives collectives = group.Join(1);
  collectives.all_to_all = nullptr;
  EXPECT_THAT(CollectiveCoordinator(collectives),
              InvalidArgument("all_to_all is null"));
  collectives = group.Join(1);
  collectives.rank = 2;
  EXPECT_THAT(
      CollectiveCoordinator(collectives),
      InvalidArgument("the rank is 2, expected one below the world size, 2"));
}

// Ranks 0 and 2 of 3 make a call, and rank 1 makes it after they have given up.
TEST(MessageCoordinator, ErrorNamesALateRank_WhichThenRejoins) {
  RankNetwork network(3, {});
  std::vector<std::unique_ptr<Coordinator>> ranks;
  for (uint32_t r = 0; r < 3; ++r) {
    ranks.push_back(MessageCoordinator(network.Join(r)));
  }
  Statuses statuses(3);
  std::thread two([&] { statuses[2] = ranks[2]->Barrier("all", kLong); });
  statuses[0] = ranks[0]->Barrier("all", kShort);
  two.join();
  statuses[1] = ranks[1]->Barrier("all", kLong);
  EXPECT_THAT(statuses, Each(DeadlineExceeded(
                            "ranks 1", "of 3 did not reach \"barrier all\"")));
  RunOnThreads(
      3, [&](uint32_t r) { EXPECT_OK(ranks[r]->Barrier("next", kLong)); });
}

TEST(MessageCoordinator, ErrorNamesAnAbsentOwnerOnAllRanks) {
  RankNetwork network(3, {});
  EXPECT_THAT(
      RunRanks(3, Over(&network),
               [](Coordinator* ranks) -> absl::Status {
                 const bool owner = ranks->rank() == kOwnerRank;
                 if (owner) return absl::DeadlineExceededError("ranks 0 of 3");
                 return ranks->Broadcast("decision", "", kShort).status();
               }),
      Each(DeadlineExceeded("ranks 0 of 3")));
}

// Forwards to another transport.
class ForwardingTransport : public Coordinator::Transport {
 public:
  explicit ForwardingTransport(std::unique_ptr<Coordinator::Transport> sends)
      : sends_(std::move(sends)) {}
  uint32_t rank() const override { return sends_->rank(); }
  uint32_t world_size() const override { return sends_->world_size(); }
  absl::StatusOr<std::vector<Message>> Exchange(std::vector<Message> outgoing,
                                                absl::Time give_up) override {
    return sends_->Exchange(std::move(outgoing), give_up);
  }
  size_t unsent() const override { return sends_->unsent(); }

 private:
  const std::unique_ptr<Coordinator::Transport> sends_;
};

// Over TCP, sending to a process that is gone blocks; here, to rank 2.
class StuckTransport : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;
  absl::StatusOr<std::vector<Message>> Exchange(std::vector<Message> outgoing,
                                                absl::Time give_up) override {
    stuck_ += std::erase_if(
        outgoing, [](const Message& message) { return message.rank == 2; });
    return ForwardingTransport::Exchange(std::move(outgoing), give_up);
  }
  size_t unsent() const override {
    return ForwardingTransport::unsent() + stuck_;
  }

 private:
  size_t stuck_ = 0;
};

template <typename T>
Join Through(RankNetwork* network) {
  return [=](uint32_t rank) {
    return MessageCoordinator(std::make_unique<T>(network->Join(rank)));
  };
}

// The others wait for the owner, so it must take less than a deadline, whether
// or not it knows of the missing rank.
TEST(MessageCoordinator, OwnerNotifiesTheOthersAtOnce_WhenARankIsGone) {
  constexpr absl::Duration kTell = absl::Seconds(20);
  RankNetwork network(3, {});
  const Statuses statuses =
      RunRanks(2, Through<StuckTransport>(&network), [&](Coordinator* ranks) {
        const absl::Time begun = absl::Now();
        for (int i = 0; i < 6; ++i) {
          CKPTDB_RETURN_IF_ERROR(
              ranks->Tell("outcome", "done", kTell).status());
          if (i != 2) continue;
          ranks->Gather("part", "mine", kShort).IgnoreError();
        }
        EXPECT_LT(absl::Now() - begun, kTell / 2);
        return ranks->Barrier("next", kShort);
      });
  EXPECT_THAT(statuses, Each(DeadlineExceeded("ranks 2 of 3")));
}

// The owner is busy first, for example with a save in progress.
TEST(MessageCoordinator, LateOwnerStillNamesTheMissingRank) {
  constexpr absl::Duration kWait = absl::Seconds(2);
  RankNetwork network(3, {});
  const Statuses statuses =
      RunRanks(2, Through<StuckTransport>(&network), [&](Coordinator* ranks) {
        if (ranks->rank() == kOwnerRank) absl::SleepFor(1.2 * kWait);
        return Agree(ranks, "saved", absl::OkStatus(), kWait);
      });
  EXPECT_THAT(statuses, Each(DeadlineExceeded("ranks 2 of 3")));
}

// Mistakes rank 1 for rank 9.
class StrayTransport : public ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;
  absl::StatusOr<std::vector<Message>> Exchange(std::vector<Message> outgoing,
                                                absl::Time give_up) override {
    auto incoming = ForwardingTransport::Exchange(std::move(outgoing), give_up);
    if (!incoming.ok()) return incoming;
    for (Message& message : *incoming) message.rank = 9;
    return incoming;
  }
};

TEST(MessageCoordinator, MessageFromANonexistentRankIsAnError) {
  RankNetwork network(2, {});
  const Statuses statuses = RunRanks(
      2, Through<StrayTransport>(&network),
      [](Coordinator* ranks) { return ranks->Barrier("meet", kShort); });
  EXPECT_THAT(statuses[kOwnerRank],
              Internal("from rank 9; the ranks are 0 to 1"));
  EXPECT_THAT(statuses[1], Not(IsOk()));
}

TEST(MessageCoordinator, AllRanksFail_WhenTheirCallsDiffer) {
  RankNetwork network(3, {});
  const Statuses statuses = RunRanks(3, Over(&network), [](Coordinator* ranks) {
    const bool owner = ranks->rank() == kOwnerRank;
    const absl::Status status = ranks->Barrier(owner ? "save" : "load", kLong);
    EXPECT_OK(ranks->Barrier("after", kLong));
    return status;
  });
  EXPECT_THAT(statuses, Each(Aborted("\"barrier save\"", "\"barrier load\"")));
}

TEST(CollectiveCoordinator, GroupsErrorNamesTheMissingRank) {
  CollectiveGroup group(3);
  EXPECT_THAT(
      RunRanks(3, Over(&group),
               [](Coordinator* ranks) -> absl::Status {
                 if (ranks->rank() == 2) {
                   return absl::DeadlineExceededError("not there were ranks 2");
                 }
                 const absl::Status status = ranks->Barrier("all", kShort);
                 // Such a group cannot be used again.
                 EXPECT_EQ(ranks->Barrier("next", kLong), status);
                 return status;
               }),
      Each(DeadlineExceeded("not there were ranks 2")));
}

TEST(CollectiveCoordinator, AllRanksFail_WhenACollectiveFailsOnOne) {
  using Kind = CollectiveFaults::Kind;
  for (const Kind kind :
       {Kind::kFailBefore, Kind::kFailAfter, Kind::kWrongCount, Kind::kThrow}) {
    for (uint64_t at_call = 0; at_call < 6; ++at_call) {
      SCOPED_TRACE(absl::StrCat(static_cast<int>(kind), " at ", at_call));
      CollectiveGroup group(3);
      CollectiveFaults faults;
      faults.kind = kind;
      faults.at_call = at_call;
      const auto join = [&](uint32_t rank) {
        Coordinator::Collectives own = group.Join(rank);
        return *CollectiveCoordinator(rank == 1 ? Disturb(own, faults) : own);
      };
      const Statuses statuses = RunRanks(3, join, [](Coordinator* ranks) {
        absl::Status status;
        for (int i = 0; i < 4 && status.ok(); ++i) {
          status = ranks->Barrier("all", kLong);
        }
        return status;
      });
      for (const absl::Status& status : statuses) {
        EXPECT_FALSE(status.ok());
        EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1: "));
      }
    }
  }
}

// Each rank ends the all-gather as soon as all have begun it, while the others
// continue training.
absl::Status EndAlone(Coordinator* ranks, std::atomic<int>* ended) {
  CKPTDB_ASSIGN_OR_RETURN(const auto votes, ranks->Duplicate());
  for (int round = 0; round < 20; ++round) {
    const auto begun = votes->StartAllGather("votes", absl::StrCat(round));
    CKPTDB_RETURN_IF_ERROR(ranks->Barrier("all have begun", kLong));
    // The owner gathers the values and sends them.
    begun->Poll();
    CKPTDB_RETURN_IF_ERROR(ranks->Barrier("all have polled", kLong));
    const uint32_t first = static_cast<uint32_t>(round) % ranks->world_size();
    if (ranks->rank() != first) {
      while (*ended <= round) std::this_thread::yield();
    }
    CKPTDB_ASSIGN_OR_RETURN(const auto values, begun->Finish(kLong));
    EXPECT_THAT(values, SizeIs(ranks->world_size()));
    EXPECT_THAT(values, Each(absl::StrCat(round)));
    if (ranks->rank() == first) ++*ended;
    CKPTDB_RETURN_IF_ERROR(ranks->Barrier("all have ended", kLong));
  }
  return absl::OkStatus();
}

TEST(AllGather, EndsWithoutTheOtherRanks) {
  std::atomic<int> ended = 0;
  const auto end = [&](Coordinator* ranks) { return EndAlone(ranks, &ended); };
  ThreadGroup threads(3);
  const auto on_threads = [&](uint32_t rank) { return threads.Join(rank); };
  EXPECT_THAT(RunRanks(3, on_threads, end), Each(IsOk()));
  ended = 0;
  RankNetwork network(3, {});
  EXPECT_THAT(RunRanks(3, Over(&network), end), Each(IsOk()));
  ended = 0;
  CollectiveGroup group(3);
  EXPECT_THAT(RunRanks(3, Over(&group), end), Each(IsOk()));
}

// All other ranks name it at the deadline.
TEST(AllGather, ErrorNamesTheRankThatHasNotBegunIt) {
  const auto end = [](Coordinator* ranks) -> absl::Status {
    if (ranks->rank() == 2) {
      return absl::DeadlineExceededError("ranks 2 of 3 is this rank");
    }
    const auto begun = ranks->StartAllGather("votes", "");
    begun->Poll();
    return begun->Finish(kShort).status();
  };
  ThreadGroup threads(3);
  const auto on_threads = [&](uint32_t rank) { return threads.Join(rank); };
  EXPECT_THAT(RunRanks(3, on_threads, end),
              Each(DeadlineExceeded("ranks 2 of 3")));
  RankNetwork network(3, {});
  EXPECT_THAT(RunRanks(3, Over(&network), end),
              Each(DeadlineExceeded("ranks 2 of 3")));
  CollectiveGroup group(3);
  const Statuses statuses = RunRanks(3, Over(&group), end);
  EXPECT_THAT(statuses[0], DeadlineExceeded("not there were ranks 2"));
  EXPECT_THAT(statuses[1], DeadlineExceeded("not there were ranks 2"));
}

// All ranks leave while the all-gather is in progress.
TEST(AllGather, LeavingDoesNotWaitForAnUnfinishedAllGather) {
  RankNetwork network(3, {});
  const auto leave = [](Coordinator* ranks) -> absl::Status {
    const auto votes = *ranks->Duplicate();
    const auto begun = votes->StartAllGather("votes", "");
    CKPTDB_RETURN_IF_ERROR(ranks->Barrier("all have begun", kLong));
    begun->Poll();
    CKPTDB_RETURN_IF_ERROR(ranks->Barrier("all have polled", kLong));
    const absl::Time left = absl::Now();
    ranks->Leave();
    EXPECT_LT(absl::Now() - left, absl::Seconds(2));
    return absl::OkStatus();
  };
  EXPECT_THAT(RunRanks(3, Over(&network), leave), Each(IsOk()));
}

TEST(AllGather, AllRanksFail_WhenTheirTagsDiffer) {
  const auto end = [](Coordinator* ranks) {
    const bool owner = ranks->rank() == kOwnerRank;
    return ranks->StartAllGather(owner ? "step 3" : "step 4", "")
        ->Finish(kLong)
        .status();
  };
  ThreadGroup threads(2);
  const auto on_threads = [&](uint32_t rank) { return threads.Join(rank); };
  EXPECT_THAT(RunRanks(2, on_threads, end), Each(Aborted("step 3", "step 4")));
  RankNetwork network(2, {});
  EXPECT_THAT(RunRanks(2, Over(&network), end),
              Each(Aborted("step 3", "step 4")));
  CollectiveGroup group(2);
  EXPECT_THAT(RunRanks(2, Over(&group), end),
              Each(Aborted("step 3", "step 4")));
}

// The trainer's functions in the header's example.
using ProcessGroup = Coordinator::Collectives;
absl::StatusOr<std::vector<std::string>> AllGather(const ProcessGroup& pg,
                                                   std::string own) {
  return pg.all_gather(std::move(own));
}
absl::StatusOr<std::string> FromZero(const ProcessGroup& pg,
                                     std::string value) {
  return pg.broadcast(std::move(value));
}
absl::StatusOr<std::vector<std::string>> AllToAll(
    const ProcessGroup& pg, std::vector<std::string> values) {
  return pg.all_to_all(std::move(values));
}
void Abort(const ProcessGroup& pg, const absl::Status& why) { pg.abort(why); }

TEST(HeaderExamples, Collectives) {
  CollectiveGroup trainer(2);
  std::vector<std::thread> threads;
  for (uint32_t torch_rank = 0; torch_rank < 2; ++torch_rank) {
    threads.emplace_back([&trainer, torch_rank,
                          torch_world_size = uint32_t{2}] {
      const ProcessGroup pg = trainer.Join(torch_rank);
      Coordinator::Collectives group;
      group.rank = torch_rank;
      group.world_size = torch_world_size;
      group.all_gather = [&](std::string own) { return AllGather(pg, own); };
      group.broadcast = [&](std::string value) { return FromZero(pg, value); };
      group.all_to_all = [&](std::vector<std::string> to) {
        return AllToAll(pg, to);
      };
      group.abort = [&](const absl::Status& why) { Abort(pg, why); };
      auto ranks = CollectiveCoordinator(std::move(group));
      ASSERT_OK(ranks.status());
      EXPECT_OK((*ranks)->Barrier("all", kLong));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ckptdb::testing
