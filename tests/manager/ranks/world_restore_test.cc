// SPDX-License-Identifier: Apache-2.0
// Which rank saves what, and restores on any number of ranks: random models on
// random worlds, from CKPTDB_SEED.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>

#include "manager/load/row_exchange.h"
#include "tests/manager/forwarding_coordinator.h"
#include "tests/manager/test_options.h"
#include "tests/manager/world_model.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

// Hides the coordinator's direct all-to-all, so that each rank reads all pages
// that contain its rows.
class WithoutAllToAll : public ForwardingCoordinator {
 public:
  explicit WithoutAllToAll(
      std::unique_ptr<Coordinator> ranks,
      std::shared_ptr<std::atomic<int>> large_broadcasts = nullptr)
      : ForwardingCoordinator(std::move(ranks)),
        large_broadcasts_(std::move(large_broadcasts)) {}
  absl::StatusOr<std::string> Broadcast(absl::string_view tag,
                                        std::string value,
                                        absl::Duration deadline) override {
    if (large_broadcasts_ != nullptr && value.size() > 1 << 20) {
      ++*large_broadcasts_;
    }
    return ForwardingCoordinator::Broadcast(tag, std::move(value), deadline);
  }

 private:
  const std::shared_ptr<std::atomic<int>> large_broadcasts_;
};

class WorldRestoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_ = TestOptions(dir_.path() + "/store");
    options_.restore.io_state_resize = ManagerOptions::IoStateResize::kReset;
  }

  static uint32_t RandomWorld(std::mt19937_64* random) {
    return static_cast<uint32_t>(1 + (*random)() % 6);
  }
  // Trains that many ranks up to a step.
  void TrainWorld(uint32_t world, const WorldSpec& spec, int64_t step) {
    ASSERT_THAT(RunWorld(world, spec, options_,
                         [=](WorldRank* rank) { return rank->TrainTo(step); }),
                Each(IsOk()));
  }
  static absl::Status JustRestore(WorldRank* rank) {
    return rank->manager->Restore().status();
  }
  static absl::Status RestoreAndExpect(WorldRank* rank, int64_t step) {
    CKPTDB_ASSIGN_OR_RETURN(const RestoreReport report,
                            rank->manager->Restore());
    EXPECT_EQ(report.version.step, step);
    rank->model->ExpectTrained(step);
    return absl::OkStatus();
  }
  // Returns the ranks that store a tensor in the newest step.
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

  void DamageLargestFile() const {
    std::filesystem::path largest;
    uintmax_t bytes = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(options_.path + "/db")) {
      if (entry.path().extension() != ".sst" || entry.file_size() <= bytes) {
        continue;
      }
      bytes = entry.file_size();
      largest = entry.path();
    }
    std::fstream file(largest, std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(bytes / 2));
    file.write("damaged", 7);
    EXPECT_TRUE(file.good());
  }
  // Saves a step of two ranks with the state that `add` adds.
  std::vector<absl::Status> RunTwo(
      const std::function<absl::Status(uint32_t rank, ModelState* state)>& add)
      const {
    return RunManagers(2, options_, add,
                       [](uint32_t, CheckpointManager* manager) {
                         absl::Status status = manager->Step().status();
                         status.Update(manager->WaitUntilFinished());
                         return status;
                       });
  }

  TempDir dir_;
  ManagerOptions options_;
  float values_[100] = {};
};

TEST_F(WorldRestoreTest, AnyModelIsRestoredOnAnyWorldSize) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    options_.path = absl::StrCat(dir_.path(), "/", round);
    WorldSpec spec = WorldSpec::Random(&random);
    if (random() % 2 == 0) spec.sharding = TableSharding::ByModulo();
    options_.ranks.replicated_saver =
        random() % 4 == 0 ? ManagerOptions::ReplicatedSaver::kOwner
                          : ManagerOptions::ReplicatedSaver::kBalanced;
    ASSERT_NO_FATAL_FAILURE(TrainWorld(RandomWorld(&random), spec, 2));
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

TEST_F(WorldRestoreTest, OneRankReadsReplicatedTensorsForAll) {
  std::mt19937_64 random(TestSeed());
  WorldSpec spec = WorldSpec::Random(&random);
  // Several pieces of a broadcast.
  spec.whole = {0, 1, 2'500'000, 3000};
  options_.ranks.broadcast_replicated = true;
  ASSERT_NO_FATAL_FAILURE(TrainWorld(3, spec, 1));
  for (const uint32_t world : {1u, 2u, 4u}) {
    const auto broadcasts = std::make_shared<std::atomic<int>>(0);
    EXPECT_THAT(RunWorld(
                    world, spec, options_,
                    [](WorldRank* rank) { return RestoreAndExpect(rank, 1); },
                    [&](std::unique_ptr<Coordinator> ranks) {
                      return std::make_unique<WithoutAllToAll>(std::move(ranks),
                                                               broadcasts);
                    }),
                Each(IsOk()));
    EXPECT_GE(*broadcasts, world == 1 ? 0 : 2);
  }
}

// The tensor is damaged: only the owner's read fails.
TEST_F(WorldRestoreTest, RestoreFailsOnAllRanks_WhenTheOwnersReadFails) {
  options_.ranks.deadline = absl::Minutes(10);
  options_.ranks.broadcast_replicated = true;
  WorldSpec spec;
  spec.whole = {500'000};
  ASSERT_NO_FATAL_FAILURE(TrainWorld(2, spec, 1));
  DamageLargestFile();
  EXPECT_THAT(RunWorld(3, spec, options_, JustRestore),
              Each(DataLoss("rank 0", "t0")));
}

TEST_F(WorldRestoreTest, ReplicatedTensorsAreSavedOnceBalancedOverRanks) {
  WorldSpec spec;
  spec.whole = {4000, 3000, 2000, 1000, 2000};
  ASSERT_NO_FATAL_FAILURE(TrainWorld(3, spec, 2));
  const std::map<std::string, std::set<uint32_t>> balanced = {
      {"t0", {0}}, {"t1", {1}}, {"t2", {2}}, {"t3", {1}}, {"t4", {2}}};
  EXPECT_EQ(Savers(), balanced);

  options_.ranks.replicated_saver = ManagerOptions::ReplicatedSaver::kOwner;
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

// Each of two ranks moves the end or the beginning of its shard by one row.
TEST_F(WorldRestoreTest, SaveFails_WhenShardsOverlapOrLeaveAGap) {
  const std::vector<std::pair<int64_t, std::string>> cases = {
      {0, ""},
      {1, "shards overlap in [1, 3] at [4, 0]"},
      {-1,
       "the shards have 27 of the 30 elements of [10, 3]; missing element "
       "at [3, 0]"}};
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
      EXPECT_THAT(statuses, Each(InvalidArgument("tensor \"t\"", words)));
    }
  }
}

// A rank's boxes of a tensor of 23 x 17, which a grid cuts.
class BoxedRank {
 public:
  BoxedRank(uint64_t seed, uint32_t rank, uint32_t world) {
    std::mt19937_64 random(seed);
    const std::vector<int64_t> rows = Cuts(kRows, &random);
    const std::vector<int64_t> columns = Cuts(kColumns, &random);
    for (size_t r = 0; r + 1 < rows.size(); ++r) {
      for (size_t c = 0; c + 1 < columns.size(); ++c) {
        if (random() % world != rank) continue;
        Box& box = boxes_.emplace_back();
        box.offset = {rows[r], columns[c]};
        box.shape = {rows[r + 1] - rows[r], columns[c + 1] - columns[c]};
        box.values.resize(static_cast<size_t>(box.shape[0] * box.shape[1]));
      }
    }
  }
  absl::Status AddTo(ModelState* state) {
    for (Box& box : boxes_) {
      TensorState shard = TensorState::Of(box.values.data(), box.shape);
      shard.global_shape = {kRows, kColumns};
      shard.offset = box.offset;
      CKPTDB_RETURN_IF_ERROR(state->AddTensor("t", shard));
    }
    return absl::OkStatus();
  }
  // Sets the values of a step, of which only the first rows change.
  void Train(int64_t step) {
    for (Box& box : boxes_) {
      std::ranges::copy(Expected(box, step), box.values.begin());
    }
  }
  void ExpectTrained(int64_t step) const {
    for (const Box& box : boxes_) {
      EXPECT_EQ(box.values, Expected(box, step))
          << ToString(box.shape) << " at " << ToString(box.offset);
    }
  }

 private:
  static constexpr int64_t kRows = 23;
  static constexpr int64_t kColumns = 17;
  struct Box {
    Shape offset;
    Shape shape;
    std::vector<float> values;
  };
  static std::vector<int64_t> Cuts(int64_t size, std::mt19937_64* random) {
    std::vector<int64_t> cuts = {0, size};
    for (int i = 0; i < 3; ++i) {
      cuts.push_back(
          static_cast<int64_t>((*random)() % static_cast<uint64_t>(size)));
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    return cuts;
  }
  static std::vector<float> Expected(const Box& box, int64_t step) {
    std::vector<float> values;
    for (int64_t r = 0; r < box.shape[0]; ++r) {
      for (int64_t c = 0; c < box.shape[1]; ++c) {
        const int64_t row = box.offset[0] + r;
        values.push_back(static_cast<float>(100 * row + box.offset[1] + c +
                                            (row < 3 ? 10'000 * step : 0)));
      }
    }
    return values;
  }

  std::vector<Box> boxes_;
};

TEST_F(WorldRestoreTest, BoxesOfARankAreRestoredOnAnyWorldSize) {
  std::mt19937_64 random(TestSeed());
  int64_t step = 0;
  for (const uint32_t world : {2u, 1u, 3u, 2u, 4u}) {
    SCOPED_TRACE(world);
    const uint64_t seed = random();
    EXPECT_THAT(
        OnRanks(world,
                [&](uint32_t rank, auto ranks) -> absl::Status {
                  BoxedRank boxes(seed, rank, world);
                  ModelState state;
                  CKPTDB_RETURN_IF_ERROR(boxes.AddTo(&state));
                  CKPTDB_ASSIGN_OR_RETURN(
                      const auto manager,
                      CheckpointManager::Open(options_, &state,
                                              std::move(ranks)));
                  if (step > 0) {
                    CKPTDB_ASSIGN_OR_RETURN(const RestoreReport report,
                                            manager->Restore());
                    EXPECT_EQ(report.version.step, step);
                    EXPECT_LE(report.loaded.items.size(), 1u);
                    boxes.ExpectTrained(step);
                  }
                  for (int64_t next = step + 1; next <= step + 2; ++next) {
                    boxes.Train(next);
                    CKPTDB_RETURN_IF_ERROR(manager->Step().status());
                    CKPTDB_RETURN_IF_ERROR(manager->WaitUntilFinished());
                  }
                  return manager->Close();
                }),
        Each(IsOk()));
    step += 2;
  }
}

TableSharding ByMixedId() {
  return TableSharding::ByFunction("mixed_id", [](int64_t id, uint32_t world) {
    return static_cast<uint32_t>(MixId(static_cast<uint64_t>(id)) % world);
  });
}

// The same for many ids at once.
TableSharding ByMixedIds() {
  return TableSharding::ByBatchFunction(
      "mixed_id", [](absl::Span<const int64_t> ids, uint32_t world,
                     absl::Span<uint32_t> ranks) {
        std::transform(ids.begin(), ids.end(), ranks.begin(), [&](int64_t id) {
          return ByMixedId().rank_of()(id, world);
        });
      });
}

// Base runs and chains of deltas, sharded by remainder and by functions.
TEST_F(WorldRestoreTest, ExchangeRestoresTheSameRows) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 8; ++round) {
    SCOPED_TRACE(round);
    options_.path = absl::StrCat(dir_.path(), "/", round);
    WorldSpec spec = WorldSpec::Random(&random);
    spec.rows = static_cast<int64_t>(random() % 3000);
    spec.sharding = round % 2 == 0   ? TableSharding::ByModulo()
                    : round % 4 == 1 ? ByMixedId()
                                     : ByMixedIds();
    options_.save.base_every = static_cast<int64_t>(random() % 3);
    ASSERT_NO_FATAL_FAILURE(TrainWorld(RandomWorld(&random), spec, 4));
    const uint32_t world = RandomWorld(&random);
    const auto restore = [](WorldRank* rank) {
      return RestoreAndExpect(rank, 4);
    };
    EXPECT_THAT(RunWorld(world, spec, options_, restore), Each(IsOk()));
    EXPECT_THAT(
        RunWorld(world, spec, options_, restore,
                 [](std::unique_ptr<Coordinator> ranks) {
                   return std::make_unique<WithoutAllToAll>(std::move(ranks));
                 }),
        Each(IsOk()));
  }
}

TEST_F(WorldRestoreTest, ExchangeOfManyRoundsRestoresAllRows) {
  std::mt19937_64 random(TestSeed());
  WorldSpec spec;
  spec.rows = 2000;
  spec.sharding = TableSharding::ByModulo();
  ASSERT_NO_FATAL_FAILURE(TrainWorld(3, spec, 2));
  const auto restore = [&](Coordinator* ranks,
                           uint64_t round_bytes) -> absl::Status {
    CKPTDB_ASSIGN_OR_RETURN(const auto reader, Reader::Open(options_.path));
    CKPTDB_ASSIGN_OR_RETURN(const auto step, reader->OpenStep(2));
    WorldModel model(spec, ranks->rank(), ranks->world_size());
    internal::RowExchange exchange;
    exchange.step = step.get();
    exchange.table = "user";
    exchange.scan.slots = {"adagrad_sum", "embedding"};
    exchange.sharding = spec.sharding;
    exchange.live = model.users.Live(exchange.scan.slots);
    exchange.ranks = ranks;
    exchange.deadline = options_.ranks.deadline;
    exchange.round_bytes = round_bytes;
    CKPTDB_RETURN_IF_ERROR(internal::RestoreByExchange(exchange));
    WorldModel expected(spec, ranks->rank(), ranks->world_size());
    expected.Train(2);
    EXPECT_TRUE(model.users.rows() == expected.users.rows())
        << model.users.rows().size() << " rows";
    return absl::OkStatus();
  };
  for (int i = 0; i < 4; ++i) {
    const uint64_t round_bytes = 200 + random() % 20'000;
    SCOPED_TRACE(round_bytes);
    EXPECT_THAT(OnRanks(4,
                        [&](uint32_t, auto ranks) {
                          return restore(ranks.get(), round_bytes);
                        }),
                Each(IsOk()));
  }
}

// The deadline is long: no rank may wait for a failed one.
TEST_F(WorldRestoreTest, RestoreFailsOnAllRanks_WhenAnExchangeFailsOnOne) {
  options_.ranks.deadline = absl::Minutes(10);
  WorldSpec spec;
  spec.rows = 200;
  spec.sharding = TableSharding::ByModulo();
  ASSERT_NO_FATAL_FAILURE(TrainWorld(4, spec, 1));
  for (const uint32_t failing : {0u, 2u}) {
    const auto restore = [&](WorldRank* rank) {
      if (rank->rank == failing) {
        rank->model->users.FailLoads(absl::ResourceExhaustedError("no room"));
      }
      return rank->manager->Restore().status();
    };
    EXPECT_THAT(RunWorld(3, spec, options_, restore),
                Each(ResourceExhausted(absl::StrCat("rank ", failing),
                                       "table \"user\"", "no room")));
  }
  // A function that returns no rank for an id.
  spec.sharding =
      TableSharding::ByFunction("none", [](int64_t id, uint32_t world) {
        return id == 7 ? world : static_cast<uint32_t>(id % 2 == 0);
      });
  EXPECT_THAT(RunWorld(3, spec, options_, JustRestore),
              Each(InvalidArgument("table \"user\"", "id 7")));
}

// A job in which one rank fails: the others keep their trained state.
class PartialRecoveryTest : public WorldRestoreTest {
 protected:
  // Runs `body` on the managers of all ranks concurrently.
  using Body = std::function<absl::Status(uint32_t, CheckpointManager*)>;
  void RunAll(const Body& body) {
    EXPECT_THAT(
        OnRanks(world_,
                [&](uint32_t rank, auto ranks) -> absl::Status {
                  CKPTDB_ASSIGN_OR_RETURN(
                      const auto manager,
                      CheckpointManager::Open(options_, &models_[rank]->state,
                                              std::move(ranks)));
                  CKPTDB_RETURN_IF_ERROR(body(rank, manager.get()));
                  return manager->Close();
                }),
        Each(IsOk()));
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
    options.follow.shard = {rank, world_};
    return options;
  }

  WorldSpec spec_;
  uint32_t world_ = 1;
  std::vector<std::unique_ptr<WorldModel>> models_;
};

TEST_F(PartialRecoveryTest, ReturningRankRestoresItsShardAlone) {
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
      models_[rank]->Train(4);  // not saved
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

    // All continue together; the next save is full.
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

TEST_F(PartialRecoveryTest, RejectsAShardUnlessReadOnlyAndOneOfItsRanks) {
  std::mt19937_64 random(TestSeed());
  Start(&random);
  const auto open = [&](ManagerOptions options,
                        std::unique_ptr<Coordinator> ranks) {
    return CheckpointManager::Open(options, &models_[0]->state,
                                   std::move(ranks))
        .status();
  };
  ManagerOptions options = OptionsOfOne(0);
  options.follow.shard = {3, 3};
  EXPECT_THAT(open(options, SingleProcess()),
              InvalidArgument("shard is rank 3 of 3; the rank must be below"));
  options.follow.shard = {2, 3};
  options.read_only = false;
  EXPECT_THAT(open(options, SingleProcess()),
              InvalidArgument("read_only is false"));
  options.read_only = true;
  options_ = options;
  EXPECT_THAT(RunTwo([](uint32_t, ModelState*) { return absl::OkStatus(); }),
              Each(InvalidArgument(
                  "shard is rank 2 of 3, but the coordinator has 2 ranks")));
}

TEST_F(WorldRestoreTest, OpenFails_WhenReplicatedTensorsDiffer) {
  const std::vector<absl::Status> statuses =
      RunTwo([&](uint32_t rank, ModelState* state) {
        return state->AddTensor("t1", TensorState::Of(values_, {20 + rank}));
      });
  EXPECT_THAT(statuses,
              Each(InvalidArgument("rank 0 has tensor \"t1\" f32 [20]",
                                   "rank 1 has tensor \"t1\" f32 [21]")));
}

// The ranks have the same tensors when they open their managers.
TEST_F(WorldRestoreTest, SaveFails_WhenProvidersGiveDifferentTensors) {
  for (const int64_t more : {0, 3000}) {  // a list, and a hash of a longer one
    options_.path = absl::StrCat(dir_.path(), "/provided", more);
    std::vector<ModelState> states(2);
    const auto body = [&](uint32_t rank, auto ranks) -> absl::Status {
      ModelState* const state = &states[rank];
      state->SetProvider([&, rank, state](const StepReader*) -> absl::Status {
        state->RemoveTensorsAndObjects();
        for (int64_t t = 0; t <= more; ++t) {
          CKPTDB_RETURN_IF_ERROR(state->AddTensor(
              absl::StrCat("t", t), TensorState::Of(values_, {20 + rank})));
        }
        return absl::OkStatus();
      });
      CKPTDB_ASSIGN_OR_RETURN(
          const auto manager,
          CheckpointManager::Open(options_, state, std::move(ranks)));
      CKPTDB_ASSIGN_OR_RETURN(const StepOutcome outcome, manager->StepTo(1));
      EXPECT_TRUE(outcome.save.has_value());
      return manager->WaitUntilFinished();
    };
    EXPECT_THAT(OnRanks(2, body),
                Each(InvalidArgument(
                    "the ranks have different replicated tensors",
                    more == 0 ? "rank 1 has tensor \"t0\" f32 [21]"
                              : "rank 0 has 3001 tensors with the hash")));
  }
}

}  // namespace
}  // namespace ckptdb::testing
