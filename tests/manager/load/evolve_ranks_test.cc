// SPDX-License-Identifier: Apache-2.0
// Restores of evolved tables on another number of ranks.
#include "tests/manager/load/f32_table.h"
#include "tests/manager/run_ranks.h"
#include "tests/manager/test_options.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

// Ranks as threads, with a table sharded over them.
class EvolveRanksTest : public ::testing::TestWithParam<Item::Sharding> {
 protected:
  EvolveRanksTest() { options_ = TestOptions(dir_.path() + "/store"); }
  struct Rank {
    std::unique_ptr<F32Table> users;
    std::unique_ptr<CheckpointManager> manager;
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
    std::vector<Rank> ranks(world);
    const auto run = [&](uint32_t r, auto coordinator) -> absl::Status {
      Rank& rank = ranks[r];
      rank.users = std::make_unique<F32Table>(
          slots, TableOptions{.slice_hash = SliceHash::kMix});
      ModelState model;
      CKPTDB_RETURN_IF_ERROR(model.AddTable(
          "user", rank.users.get(),
          GetParam() == Item::Sharding::kByModulo ? TableSharding::ByModulo()
                                                  : TableSharding::BySlices()));
      CKPTDB_ASSIGN_OR_RETURN(
          rank.manager,
          CheckpointManager::Open(options_, &model, std::move(coordinator)));
      CKPTDB_RETURN_IF_ERROR(body(r, &rank));
      absl::Status closed = rank.manager->Close();
      rank.manager.reset();
      return closed;
    };
    EXPECT_THAT(OnRanks(world, run), Each(IsOk()));
    F32Table::Rows all;
    for (const Rank& rank : ranks) {
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
        CKPTDB_RETURN_IF_ERROR(
            own->manager
                ->Restore(
                    {.evolve =
                         EvolvePolicy{
                             .tables = {{"user",
                                         {.fill = {{"adagrad_sum", 0.5}}}}}}})
                .status());
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
