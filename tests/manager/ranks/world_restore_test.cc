// What is saved by whom, and restored on any number of ranks: random models on
// random worlds, by CKPTDB_SEED.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "ckptdb/manager/checkpoint_manager.h"
#include "ckptdb/schema/status.h"
#include "ckptdb/tests/manager/world_model.h"
#include "ckptdb/tests/support/seed.h"
#include "ckptdb/tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

class WorldRestoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.path = dir_.path() + "/store";
    options_.store.background_sweep = false;
    options_.bounds.max_delta_ratio = 100;
    options_.deadline = absl::Seconds(60);
    options_.io_state_resize = ManagerOptions::IoStateResize::kReset;
    options_.schedule.permanent = SaveEveryNSteps(1);
  }

  static uint32_t RandomWorld(std::mt19937_64* random) {
    return static_cast<uint32_t>(1 + (*random)() % 6);
  }
  static absl::Status RestoreAndExpect(WorldRank* rank, int64_t step) {
    CKPTDB_ASSIGN_OR_RETURN(const CheckpointManager::RestoreReport report,
                            rank->manager->Restore());
    EXPECT_EQ(report.version.step, step);
    rank->model->ExpectTrained(step);
    return absl::OkStatus();
  }
  // The ranks that have a tensor in the newest step.
  std::map<std::string, std::set<uint32_t>> Savers() const {
    std::map<std::string, std::set<uint32_t>> savers;
    const auto reader = Reader::Open(options_.path);
    EXPECT_OK(reader);
    const auto latest = (*reader)->Latest();
    EXPECT_OK(latest);
    const auto step = (*reader)->OpenStep(latest->version.step);
    EXPECT_OK(step);
    for (const StepRecord::Rank& rank : (*step)->ranks()) {
      for (const Item& item : rank.items) {
        if (item.kind != Item::Kind::kTensor) continue;
        savers[item.name].insert(rank.rank);
      }
    }
    return savers;
  }

  TempDir dir_;
  ManagerOptions options_;
};

TEST_F(WorldRestoreTest, AnyModelOnAnyWorlds) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    options_.path = absl::StrCat(dir_.path(), "/", round);
    WorldSpec spec = WorldSpec::Random(&random);
    if (random() % 2 == 0) spec.sharding = TableSharding::ByModulo();
    options_.replication.saver =
        random() % 4 == 0 ? ModelState::Replication::Saver::kOwner
                          : ModelState::Replication::Saver::kBalanced;
    ASSERT_THAT(RunWorld(RandomWorld(&random), spec, options_,
                         [](WorldRank* rank) { return rank->TrainTo(2); }),
                Each(IsOk()));
    for (int64_t step = 2; step < 6; step += 2) {
      ASSERT_THAT(
          RunWorld(RandomWorld(&random), spec, options_,
                   [=](WorldRank* rank) -> absl::Status {
                     CKPTDB_RETURN_IF_ERROR(RestoreAndExpect(rank, step));
                     return rank->TrainTo(step + 2);
                   }),
          Each(IsOk()));
    }
  }
}

TEST_F(WorldRestoreTest, AReplicatedTensorIsSavedOnceByABalancedRank) {
  WorldSpec spec;
  spec.whole = {4000, 3000, 2000, 1000, 2000};
  ASSERT_THAT(RunWorld(3, spec, options_,
                       [](WorldRank* rank) { return rank->TrainTo(2); }),
              Each(IsOk()));
  const std::map<std::string, std::set<uint32_t>> balanced = {
      {"t0", {0}}, {"t1", {1}}, {"t2", {2}}, {"t3", {1}}, {"t4", {2}}};
  EXPECT_EQ(Savers(), balanced);

  options_.replication.saver = ModelState::Replication::Saver::kOwner;
  ASSERT_THAT(RunWorld(3, spec, options_,
                       [](WorldRank* rank) -> absl::Status {
                         CKPTDB_RETURN_IF_ERROR(RestoreAndExpect(rank, 2));
                         return rank->TrainTo(3);
                       }),
              Each(IsOk()));
  for (const auto& [name, savers] : Savers()) {
    EXPECT_EQ(savers, std::set<uint32_t>{0}) << name;
  }
}

TEST_F(WorldRestoreTest, RanksWithOtherReplicatedTensorsDoNotOpen) {
  ThreadGroup group(2);
  std::vector<absl::Status> statuses(2);
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      WorldSpec spec;
      spec.whole = {10, 20 + r};
      WorldModel model(spec, r, 2);
      statuses[r] =
          CheckpointManager::Open(options_, &model.state, group.Join(r))
              .status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(
      statuses,
      Each(StatusIs(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr("rank 0 has tensor \"t1\" f32 [20]"),
                          HasSubstr("rank 1 has tensor \"t1\" f32 [21]")))));
}

}  // namespace
}  // namespace ckptdb::testing
