// SPDX-License-Identifier: Apache-2.0
// Managers over messages that may be lost, which end after a save: a rank that
// has ended answers the others until they know of the commit.
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "manager/checkpoint_manager.h"
#include "manager/coordinator.h"
#include "schema/status.h"
#include "tests/manager/ranks/rank_network.h"
#include "tests/support/seed.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

using ::testing::Each;

constexpr uint32_t kLossyWorld = 4;
constexpr int kLossyRounds = 12;

// Ends the use of a manager. Managers that exist afterwards are destroyed when
// all ranks have ended.
using EndManager =
    std::function<absl::Status(std::unique_ptr<CheckpointManager>* manager)>;

// Opens a manager, saves a step and ends.
absl::Status SaveAndEnd(const ManagerOptions& options,
                        std::unique_ptr<Coordinator> ranks,
                        const EndManager& end,
                        std::unique_ptr<CheckpointManager>* manager) {
  std::vector<float> weights(8, 1);
  ModelState model;
  CKPTDB_RETURN_IF_ERROR(
      model.AddTensor("weights", TensorState::Of(weights.data(), {8})));
  CKPTDB_ASSIGN_OR_RETURN(
      *manager, CheckpointManager::Open(options, &model, std::move(ranks)));
  CKPTDB_RETURN_IF_ERROR((*manager)->Step().status());
  return end(manager);
}

// Runs one round with this seed. Returns the results by rank.
std::vector<absl::Status> RunLossyRound(uint64_t seed, const EndManager& end) {
  const TempDir dir;
  ManagerOptions options;
  options.path = dir.path() + "/store";
  options.schedule.permanent = SaveEveryNSteps(1);
  options.save.async = false;
  options.store.background_sweep = false;
  options.ranks.deadline = absl::Seconds(20);
  NetworkFaults faults;
  faults.seed = seed;
  faults.lost = 0.15;
  RankNetwork network(kLossyWorld, faults);
  std::vector<absl::Status> statuses(kLossyWorld);
  std::vector<std::unique_ptr<CheckpointManager>> managers(kLossyWorld);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kLossyWorld; ++rank) {
    threads.emplace_back([&, rank] {
      statuses[rank] =
          SaveAndEnd(options, MessageCoordinator(network.Join(rank)), end,
                     &managers[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

void ExpectAllRanksKnowOfTheCommit(const EndManager& end) {
  std::vector<std::vector<absl::Status>> statuses(kLossyRounds);
  std::vector<std::thread> rounds;
  for (int round = 0; round < kLossyRounds; ++round) {
    rounds.emplace_back([&, round] {
      statuses[round] =
          RunLossyRound(TestSeed() + static_cast<uint64_t>(round), end);
    });
  }
  for (std::thread& round : rounds) round.join();
  for (int round = 0; round < kLossyRounds; ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    EXPECT_THAT(statuses[round], Each(IsOk()));
  }
}

TEST(LossyClose, AllRanksKnowOfTheCommit_WhenManagersAreClosed) {
  ExpectAllRanksKnowOfTheCommit(
      [](std::unique_ptr<CheckpointManager>* manager) {
        return (*manager)->Close();
      });
}

TEST(LossyClose, AllRanksKnowOfTheCommit_WhenManagersAreDestroyed) {
  ExpectAllRanksKnowOfTheCommit(
      [](std::unique_ptr<CheckpointManager>* manager) {
        manager->reset();
        return absl::OkStatus();
      });
}

}  // namespace
}  // namespace ckptdb::testing
