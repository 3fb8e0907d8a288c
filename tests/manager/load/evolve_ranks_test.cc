// SPDX-License-Identifier: Apache-2.0
// Restores of evolved tables on another number of ranks.
#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "manager/checkpoint_manager.h"
#include "tests/manager/load/f32_table.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

// Ranks as threads, with a table sharded over them.
class EvolveRanksTest : public ::testing::TestWithParam<Item::Sharding> {
 protected:
  EvolveRanksTest() {
    options_.path = dir_.path() + "/store";
    options_.schedule.permanent = SaveEveryNSteps(1);
    options_.save.bounds.max_delta_ratio = 100;
    options_.ranks.deadline = absl::Seconds(60);
  }
  struct Rank {
    std::unique_ptr<F32Table> users;
    std::unique_ptr<CheckpointManager> manager;
    absl::Status status;
  };
  static bool Owns(int64_t id, uint32_t rank, uint32_t world) {
    if (GetParam() == Item::Sharding::kByModulo) {
      return static_cast<uint64_t>(id) % world == rank;
    }
    const std::vector<uint32_t> bounds = EvenSliceBounds(world);
    const uint16_t slice = SliceOf(id, SliceHash::kMix);
    return bounds[rank] <= slice && slice < bounds[rank + 1];
  }
  // Runs `body` on each rank of a world, each with a table of these slots, and
  // returns the rows of all ranks.
  F32Table::Rows Run(
      uint32_t world, const std::vector<Slot>& slots,
      const std::function<absl::Status(uint32_t rank, Rank* own)>& body) {
    ThreadGroup group(world);
    std::vector<Rank> ranks(world);
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < world; ++r) {
      threads.emplace_back([&, r] {
        TableOptions options;
        options.slice_hash = SliceHash::kMix;
        ranks[r].users = std::make_unique<F32Table>(slots, options);
        ranks[r].status = [&]() -> absl::Status {
          ModelState model;
          CKPTDB_RETURN_IF_ERROR(
              model.AddTable("user", ranks[r].users.get(),
                             GetParam() == Item::Sharding::kByModulo
                                 ? TableSharding::ByModulo()
                                 : TableSharding::BySlices()));
          CKPTDB_ASSIGN_OR_RETURN(
              ranks[r].manager,
              CheckpointManager::Open(options_, &model, group.Join(r)));
          CKPTDB_RETURN_IF_ERROR(body(r, &ranks[r]));
          const absl::Status closed = ranks[r].manager->Close();
          ranks[r].manager.reset();
          return closed;
        }();
      });
    }
    for (std::thread& thread : threads) thread.join();
    F32Table::Rows all;
    for (const Rank& rank : ranks) {
      EXPECT_OK(rank.status);
      for (const auto& [id, row] : rank.users->rows()) all[id] = row;
    }
    return all;
  }

  TempDir dir_;
  ManagerOptions options_;
};

TEST_P(EvolveRanksTest, FilledSlotIsSavedAndRestoredOnAnyNumberOfRanks) {
  const auto train = [](int64_t step, size_t width, uint32_t world) {
    return [=](uint32_t rank, Rank* own) -> absl::Status {
      for (int64_t id = step; id < step + 20; ++id) {
        if (!Owns(id, rank, world)) continue;
        own->users->Set(id, std::vector<float>(width, static_cast<float>(id)));
      }
      return own->manager->Step().status();
    };
  };
  Run(2, {kEmbedding}, [&](uint32_t rank, Rank* own) -> absl::Status {
    CKPTDB_RETURN_IF_ERROR(train(0, 2, 2)(rank, own));
    return train(10, 2, 2)(rank, own);
  });
  const F32Table::Rows evolved =
      Run(3, {kEmbedding, kSum}, [&](uint32_t rank, Rank* own) -> absl::Status {
        RestoreRequest request;
        request.evolve = EvolvePolicy{
            .tables = {{"user", {.fill = {{"adagrad_sum", 0.5}}}}}};
        CKPTDB_RETURN_IF_ERROR(own->manager->Restore(request).status());
        CKPTDB_RETURN_IF_ERROR(train(20, 3, 3)(rank, own));
        return train(30, 3, 3)(rank, own);
      });
  ASSERT_EQ(evolved.size(), 50U);
  EXPECT_EQ(evolved.at(3), (std::vector<float>{3, 3, 0.5}));
  EXPECT_EQ(evolved.at(25), (std::vector<float>{25, 25, 25}));
  EXPECT_EQ(
      Run(2, {kEmbedding, kSum},
          [](uint32_t, Rank* own) { return own->manager->Restore().status(); }),
      evolved);
}

INSTANTIATE_TEST_SUITE_P(Shardings, EvolveRanksTest,
                         ::testing::Values(Item::Sharding::kBySlices,
                                           Item::Sharding::kByModulo));

}  // namespace
}  // namespace ckptdb::testing
