// SPDX-License-Identifier: Apache-2.0
// Managers of very many ranks, which are threads with a few numbers each: the
// saved values, the memory and the bytes sent.
#include <iostream>

#include "manager/coordinator.h"
#include "tests/manager/ranks/rank_network.h"
#include "tests/manager/test_options.h"
#include "tests/support/allocated_bytes.h"
#include "tests/support/long_run.h"
#include "tests/support/on_threads.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

constexpr int64_t kElements = 8;  // per rank
constexpr int64_t kSaves = 3;

using JoinRank = std::function<std::unique_ptr<Coordinator>(uint32_t rank)>;
using OnSaved = std::function<void()>;

class ManyRanks {
 public:
  explicit ManyRanks(uint32_t world_size, int64_t saves = kSaves)
      : world_size_(world_size),
        saves_(saves),
        options_(TestOptions(dir_.path() + "/store")) {
    options_.save.async = false;
    options_.ranks.deadline = absl::Minutes(5);
    options_.store.stage_threads = 1;
  }

  // Saves the steps on all ranks. Rank 0 calls `on_saved` after each.
  void SaveAll(const JoinRank& join, const OnSaved& on_saved = nullptr) {
    std::vector<absl::Status> statuses(world_size_);
    RunOnThreads(world_size_, [&](uint32_t rank) {
      statuses[rank] = Save(rank, join(rank), on_saved);
    });
    EXPECT_THAT(statuses, Each(IsOk()));
  }

  // Expects that the newest step contains each rank's values.
  void ExpectSaved() const {
    ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(options_.path));
    ASSERT_OK_AND_ASSIGN(const auto step, store->OpenStep(saves_));
    EXPECT_EQ(step->record().world_size, world_size_);
    std::vector<float> values(size_t(kElements * world_size_));
    ASSERT_OK(step->ReadTensor("shard", values.data(),
                               values.size() * sizeof(float)));
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], static_cast<float>(i + static_cast<size_t>(saves_)));
    }
  }

 private:
  absl::Status Save(uint32_t rank, std::unique_ptr<Coordinator> ranks,
                    const OnSaved& on_saved) const {
    std::vector<float> values;
    for (int64_t i = 0; i < kElements; ++i) {
      values.push_back(static_cast<float>(kElements * rank + i));
    }
    TensorState shard = TensorState::Of(values.data(), {kElements});
    shard.global_shape = {kElements * world_size_};
    shard.offset = {kElements * rank};
    ModelState model;
    CKPTDB_RETURN_IF_ERROR(model.AddTensor("shard", shard));
    CKPTDB_ASSIGN_OR_RETURN(
        const auto manager,
        CheckpointManager::Open(options_, &model, std::move(ranks)));
    for (int64_t step = 1; step <= saves_; ++step) {
      for (float& value : values) value += 1;
      CKPTDB_RETURN_IF_ERROR(manager->Step().status());
      if (rank == kOwnerRank && on_saved) on_saved();
    }
    return manager->Close();
  }

  const uint32_t world_size_;
  const int64_t saves_;
  TempDir dir_;
  ManagerOptions options_;
};

TEST(ManyRanks, AThousandRanksSaveTogether) {
  constexpr uint32_t kRanks = 1024;
  ThreadGroup group(kRanks);
  ManyRanks ranks(kRanks);
  ranks.SaveAll([&](uint32_t rank) { return group.Join(rank); });
  ranks.ExpectSaved();
}

// Returns the bytes that all ranks together allocate in the second save. Those
// of later ones depend on when RocksDB compacts.
uint64_t AllocatedInASave(uint32_t world_size) {
  ThreadGroup group(world_size);
  std::vector<uint64_t> after;
  ManyRanks ranks(world_size, /*saves=*/2);
  ranks.SaveAll([&](uint32_t rank) { return group.Join(rank); },
                [&] { after.push_back(AllocatedBytes()); });
  ranks.ExpectSaved();
  return after[1] - after[0];
}

// Memory that grew with the square of the ranks would take four times as much
// for each of 1024 ranks as for each of 256. In smaller worlds the parts that
// all ranks share still count.
TEST(ManyRanks, MemoryPerRankIsConstant) {
  if (!kCountsAllocations) {
    GTEST_SKIP() << "the sanitizer replaces operator new";
  }
  constexpr uint64_t kFew = 256;
  constexpr uint64_t kMany = 1024;
  const uint64_t few = AllocatedInASave(kFew);
  const uint64_t many = AllocatedInASave(kMany);
  std::cout << few / kFew << " and " << many / kMany << " bytes a rank\n";
  EXPECT_LE(many / kMany, few / kFew * 5 / 4);
}

// What rank 0 receives and sends for a save: of several saves, the one with the
// fewest messages, as ranks ask again after long waits on a busy machine.
NetworkTraffic TrafficOfASave(uint32_t world_size) {
  RankNetwork network(world_size, {});
  std::vector<NetworkTraffic> after;
  ManyRanks ranks(world_size, /*saves=*/8);
  ranks.SaveAll(
      [&](uint32_t rank) { return MessageCoordinator(network.Join(rank)); },
      [&] { after.push_back(network.TrafficOf(kOwnerRank)); });
  ranks.ExpectSaved();
  NetworkTraffic least = {UINT64_MAX, UINT64_MAX};
  for (size_t i = 1; i < after.size(); ++i) {
    const uint64_t messages = after[i].messages - after[i - 1].messages;
    if (messages >= least.messages) continue;
    least = {messages, after[i].bytes - after[i - 1].bytes};
  }
  return least;
}

// Each rank is sent only its own ticket. If each were sent all tickets, 32
// ranks would cost four times as much per rank as 8.
TEST(ManyRanks, BytesSentPerRankAreConstant) {
  constexpr uint64_t kFew = 8;
  constexpr uint64_t kMany = 32;
  // Two Gathers and three Tells, plus retries after long waits on a busy
  // machine.
  constexpr uint64_t kMessagesOfARank = 5;
  const NetworkTraffic few = TrafficOfASave(kFew);
  const NetworkTraffic many = TrafficOfASave(kMany);
  EXPECT_GE(few.messages, kMessagesOfARank * (kFew - 1));
  // A sanitizer makes any machine a busy one.
  if (!kSanitized) {
    EXPECT_LE(many.messages, 2 * kMessagesOfARank * kMany);
  }
  EXPECT_LE(many.bytes / kMany, few.bytes / kFew * 3 / 2);
  // A rank's ticket contains its record in the previous step, and its part the
  // next.
  constexpr uint64_t kMaxBytesOfARank = 8192;
  EXPECT_LE(many.bytes, kMaxBytesOfARank * kMany);
}

// The example of docs/manager.md.
absl::StatusOr<SaveResult> SaveByLeaders(Store* store, const SaveSpec& spec,
                                         const std::vector<RankState>& states) {
  CKPTDB_ASSIGN_OR_RETURN(const Store::Attempt attempt, store->Begin(spec));
  std::vector<StagedRank> parts(spec.world_size);
  for (uint32_t rank = 0; rank < spec.world_size; ++rank) {
    CKPTDB_ASSIGN_OR_RETURN(
        parts[rank], Stage(store->path(), attempt.tickets[rank], states[rank]));
  }
  return store->Publish(attempt.version, parts, {});
}

TEST(ManyRanks, OneProcessStagesForTheRanksOfItsHost) {
  const TempDir dir;
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(dir.path() + "/store"));
  const std::vector<std::vector<float>> values = {{1, 2}, {3, 4}, {5, 6}};
  std::vector<RankState> states(values.size());
  for (size_t rank = 0; rank < values.size(); ++rank) {
    TensorView shard = TensorView::Of(values[rank].data(), {2});
    shard.global_shape = {6};
    shard.offset = {static_cast<int64_t>(2 * rank)};
    states[rank].AddTensor("shard", shard);
  }
  ASSERT_OK(SaveByLeaders(store.get(), {.step = 7, .world_size = 3}, states));
  ASSERT_OK_AND_ASSIGN(const auto step, store->OpenStep(7));
  std::vector<float> all(6);
  ASSERT_OK(step->ReadTensor("shard", all.data(), sizeof(float) * all.size()));
  EXPECT_THAT(all, ElementsAre(1, 2, 3, 4, 5, 6));
}

}  // namespace
}  // namespace ckptdb::testing
