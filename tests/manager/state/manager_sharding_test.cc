// SPDX-License-Identifier: Apache-2.0
// Tables sharded over the managers of several ranks.
#include <filesystem>

#include "schema/types.h"
#include "tests/manager/raw_table.h"
#include "tests/manager/test_options.h"
#include "tests/manager/world_model.h"
#include "tests/support/source_folder.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

TableSharding ByHash(const std::string& name = "hash_v2") {
  return TableSharding::ByFunction(name, [](int64_t id, uint32_t world) {
    return static_cast<uint32_t>(MixId(static_cast<uint64_t>(id) + 1) % world);
  });
}

// The ids of a TestModel in these tests are below it.
constexpr int64_t kModelIds = 1000;

class ManagerShardingTest : public ::testing::Test {
 protected:
  struct Rank {
    uint32_t rank = 0;
    std::unique_ptr<TestModel> model;
    std::unique_ptr<CheckpointManager> manager;

    absl::Status TrainTo(int64_t step) {
      while (manager->global_step() < step) {
        model->Train(manager->global_step() + 1);
        CKPTDB_RETURN_IF_ERROR(manager->Step().status());
      }
      return manager->WaitUntilFinished();
    }
    void ExpectTrained(int64_t step) const {
      TestModel expected;
      expected.owns = model->owns;
      testing::TrainTo(step, &expected);
      EXPECT_TRUE(model->users.rows() == expected.users.rows())
          << "rank " << rank << " has " << model->users.rows().size()
          << " rows, not " << expected.users.rows().size();
    }
  };
  using Body = std::function<absl::Status(Rank*)>;

  void SetUp() override {
    options_ = TestOptions(dir_.path() + "/store", 2);
    options_.restore.io_state_resize = ManagerOptions::IoStateResize::kReset;
  }

  // Runs `body` on that many ranks, and returns their results.
  std::vector<absl::Status> Run(uint32_t world, const TableSharding& sharding,
                                const Body& body) {
    ManagerOptions options = options_;
    options.ranks.sharding = sharding;
    const auto make = [&](uint32_t r) {
      Rank rank{r, std::make_unique<TestModel>(), nullptr};
      rank.model->owns = [=](int64_t id) {
        return OwnsId(sharding, id, r, world);
      };
      return rank;
    };
    return RunRanks<Rank>(world, options, make, body);
  }
  void TrainTo(uint32_t world, const TableSharding& sharding, int64_t step) {
    ASSERT_THAT(
        Run(world, sharding, [=](Rank* rank) { return rank->TrainTo(step); }),
        Each(IsOk()));
  }
  void Continue(uint32_t world, const TableSharding& sharding, int64_t step,
                int64_t to) {
    ASSERT_THAT(
        Run(world, sharding,
            [=](Rank* rank) { return RestoreAndTrain(rank, step, to); }),
        Each(IsOk()))
        << world;
  }
  static absl::Status JustRestore(Rank* rank) {
    return rank->manager->Restore().status();
  }
  // Restores the newest step, which must be `step`, and trains on.
  static absl::Status RestoreAndTrain(Rank* rank, int64_t step, int64_t to) {
    CKPTDB_ASSIGN_OR_RETURN(const RestoreReport report,
                            rank->manager->Restore({.verify = true}));
    EXPECT_EQ(report.version.step, step);
    rank->ExpectTrained(step);
    return rank->TrainTo(to);
  }

  TempDir dir_;
  ManagerOptions options_;
};

TEST_F(ManagerShardingTest, OpenFails_WhenATableDeclaresNoSharding) {
  const auto nothing = [](Rank*) { return absl::OkStatus(); };
  EXPECT_THAT(Run(3, {}, nothing),
              Each(InvalidArgument(
                  "table \"user\": it declares no sharding among 3 ranks",
                  "TableSharding::BySlices(), ByModulo(), ByRange(rows), "
                  "ByFunction(name, rank_of) or Replicated()")));
  EXPECT_THAT(Run(1, {}, nothing), Each(IsOk()));
  EXPECT_THAT(Run(2, TableSharding::Unchecked(), nothing),
              Each(InvalidArgument("a manager; a manager cannot restore")));
  options_.read_only = true;
  EXPECT_THAT(Run(2, {}, nothing),
              Each(InvalidArgument("declares no sharding")));
}

TEST_F(ManagerShardingTest, OpenFails_WhenSliceBoundsDiffer) {
  TestTable a;
  TestTable b;
  TestTable c;
  ModelState model;
  ASSERT_OK(model.AddTable("a", &a, TableSharding::Replicated()));
  ASSERT_OK(model.AddTable("b", &b, TableSharding::BySlices({0, 9, kSlices})));
  ASSERT_OK(model.AddTable("c", &c));
  options_.ranks.sharding = TableSharding::BySlices();
  options_.save.deltas = false;
  EXPECT_THAT(
      OnRanks(2,
              [&](uint32_t, auto ranks) {
                return CheckpointManager::Open(options_, &model,
                                               std::move(ranks))
                    .status();
              }),
      Each(InvalidArgument("table \"c\": its slice bounds [0, 32768, 65536] "
                           "differ from [0, 9, 65536] of table \"b\"")));
}

// The mismatch is detected before a restore loses rows that each rank assigns
// to the other.
TEST_F(ManagerShardingTest, OpenFails_WhenShardingsDifferBetweenRanks) {
  const TableSharding shardings[] = {TableSharding::BySlices(),
                                     TableSharding::ByModulo()};
  for (const bool read_only : {false, true}) {
    const auto open = [&](uint32_t rank, auto ranks) {
      TestModel model;
      ManagerOptions options = options_;
      options.read_only = read_only;
      options.ranks.sharding = shardings[rank];
      return CheckpointManager::Open(options, &model.state, std::move(ranks))
          .status();
    };
    EXPECT_THAT(OnRanks(2, open),
                Each(InvalidArgument(
                    "rank 0 has table \"user\" by slices [0, 32768, 65536], "
                    "rank 1 has table \"user\" by modulo")));
  }
}

// Every kind, from one world size to larger and smaller ones.
TEST_F(ManagerShardingTest, EachKindIsRestoredOnAnyWorldSize) {
  for (const TableSharding& sharding :
       {TableSharding::BySlices(), TableSharding::ByModulo(), ByHash(),
        TableSharding::ByRange(kModelIds), TableSharding::Replicated()}) {
    SCOPED_TRACE(ShardingKindName(sharding.kind()));
    options_.path =
        absl::StrCat(dir_.path(), "/", ShardingKindName(sharding.kind()));
    ASSERT_NO_FATAL_FAILURE(TrainTo(3, sharding, 5));
    int64_t step = 4;
    for (const uint32_t world : {3u, 2u, 5u, 1u, 4u}) {
      ASSERT_NO_FATAL_FAILURE(Continue(world, sharding, step, step + 5));
      step += 4;
    }
    ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(options_.path));
    ASSERT_OK_AND_ASSIGN(const auto newest, reader->OpenStep(step));
    EXPECT_EQ(newest->record().kind, StepRecord::Kind::kDelta);
    const StepReader::TableSpec table = newest->FindTable("user").value();
    EXPECT_EQ(table.sharding, sharding.kind());
    EXPECT_EQ(table.sharding_name, sharding.name());
    EXPECT_EQ(newest->record().slice_bounds.empty(),
              sharding.kind() != Item::Sharding::kBySlices);
  }
}

TEST_F(ManagerShardingTest, EachKindRestoresStepsOfOtherKinds) {
  ASSERT_NO_FATAL_FAILURE(TrainTo(3, TableSharding::BySlices(), 5));
  int64_t step = 4;
  for (const TableSharding& sharding :
       {TableSharding::ByModulo(), TableSharding::ByRange(kModelIds), ByHash(),
        TableSharding::Replicated(), TableSharding::BySlices()}) {
    ASSERT_NO_FATAL_FAILURE(Continue(2, sharding, step, step + 5));
    step += 4;
  }
}

// Ranks whose rows move between two runs of one size.
TEST_F(ManagerShardingTest, OtherBoundsOfRangesAreRestored) {
  const auto range = [](int64_t a, int64_t b) {
    return TableSharding::ByRange({-5, a, b, kModelIds});
  };
  ASSERT_NO_FATAL_FAILURE(TrainTo(3, range(10, 20), 5));
  int64_t step = 4;
  for (const auto& sharding : {range(3, 20), range(30, 30), range(10, 90)}) {
    ASSERT_NO_FATAL_FAILURE(Continue(3, sharding, step, step + 5));
    step += 4;
  }
}

TEST_F(ManagerShardingTest, RestoreFails_WhenARowIsInNoRange) {
  ASSERT_NO_FATAL_FAILURE(TrainTo(3, TableSharding::ByRange(kModelIds), 3));
  EXPECT_THAT(Run(2, TableSharding::ByRange(2), JustRestore),
              Each(InvalidArgument("is in no rank's range",
                                   "gives ids 0 to below 2 to the 2 ranks")));
  EXPECT_THAT(Run(2, TableSharding::ByRange({0, 9}), JustRestore),
              Each(InvalidArgument("table \"user\": id bounds [0, 9] do not "
                                   "ascend in 2 ranges; expected 3 bounds")));
}

TEST_F(ManagerShardingTest, OpenFails_WhenRangesDifferBetweenRanks) {
  const TableSharding shardings[] = {TableSharding::ByRange({0, 5, 9}),
                                     TableSharding::ByRange(9)};
  EXPECT_THAT(OnRanks(2,
                      [&](uint32_t rank, auto ranks) {
                        TestModel model;
                        ManagerOptions options = options_;
                        options.ranks.sharding = shardings[rank];
                        return CheckpointManager::Open(options, &model.state,
                                                       std::move(ranks))
                            .status();
                      }),
              Each(InvalidArgument(
                  "rank 0 has table \"user\" by range [0, 5, 9], rank 1 "
                  "has table \"user\" by range of 9 rows")));
}

TEST_F(ManagerShardingTest, SaveFails_WhenAnIdIsOnTheWrongRank) {
  for (const TableSharding& sharding :
       {TableSharding::BySlices(), TableSharding::ByModulo(), ByHash()}) {
    options_.path =
        absl::StrCat(dir_.path(), "/", ShardingKindName(sharding.kind()));
    int64_t foreign = 1000;
    while (!OwnsId(sharding, foreign, 0, 3)) ++foreign;
    const auto refused =
        InvalidArgument(absl::StrCat("table \"user\": id ", foreign,
                                     " belongs to rank 0 of 3 by ",
                                     ShardingKindName(sharding.kind())),
                        "but rank 2 has it");
    ASSERT_THAT(Run(3, sharding,
                    [&](Rank* rank) -> absl::Status {
                      CKPTDB_RETURN_IF_ERROR(rank->TrainTo(2));
                      if (rank->rank == 2) rank->model->users.Set(foreign, 1);
                      EXPECT_THAT(rank->TrainTo(4), refused);
                      return RestoreAndTrain(rank, 2, 6);
                    }),
                Each(IsOk()));
    ASSERT_NO_FATAL_FAILURE(Continue(3, sharding, 6, 6));
  }
}

TEST_F(ManagerShardingTest, RestoreFails_WhenTheFunctionHasAnotherName) {
  ASSERT_NO_FATAL_FAILURE(TrainTo(3, ByHash("hash_v1"), 3));
  EXPECT_THAT(Run(2, ByHash("hash_v2"), JustRestore),
              Each(FailedPrecondition(
                  "sparse \"user\"",
                  "divided among ranks by the function \"hash_v1\", but the "
                  "model declares \"hash_v2\"; declare it under its old name, "
                  "or restore and save once with another kind of sharding",
                  Not(HasSubstr("evolve")))));
  ASSERT_NO_FATAL_FAILURE(Continue(2, ByHash("hash_v1"), 2, 3));
}

TEST_F(ManagerShardingTest, FunctionIsRenamed_AfterASaveWithAnotherSharding) {
  ASSERT_NO_FATAL_FAILURE(TrainTo(3, ByHash("hash_v1"), 3));
  ASSERT_NO_FATAL_FAILURE(Continue(3, TableSharding::ByModulo(), 2, 4));
  ASSERT_NO_FATAL_FAILURE(Continue(3, ByHash("hash_v2"), 4, 6));
  ASSERT_NO_FATAL_FAILURE(Continue(2, ByHash("hash_v2"), 6, 8));
}

TEST_F(ManagerShardingTest, OneRankRestores_WhenTheFunctionHasAnotherName) {
  ASSERT_NO_FATAL_FAILURE(TrainTo(3, ByHash("hash_v1"), 3));
  ASSERT_NO_FATAL_FAILURE(Continue(1, ByHash("hash_v2"), 2, 6));
  ASSERT_NO_FATAL_FAILURE(Continue(1, ByHash("hash_v3"), 6, 10));
  ASSERT_NO_FATAL_FAILURE(Continue(3, ByHash("hash_v3"), 10, 12));
}

TEST_F(ManagerShardingTest, RestoreFails_WhenTheFunctionReturnsNoRank) {
  // Written for three ranks, whatever its argument.
  const auto of_three =
      TableSharding::ByFunction("of_three", [](int64_t id, uint32_t) {
        return static_cast<uint32_t>(static_cast<uint64_t>(id) % 3);
      });
  ASSERT_NO_FATAL_FAILURE(TrainTo(3, of_three, 3));
  EXPECT_THAT(
      Run(2, of_three, JustRestore),
      Each(InvalidArgument("sharding \"of_three\" returns rank 2 for id ",
                           "expected less than the world size, 2")));
}

// The rows of ranks other than the first are not read; their marks, or missing
// marks, are ignored.
TEST_F(ManagerShardingTest, OnlyTheOwnerSavesAReplicatedTable) {
  ASSERT_THAT(
      Run(3, TableSharding::Replicated(),
          [](Rank* rank) -> absl::Status {
            if (rank->rank != 0) {
              rank->model->users.FailWith(absl::InternalError("it was read"));
            }
            CKPTDB_RETURN_IF_ERROR(rank->TrainTo(2));
            if (rank->rank == 1) rank->model->users.Set(77, 1);
            CKPTDB_ASSIGN_OR_RETURN(const PendingSave save,
                                    rank->manager->Save({.overwrite = true}));
            CKPTDB_ASSIGN_OR_RETURN(const SaveResult result,
                                    save.WaitCommitted());
            EXPECT_EQ(result.kind, StepRecord::Kind::kDelta);
            return rank->manager->WaitUntilFinished();
          }),
      Each(IsOk()));
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(options_.path));
  ASSERT_OK_AND_ASSIGN(const auto step, reader->OpenStep(2));
  EXPECT_EQ(step->LookupRow("user", 77).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_OK(step->Verify());
}

TEST_F(ManagerShardingTest, MarksOfAReplicatedTableAreReturned_WhenASaveFails) {
  ASSERT_THAT(
      Run(2, TableSharding::Replicated(),
          [](Rank* rank) -> absl::Status {
            CKPTDB_RETURN_IF_ERROR(rank->TrainTo(2));
            if (rank->rank == 0) {
              rank->model->users.FailWith(absl::UnavailableError("no rows"));
            }
            EXPECT_THAT(rank->TrainTo(4), Unavailable("no rows"));
            rank->model->users.FailWith(absl::OkStatus());
            return rank->TrainTo(6);
          }),
      Each(IsOk()));
  ASSERT_NO_FATAL_FAILURE(Continue(2, TableSharding::Replicated(), 6, 6));
}

// A store from before tables declared their sharding: see tests/golden.
class OldStoreTest : public ::testing::Test {
 protected:
  static std::vector<Slot> Slots() {
    return {{"embedding", DType::kF32, 4}, {"written", DType::kI64, 1}};
  }
  static RawTable::Row RowOf(int64_t id, int64_t step) {
    const auto first = static_cast<float>(id) + static_cast<float>(step) / 4;
    return {RawBytes<float>({first, first + 1, first + 2, first + 3}),
            RawBytes<int64_t>({step})};
  }
  // Each rank of such a world restores the step, then saves one.
  std::vector<std::map<int64_t, RawTable::Row>> Restore(
      int64_t step, uint32_t world, const TableSharding& sharding) {
    std::vector<std::map<int64_t, RawTable::Row>> rows(world);
    OnRanks(world, [&](uint32_t rank, auto ranks) -> absl::Status {
      RawTable table(Slots());
      ModelState model;
      EXPECT_OK(model.AddTable("user", &table, sharding));
      const auto manager =
          CheckpointManager::Open({.path = path_}, &model, std::move(ranks));
      EXPECT_OK(manager);
      EXPECT_OK((*manager)->Restore({.step = step}));
      rows[rank] = table.rows();
      EXPECT_OK(StepAndSave(manager->get()));
      EXPECT_OK((*manager)->Close());
      return absl::OkStatus();
    });
    return rows;
  }
  void SetUp() override {
    std::filesystem::copy(std::filesystem::path(SourcePath("tests/golden")) /
                              "undeclared_sharding" / "store",
                          path_, std::filesystem::copy_options::recursive);
  }

  TempDir dir_;
  const std::string path_ = dir_.path() + "/store";
};

TEST_F(OldStoreTest, IsRestoredAccordingToTheModelsSharding) {
  std::map<int64_t, RawTable::Row> all;
  for (int64_t k = -20; k < 40; ++k) all[k * 7919] = RowOf(k * 7919, 50);
  for (int64_t k = 0; k < 5; ++k) all[k * 7919] = RowOf(k * 7919, 60);
  all.erase(39 * 7919);
  int64_t step = 60;
  for (const uint32_t world : {3u, 2u}) {
    for (const TableSharding& sharding :
         {TableSharding::ByModulo(), ByHash(), TableSharding::Replicated(),
          TableSharding::BySlices()}) {
      SCOPED_TRACE(absl::StrCat(world, ShardingKindName(sharding.kind())));
      const auto rows = Restore(step++, world, sharding);
      const std::vector<uint32_t> bounds = EvenSliceBounds(world);
      for (uint32_t rank = 0; rank < world; ++rank) {
        std::map<int64_t, RawTable::Row> expected;
        for (const auto& row : all) {
          // By slices of the model's hash, which differs from the step's.
          const uint16_t slice = SliceOf(row.first, SliceHash::kModulo);
          const bool own =
              sharding.kind() == Item::Sharding::kBySlices
                  ? bounds[rank] <= slice && slice < bounds[rank + 1]
                  : OwnsId(sharding, row.first, rank, world);
          if (own) expected.insert(row);
        }
        EXPECT_TRUE(rows[rank] == expected) << rank;
      }
    }
  }
}

}  // namespace
}  // namespace ckptdb::testing
