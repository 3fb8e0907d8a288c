// SPDX-License-Identifier: Apache-2.0
// Managers of several ranks, each in a thread.
#include <atomic>
#include <new>

#include "db/options.h"
#include "schema/types.h"
#include "tests/manager/forwarding_coordinator.h"
#include "tests/manager/rank_model.h"
#include "tests/manager/run_ranks.h"
#include "tests/manager/test_options.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

// Simulates a coordinator whose second process group cannot be created.
class CannotBeDuplicated : public ForwardingCoordinator {
 public:
  CannotBeDuplicated() : ForwardingCoordinator(SingleProcess()) {}
  absl::StatusOr<std::unique_ptr<Coordinator>> Duplicate() override {
    return absl::FailedPreconditionError("no second group");
  }
};

class ManagerRanksTest : public ::testing::Test {
 protected:
  struct Rank {
    uint32_t rank = 0;
    std::unique_ptr<RankModel> model;
    std::unique_ptr<CheckpointManager> manager;
  };

  void SetUp() override {
    options_ = TestOptions(dir_.path() + "/store", 2);
    options_.retention.keep = LatestN(3);
  }

  // Runs `body` on that many ranks, and returns their results.
  std::vector<absl::Status> Run(
      uint32_t world_size, const std::function<absl::Status(Rank*)>& body) {
    ManagerOptions options = options_;
    options.ranks.sharding = TableSharding::BySlices();
    const auto make = [&](uint32_t rank) {
      return Rank{rank, std::make_unique<RankModel>(rank, world_size), nullptr};
    };
    return RunRanks<Rank>(world_size, options, make, body);
  }

  static absl::Status TrainTo(int64_t step, Rank* rank) {
    while (rank->manager->global_step() < step) {
      rank->model->Train(rank->manager->global_step() + 1, rank->rank);
      CKPTDB_RETURN_IF_ERROR(rank->manager->Step().status());
    }
    return rank->manager->WaitUntilFinished();
  }

  // Restores the newest step, which must be `step`, with that io state.
  static absl::Status RestoreAndExpect(Rank* rank, uint32_t world_size,
                                       int64_t step,
                                       const std::string& position) {
    CKPTDB_ASSIGN_OR_RETURN(const RestoreReport report,
                            rank->manager->Restore());
    EXPECT_EQ(report.version.step, step);
    EXPECT_TRUE(rank->model->IsTrained(step, rank->rank, world_size));
    EXPECT_EQ(rank->model->reader.position, position);
    return absl::OkStatus();
  }
  StepRecord Latest() {
    const auto reader = Reader::Open(options_.path);
    EXPECT_OK(reader);
    steps_ = (*reader)->Steps().size();
    return (*reader)->Latest().value();
  }

  TempDir dir_;
  ManagerOptions options_;
  size_t steps_ = 0;  // that Latest has found
};

// Only the owner encounters the error; every rank reports the failure, and none
// returns it.
TEST_F(ManagerRanksTest, TolerateASaveThatCannotBegin) {
  options_.save.tolerated_failures = 1;
  options_.observers.on_warning = [](const std::string&) {};
  std::atomic<int> failures_left = 1;
  options_.store.on_point = [&](absl::string_view point) {
    if (point == point::kBegun && failures_left-- > 0) throw std::bad_alloc();
  };
  std::atomic<int> failures_reported = 0;
  options_.observers.on_saved = [&](const SaveReport& report) {
    if (report.status.ok()) return;
    EXPECT_EQ(report.step, 2);
    ++failures_reported;
  };
  EXPECT_THAT(Run(3, [](Rank* rank) { return TrainTo(4, rank); }),
              Each(IsOk()));
  EXPECT_EQ(failures_reported, 3);
  EXPECT_EQ(Latest().version.step, 4);
  EXPECT_EQ(steps_, 1U);
}

// One rank's observer throws: for the save that FinishTraining makes, or for
// the step before it.
TEST_F(ManagerRanksTest, FinishTrainingFailsOnAllRanksAlike) {
  for (const int64_t throws_at : {3, 4}) {
    options_.path = absl::StrCat(dir_.path(), "/", throws_at);
    std::atomic<int> left = 1;
    options_.observers.on_saved = [&](const SaveReport& report) {
      if (report.step == throws_at && left-- == 1) {
        throw std::runtime_error("the observer is broken");
      }
    };
    const auto train = [&](Rank* rank) -> absl::Status {
      CKPTDB_RETURN_IF_ERROR(TrainTo(3, rank));
      if (throws_at == 4) rank->manager->Step().IgnoreError();
      return rank->manager->FinishTraining();
    };
    EXPECT_THAT(Run(2, train), Each(Internal("the observer is broken")));
  }
}

TEST_F(ManagerRanksTest, SaveAndRestoreTogether) {
  EXPECT_THAT(Run(3, [](Rank* rank) { return TrainTo(5, rank); }),
              Each(IsOk()));
  EXPECT_THAT(Run(3,
                  [](Rank* rank) -> absl::Status {
                    CKPTDB_RETURN_IF_ERROR(RestoreAndExpect(
                        rank, 3, 4, absl::StrCat("4/", rank->rank)));
                    return TrainTo(8, rank);
                  }),
              Each(IsOk()));
  const StepRecord latest = Latest();
  EXPECT_EQ(latest.version.step, 8);
  EXPECT_EQ(latest.world_size, 3U);
  EXPECT_EQ(latest.kind, StepRecord::Kind::kDelta);
  EXPECT_EQ(steps_, 3U);
}

TEST_F(ManagerRanksTest, AnotherNumberOfRanksContinues) {
  using Resize = ManagerOptions::IoStateResize;
  ASSERT_THAT(Run(3, [](Rank* rank) { return TrainTo(4, rank); }),
              Each(IsOk()));
  EXPECT_THAT(
      Run(2, [](Rank* rank) { return rank->manager->Restore().status(); }),
      Each(FailedPrecondition(
          "io_state \"reader\": expected world size 2, got world size 3; ")));

  options_.restore.io_state_resize = Resize::kRedistribute;
  EXPECT_THAT(Run(2,
                  [](Rank* rank) -> absl::Status {
                    CKPTDB_RETURN_IF_ERROR(
                        RestoreAndExpect(rank, 2, 4, "all of 4/0 4/1 4/2"));
                    return TrainTo(6, rank);
                  }),
              Each(IsOk()));
  const struct {
    Resize resize;
    std::vector<std::string> positions;  // by rank
  } cases[] = {{Resize::kOwners, {"6/0", "6/0", "6/0"}},
               {Resize::kWrap, {"6/0", "6/1", "6/0", "6/1", "6/0"}},
               {Resize::kWrap, {"6/0"}},
               {Resize::kReset, {"the beginning"}}};
  for (const auto& [resize, positions] : cases) {
    options_.restore.io_state_resize = resize;
    const auto world = static_cast<uint32_t>(positions.size());
    EXPECT_THAT(Run(world,
                    [&, positions = positions](Rank* rank) {
                      return RestoreAndExpect(rank, world, 6,
                                              positions[rank->rank]);
                    }),
                Each(IsOk()));
  }
}

TEST_F(ManagerRanksTest, SaveFailsOnAllRanks_WhenItFailsOnOne) {
  const auto body = [&](Rank* rank) -> absl::Status {
    CKPTDB_RETURN_IF_ERROR(TrainTo(2, rank));
    if (rank->rank == 1) {
      rank->model->users.FailWith(absl::UnavailableError("no rows today"));
    }
    EXPECT_THAT(TrainTo(4, rank),
                Unavailable("rank 1: table \"user\": no rows today"));
    rank->model->users.FailWith(absl::OkStatus());
    return TrainTo(6, rank);
  };
  EXPECT_THAT(Run(3, body), Each(IsOk()));
  // The next save contains the marks of all ranks.
  EXPECT_EQ(Latest().kind, StepRecord::Kind::kDelta);
  EXPECT_THAT(Run(3,
                  [](Rank* rank) {
                    return RestoreAndExpect(rank, 3, 6,
                                            absl::StrCat("6/", rank->rank));
                  }),
              Each(IsOk()));
}

TEST_F(ManagerRanksTest, AllRanksFail_WhenOneIsMissing) {
  options_.ranks.deadline = absl::Seconds(10);
  const auto body = [](Rank* rank) -> absl::Status {
    CKPTDB_RETURN_IF_ERROR(TrainTo(2, rank));
    if (rank->rank == 2) return absl::OkStatus();
    return TrainTo(4, rank);
  };
  const std::vector<absl::Status> statuses = Run(3, body);
  EXPECT_OK(statuses[2]);
  for (const int rank : {0, 1}) {
    EXPECT_THAT(statuses[static_cast<size_t>(rank)],
                DeadlineExceeded("ranks 2 of 3 did not reach"));
  }
  EXPECT_EQ(Latest().version.step, 2);
  EXPECT_EQ(steps_, 1U);
}

TEST_F(ManagerRanksTest, PreemptionOfOneRankReachesAll) {
  options_.ranks.notice_interval = absl::ZeroDuration();
  options_.schedule.permanent = SaveOnPreemption();
  EXPECT_THAT(Run(3,
                  [](Rank* rank) -> absl::Status {
                    CKPTDB_RETURN_IF_ERROR(TrainTo(2, rank));
                    EXPECT_FALSE(rank->manager->preempted());
                    if (rank->rank == 2) rank->manager->SetPreempted();
                    CKPTDB_RETURN_IF_ERROR(TrainTo(3, rank));
                    EXPECT_TRUE(rank->manager->preempted());
                    return absl::OkStatus();
                  }),
              Each(IsOk()));
  EXPECT_EQ(Latest().version.step, 3);
}

TEST_F(ManagerRanksTest, OwnersCallsFail_OnOtherRanks) {
  const auto ask = [](Rank* rank) {
    return rank->manager->BestStep().status();
  };
  const std::vector<absl::Status> best = Run(2, ask);
  EXPECT_THAT(best[0], FailedPrecondition("ManagerOptions::restore.best"));
  EXPECT_THAT(best[1],
              FailedPrecondition("BestStep: must be called on rank 0, which "
                                 "owns the store; this is rank 1"));
  const auto remove = [](Rank* rank) { return rank->manager->Delete(9); };
  const std::vector<absl::Status> removed = Run(2, remove);
  EXPECT_THAT(removed[0], NotFound("step 9"));
  EXPECT_THAT(removed[1],
              FailedPrecondition("Delete: must be called on rank 0"));
}

TEST_F(ManagerRanksTest, OpenFailsOnAllRanks_WhenTheStoreHasAnotherOwner) {
  ASSERT_OK_AND_ASSIGN(const auto holder, Store::Open(options_.path));
  EXPECT_THAT(Run(2, [](Rank*) { return absl::OkStatus(); }),
              Each(Unavailable("rank 0: ")));
}

TEST_F(ManagerRanksTest, RestoreFailsOnAllRanks_WhenTheStoreIsEmpty) {
  const auto missing = NotFound("no step is committed");
  EXPECT_THAT(
      Run(3, [](Rank* rank) { return rank->manager->Restore().status(); }),
      Each(missing));
}

TEST_F(ManagerRanksTest, OpenFails_WhenTheCoordinatorCannotBeDuplicated) {
  ManagerOptions options;
  options.path = dir_.path() + "/other";
  TestModel model;
  EXPECT_THAT(CheckpointManager::Open(options, &model.state,
                                      std::make_unique<CannotBeDuplicated>()),
              FailedPrecondition("no second group"));
}

}  // namespace
}  // namespace ckptdb::testing
