// SPDX-License-Identifier: Apache-2.0
// Tests managers over messages and over collectives while messages and ranks
// are lost.
#include <algorithm>
#include <random>
#include <tuple>

#include "tests/manager/rank_model.h"
#include "tests/manager/ranks/run_ranks.h"
#include "tests/manager/test_options.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

// Managers of that many ranks that save every that many steps: every second, so
// that ranks meet at each step, every tenth, or so rarely that they exchange
// notices between.
class RankFaultsTest
    : public ::testing::TestWithParam<std::tuple<uint32_t, int64_t>> {
 protected:
  void SetUp() override {
    options_ = TestOptions(dir_.path() + "/store", save_every());
    options_.ranks.deadline = absl::Seconds(3);
    options_.ranks.sharding = TableSharding::BySlices();
    options_.restore.io_state_resize =
        ManagerOptions::IoStateResize::kRedistribute;
  }

  uint32_t world_size() const { return std::get<0>(GetParam()); }
  int64_t save_every() const { return std::get<1>(GetParam()); }
  int64_t steps() const { return 3 * save_every(); }

  // Each rank closes, and is gone, as soon as it knows the outcome of its last
  // save.
  absl::Status Train(std::unique_ptr<Coordinator> ranks) const {
    const uint32_t rank = ranks->rank();
    RankModel model(rank, world_size());
    CKPTDB_ASSIGN_OR_RETURN(
        const auto manager,
        CheckpointManager::Open(options_, &model.state, std::move(ranks)));
    while (manager->global_step() < steps()) {
      model.Train(manager->global_step() + 1, rank);
      CKPTDB_RETURN_IF_ERROR(manager->Step().status());
      // Saves are reported at their own step.
      CKPTDB_RETURN_IF_ERROR(manager->WaitUntilFinished());
    }
    return absl::OkStatus();
  }

  Statuses TrainAll(const Join& join) const {
    Statuses statuses(world_size());
    RunOnThreads(world_size(),
                 [&](uint32_t r) { statuses[r] = Train(join(r)); });
    return statuses;
  }

  // Whatever happened, the store contains only complete steps: another job
  // restores the newest. It is the last step if any rank returned OK for it.
  void ExpectWholeStore(const Statuses& statuses) const {
    RankModel model(0, 1);
    ASSERT_OK_AND_ASSIGN(const auto manager,
                         CheckpointManager::Open(options_, &model.state));
    const bool trained = std::any_of(statuses.begin(), statuses.end(),
                                     [](const auto& s) { return s.ok(); });
    const auto report = manager->Restore();
    if (!trained && absl::IsNotFound(report.status())) return;
    ASSERT_OK(report.status());
    EXPECT_TRUE(model.IsTrained(report->version.step, 0, 1));
    if (trained) {
      EXPECT_EQ(report->version.step, steps());
    }
  }

  TempDir dir_;
  ManagerOptions options_;
};

TEST_P(RankFaultsTest, LateLostAndDuplicateMessagesChangeNothing) {
  options_.ranks.deadline = absl::Minutes(1);
  RankNetwork network(world_size(), {.seed = TestSeed() + world_size(),
                                     .lost = 0.05,
                                     .duplicated = 0.1,
                                     .max_delay = absl::Milliseconds(3)});
  const Statuses statuses = TrainAll(Over(&network));
  EXPECT_THAT(statuses, Each(IsOk()));
  ExpectWholeStore(statuses);
}

TEST_P(RankFaultsTest, OthersNameARankThatDiesAtAnyMessage) {
  if (world_size() == 1) return;
  std::mt19937_64 random(TestSeed() + world_size());
  NetworkFaults faults;
  faults.seed = random();
  faults.max_delay = absl::Milliseconds(1);
  const auto killed = static_cast<uint32_t>(random() % world_size());
  faults.killed = killed;
  faults.after_messages = random() % 40;
  SCOPED_TRACE(absl::StrCat("rank ", killed, " of ", world_size(), " after ",
                            faults.after_messages, " messages"));
  RankNetwork network(world_size(), faults);
  const Statuses statuses = TrainAll(Over(&network));
  if (network.IsDead(killed)) {
    for (uint32_t r = 0; r < world_size(); ++r) {
      if (r == killed) continue;
      // A rank that knows the outcome of the last save sends nothing more.
      EXPECT_THAT(statuses[r], AnyOf(IsOk(), DeadlineExceeded(absl::StrCat(
                                                 "ranks ", killed, " of "))));
    }
  } else {
    EXPECT_THAT(statuses, Each(IsOk()));
  }
  ExpectWholeStore(statuses);
}

TEST_P(RankFaultsTest, AllRanksReturnTheErrorOfAFailedCollective) {
  if (world_size() == 1) return;
  std::mt19937_64 random(TestSeed() + world_size());
  CollectiveGroup group(world_size());
  CollectiveFaults faults;
  const auto failing = static_cast<uint32_t>(random() % world_size());
  faults.kind = static_cast<CollectiveFaults::Kind>(random() % 4);
  faults.at_call = random() % 60;
  faults.seed = random();
  faults.max_delay = absl::Milliseconds(1);
  SCOPED_TRACE(absl::StrCat("rank ", failing, " of ", world_size(), ", kind ",
                            static_cast<int>(faults.kind), " at ",
                            faults.at_call));
  const Statuses statuses = TrainAll([&](uint32_t rank) {
    Coordinator::Collectives own = group.Join(rank);
    return *CollectiveCoordinator(rank == failing ? Disturb(own, faults) : own);
  });
  const bool all_ok = statuses[failing].ok();
  for (const absl::Status& status : statuses) {
    if (all_ok) {
      EXPECT_OK(status);
    } else {
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat("rank ", failing, ": ")));
    }
  }
  ExpectWholeStore(statuses);
}

TEST_P(RankFaultsTest, OthersNameARankWhoseCollectivesDie) {
  if (world_size() == 1) return;
  std::mt19937_64 random(TestSeed() + world_size());
  CollectiveGroup group(world_size());
  CollectiveFaults faults;
  const auto dead = static_cast<uint32_t>(random() % world_size());
  faults.kind = CollectiveFaults::Kind::kDie;
  faults.at_call = random() % 60;
  SCOPED_TRACE(absl::StrCat("rank ", dead, " of ", world_size(), " at ",
                            faults.at_call));
  const Statuses statuses = TrainAll([&](uint32_t rank) {
    Coordinator::Collectives own = group.Join(rank);
    return *CollectiveCoordinator(rank == dead ? Disturb(own, faults) : own);
  });
  const bool all_ok = statuses[dead].ok();
  for (uint32_t r = 0; r < world_size(); ++r) {
    if (r == dead) continue;
    if (all_ok) {
      EXPECT_OK(statuses[r]);
      continue;
    }
    EXPECT_THAT(statuses[r], DeadlineExceeded(EndsWith(absl::StrCat(
                                 "; not there were ranks ", dead))));
  }
  ExpectWholeStore(statuses);
}

INSTANTIATE_TEST_SUITE_P(Worlds, RankFaultsTest,
                         ::testing::Combine(::testing::Values(1, 2, 3, 5, 8,
                                                              16),
                                            ::testing::Values(2)));
INSTANTIATE_TEST_SUITE_P(SilentSteps, RankFaultsTest,
                         ::testing::Combine(::testing::Values(2, 3, 8),
                                            ::testing::Values(10)));
INSTANTIATE_TEST_SUITE_P(Exchanges, RankFaultsTest,
                         ::testing::Combine(::testing::Values(2, 3, 8),
                                            ::testing::Values(60)));

}  // namespace
}  // namespace ckptdb::testing
