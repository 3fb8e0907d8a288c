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

  // Saves a step of two ranks that `add` gives their state.
  std::vector<absl::Status> RunTwo(
      const std::function<absl::Status(uint32_t rank, ModelState* state)>& add)
      const {
    ThreadGroup group(2);
    std::vector<absl::Status> statuses(2);
    std::vector<std::thread> threads;
    const auto run = [&](uint32_t rank) -> absl::Status {
      ModelState state;
      CKPTDB_RETURN_IF_ERROR(add(rank, &state));
      CKPTDB_ASSIGN_OR_RETURN(
          const auto manager,
          CheckpointManager::Open(options_, &state, group.Join(rank)));
      CKPTDB_RETURN_IF_ERROR(manager->Step().status());
      return manager->WaitUntilFinished();
    };
    for (uint32_t r = 0; r < 2; ++r) {
      threads.emplace_back([&, r] { statuses[r] = run(r); });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

  TempDir dir_;
  ManagerOptions options_;
  float values_[100] = {};
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

// Each of two ranks moves the end or the begin of its shard by one row.
TEST_F(WorldRestoreTest, ShardsThatOverlapOrLeaveAGapFailTheSave) {
  const std::vector<std::pair<int64_t, std::string>> cases = {
      {0, ""},
      {1, "shards overlap in [1, 3] at [4, 0]"},
      {-1,
       "the shards have 27 of the 30 elements of [10, 3], and none has the "
       "one at [3, 0]"}};
  for (const auto& [more, words] : cases) {
    options_.path = absl::StrCat(dir_.path(), "/", more);
    const std::vector<absl::Status> statuses =
        RunTwo([&, more = more](uint32_t rank, ModelState* state) {
          const int64_t rows = rank == 0 ? 4 + more : 6;
          TensorState tensor = TensorState::Of(values_, {rows, 3});
          tensor.global_shape = {10, 3};
          tensor.offset = {rank == 0 ? 0 : 4, 0};
          return state->AddTensor("t", tensor);
        });
    if (more == 0) {
      EXPECT_THAT(statuses, Each(IsOk()));
    } else {
      EXPECT_THAT(
          statuses,
          Each(StatusIs(absl::StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("tensor \"t\""), HasSubstr(words)))));
    }
  }
}

// A job of which one rank fails: the others keep what they trained.
class PartialRecoveryTest : public WorldRestoreTest {
 protected:
  // Runs `body` on the manager that each rank opens, all at once.
  using Body = std::function<absl::Status(uint32_t, CheckpointManager*)>;
  void RunAll(const Body& body) {
    ThreadGroup group(world_);
    std::vector<absl::Status> statuses(world_);
    std::vector<std::thread> threads;
    const auto run = [&](uint32_t rank) -> absl::Status {
      CKPTDB_ASSIGN_OR_RETURN(
          const auto manager,
          CheckpointManager::Open(options_, &models_[rank]->state,
                                  group.Join(rank)));
      CKPTDB_RETURN_IF_ERROR(body(rank, manager.get()));
      return manager->Close();
    };
    for (uint32_t r = 0; r < world_; ++r) {
      threads.emplace_back([&, r] { statuses[r] = run(r); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_THAT(statuses, Each(IsOk()));
  }
  void Start(std::mt19937_64* random) {
    spec_ = WorldSpec::Random(random);
    const std::vector<TableSharding> kinds = {TableSharding::BySlices(),
                                              TableSharding::ByModulo()};
    spec_.sharding = kinds[(*random)() % kinds.size()];
    world_ = static_cast<uint32_t>(2 + (*random)() % 4);
    models_.clear();
    for (uint32_t r = 0; r < world_; ++r) models_.push_back(NewModel(r));
  }
  std::unique_ptr<WorldModel> NewModel(uint32_t rank) const {
    return std::make_unique<WorldModel>(spec_, rank, world_);
  }
  ManagerOptions OptionsOfOne(uint32_t rank) const {
    ManagerOptions options = options_;
    options.read_only = true;
    options.shard = {rank, world_};
    return options;
  }

  WorldSpec spec_;
  uint32_t world_ = 1;
  std::vector<std::unique_ptr<WorldModel>> models_;
};

TEST_F(PartialRecoveryTest, ARankThatComesBackRestoresItsShardAlone) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(round);
    options_.path = absl::StrCat(dir_.path(), "/", round);
    Start(&random);
    const auto failed = static_cast<uint32_t>(random() % world_);
    RunAll([&](uint32_t rank, CheckpointManager* manager) -> absl::Status {
      for (int64_t step = 1; step <= 3; ++step) {
        models_[rank]->Train(step);
        CKPTDB_RETURN_IF_ERROR(manager->Step().status());
      }
      CKPTDB_RETURN_IF_ERROR(manager->WaitUntilFinished());
      models_[rank]->Train(4);  // is in no step
      if (rank != kOwnerRank) return absl::OkStatus();

      // Another process, while the owner has the store open.
      const std::unique_ptr<WorldModel> back = NewModel(failed);
      CKPTDB_ASSIGN_OR_RETURN(
          const auto alone,
          CheckpointManager::Open(OptionsOfOne(failed), &back->state));
      CKPTDB_RETURN_IF_ERROR(alone->Restore().status());
      back->ExpectTrained(3);
      EXPECT_EQ(back->reader.position, absl::StrCat("3/", failed));
      return alone->Close();
    });
    models_[failed] = NewModel(failed);
    ASSERT_OK_AND_ASSIGN(
        const auto alone,
        CheckpointManager::Open(OptionsOfOne(failed), &models_[failed]->state));
    ASSERT_OK(alone->Restore());
    ASSERT_OK(alone->Close());

    // All go on together; the next save is whole.
    RunAll([&](uint32_t rank, CheckpointManager* manager) -> absl::Status {
      models_[rank]->ExpectTrained(rank == failed ? 3 : 4);
      for (int64_t step = 5; step <= 6; ++step) {
        models_[rank]->Train(step);
        CKPTDB_RETURN_IF_ERROR(manager->StepTo(step).status());
      }
      return manager->WaitUntilFinished();
    });
    ASSERT_THAT(RunWorld(RandomWorld(&random), spec_, options_,
                         [](WorldRank* rank) -> absl::Status {
                           return RestoreAndExpect(rank, 6);
                         }),
                Each(IsOk()));
  }
}

TEST_F(PartialRecoveryTest, RejectsAShardThatIsNoReadersOrNoRanks) {
  std::mt19937_64 random(TestSeed());
  Start(&random);
  const auto open = [&](ManagerOptions options,
                        std::unique_ptr<Coordinator> ranks) {
    return CheckpointManager::Open(options, &models_[0]->state,
                                   std::move(ranks))
        .status();
  };
  const auto invalid = [](absl::string_view words) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    HasSubstr(std::string(words)));
  };
  ManagerOptions options = OptionsOfOne(0);
  options.shard = {3, 3};
  EXPECT_THAT(open(options, SingleProcess()),
              invalid("shard is rank 3 of 3; the rank must be below"));
  options.shard = {2, 3};
  options.read_only = false;
  EXPECT_THAT(open(options, SingleProcess()), invalid("read_only is false"));
  options.read_only = true;
  options_ = options;
  EXPECT_THAT(
      RunTwo([](uint32_t, ModelState*) { return absl::OkStatus(); }),
      Each(invalid("shard is rank 2 of 3, and the coordinator is one of 2")));
}

TEST_F(WorldRestoreTest, RanksWithOtherReplicatedTensorsDoNotOpen) {
  const std::vector<absl::Status> statuses =
      RunTwo([&](uint32_t rank, ModelState* state) {
        return state->AddTensor("t1", TensorState::Of(values_, {20 + rank}));
      });
  EXPECT_THAT(
      statuses,
      Each(StatusIs(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr("rank 0 has tensor \"t1\" f32 [20]"),
                          HasSubstr("rank 1 has tensor \"t1\" f32 [21]")))));
}

}  // namespace
}  // namespace ckptdb::testing
