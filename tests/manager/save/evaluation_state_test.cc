// SPDX-License-Identifier: Apache-2.0
// The progress of evaluations, saved by managers of one rank and of several.
#include <array>

#include "schema/types.h"
#include "tests/manager/manager_fixture.h"
#include "tests/manager/run_ranks.h"
#include "tests/manager/test_options.h"

namespace ckptdb::testing {
namespace {

constexpr char kGroup[] = "eval/ctr";

// The loaded values, in the order of the calls.
using Calls = std::vector<std::string>;

class TestMeters : public BlobState {
 public:
  explicit TestMeters(Calls* calls) : calls_(calls) {}
  std::string sums = "none";
  absl::Status failure;

  absl::StatusOr<std::string> Dump() override {
    if (!failure.ok()) return failure;
    return sums;
  }
  absl::Status Load(absl::string_view bytes) override {
    if (!failure.ok()) return failure;
    sums = std::string(bytes);
    calls_->push_back("meters " + sums);
    return absl::OkStatus();
  }

 private:
  Calls* const calls_;
};

class TestLoader : public TestIo {
 public:
  explicit TestLoader(Calls* calls) : calls_(calls) {}
  absl::Status failure;

  absl::Status Load(absl::string_view bytes) override {
    if (!failure.ok()) return failure;
    calls_->push_back("loader " + std::string(bytes));
    return TestIo::Load(bytes);
  }

 private:
  Calls* const calls_;
};

// A rank's meters and loader.
struct Evaluator {
  Calls calls;
  TestMeters meters{&calls};
  TestLoader loader{&calls};

  absl::Status Save(EvaluationState* state, const EvaluationState::Name& name,
                    uint64_t processed, const std::string& suffix = "") {
    meters.sums = absl::StrCat("sums of ", processed, suffix);
    loader.position = absl::StrCat("line ", processed, suffix);
    return state->Save(name, &loader, processed);
  }
};

class EvaluationStateTest : public ManagerTest {
 protected:
  // The store contains steps 2 and 4.
  void SetUp() override {
    ManagerTest::SetUp();
    Restart();
    TrainAndWait(4);
  }
  // A new process, with the group added.
  void Restart() {
    Start();
    now_ = std::make_unique<Evaluator>();
    ASSERT_OK(state()->AddGroup(kGroup, &now_->meters));
  }
  EvaluationState* state() { return manager_->evaluation(); }
  static EvaluationState::Name Name(int64_t step,
                                    const std::string& evaluation = "day_7",
                                    const std::string& group = kGroup) {
    return {step, evaluation, group};
  }
  absl::Status Save(const EvaluationState::Name& name, uint64_t processed) {
    return now_->Save(state(), name, processed);
  }
  absl::StatusOr<uint64_t> Load(const EvaluationState::Name& name) {
    return state()->Load(name, &now_->loader);
  }
  uint64_t Loaded(int64_t step) {
    const auto processed = Load(Name(step));
    EXPECT_OK(processed);
    return processed.value_or(~uint64_t{0});
  }

  std::unique_ptr<Evaluator> now_;
};

TEST_F(EvaluationStateTest,
       LoadReturnsZeroAndChangesNothing_WhenNothingWasSaved) {
  EXPECT_EQ(Loaded(2), 0U);
  EXPECT_THAT(now_->calls, IsEmpty());
}

TEST_F(EvaluationStateTest, LoadRestoresMetersThenLoaderAfterACrash) {
  ASSERT_OK(Save(Name(2), 100));
  ASSERT_OK(Save(Name(2, "day_8"), 7));
  ASSERT_OK(Save(Name(4), 5));
  ASSERT_OK(Save(Name(2), 200));
  Restart();
  EXPECT_EQ(Loaded(2), 200U);
  EXPECT_THAT(now_->calls,
              ElementsAre("meters sums of 200", "loader line 200"));
  EXPECT_EQ(now_->loader.position, "line 200");
  EXPECT_EQ(Loaded(4), 5U);
  EXPECT_EQ(Load(Name(2, "day_8")).value(), 7U);
}

TEST_F(EvaluationStateTest, UnknownStepsAndGroupsAreNotFound) {
  const auto no_step = NotFound("no step 3");
  EXPECT_THAT(Save(Name(3), 1), no_step);
  EXPECT_THAT(Load(Name(3)), no_step);
  const auto no_group = NotFound(
      "metrics group \"eval/cvr\" was not added; the 1 added groups: "
      "\"eval/ctr\"");
  EXPECT_THAT(Save(Name(2, "day_7", "eval/cvr"), 1), no_group);
  EXPECT_THAT(Load(Name(2, "day_7", "eval/cvr")), no_group);
}

TEST_F(EvaluationStateTest, ErrorNamesBothGroups_WhenTheyDiffer) {
  TestMeters other(&now_->calls);
  ASSERT_OK(state()->AddGroup("eval/cvr", &other));
  ASSERT_OK(Save(Name(2), 100));
  EXPECT_THAT(
      Load(Name(2, "day_7", "eval/cvr")),
      FailedPrecondition("evaluation \"day_7\" of step 2: expected metrics "
                         "group \"eval/cvr\", got \"eval/ctr\""));
  EXPECT_THAT(now_->calls, IsEmpty());
}

TEST_F(EvaluationStateTest, ReturnsErrorsOfMetersAndLoader) {
  ASSERT_OK(Save(Name(2), 100));
  now_->meters.failure = absl::UnavailableError("no sums today");
  EXPECT_THAT(Save(Name(2), 200),
              Unavailable("meters of \"eval/ctr\": no sums today"));
  EXPECT_THAT(Load(Name(2)),
              Unavailable("meters of \"eval/ctr\": no sums today"));
  EXPECT_THAT(now_->calls, IsEmpty());
  now_->meters.failure = absl::OkStatus();
  now_->loader.failure = absl::UnavailableError("no lines today");
  EXPECT_THAT(Load(Name(2)), Unavailable("the loader: no lines today"));
  now_->loader.failure = absl::OkStatus();
  EXPECT_EQ(Loaded(2), 100U) << "the failed save changed nothing";
  const auto null = InvalidArgument("the loader is null");
  EXPECT_THAT(state()->Save(Name(2), nullptr, 1), null);
  EXPECT_THAT(state()->Load(Name(2), nullptr), null);
}

TEST_F(EvaluationStateTest, SaveThatIsTooLargeKeepsTheEarlierOne) {
  ASSERT_OK(Save(Name(2), 100));
  now_->meters.sums = std::string(kMaxEvaluationBytes, 'm');
  now_->loader.position = "x";
  EXPECT_THAT(state()->Save(Name(2), &now_->loader, 200),
              InvalidArgument("8388609", "8388608"));
  EXPECT_EQ(Loaded(2), 100U);
}

TEST_F(EvaluationStateTest, GroupCannotBeAddedTwice) {
  EXPECT_THAT(state()->AddGroup(kGroup, &now_->meters), AlreadyExists(kGroup));
  EXPECT_THAT(state()->AddGroup("g", nullptr),
              InvalidArgument("meters of group \"g\" are null"));
  EXPECT_THAT(state()->AddGroup("", &now_->meters),
              InvalidArgument("metrics group \"\" is empty"));
}

TEST_F(EvaluationStateTest, CleansUpOneStepAllStepsOrAllButOne) {
  TrainAndWait(8);
  for (const int64_t step : {2, 4, 6, 8}) ASSERT_OK(Save(Name(step), 1));
  ASSERT_OK(state()->Cleanup(2));
  ASSERT_OK(state()->Cleanup(2));
  ASSERT_OK(state()->Cleanup(99));
  EXPECT_EQ(Loaded(2), 0U);
  EXPECT_EQ(Loaded(4), 1U);
  ASSERT_OK(state()->CleanupAll(/*except=*/6));
  EXPECT_EQ(Loaded(4), 0U);
  EXPECT_EQ(Loaded(6), 1U);
  EXPECT_EQ(Loaded(8), 0U);
  ASSERT_OK(state()->CleanupAll());
  EXPECT_EQ(Loaded(6), 0U);
}

TEST_F(EvaluationStateTest, IsRetiredWithItsStep) {
  ASSERT_OK(Save(Name(2), 100));
  options_.retention.keep = LatestN(1);
  Restart();
  ASSERT_OK(manager_->Restore());
  TrainAndWait(8);
  EXPECT_THAT(Load(Name(2)), NotFound("no step 2"));
}

// Each of several ranks, in a thread, with a store that contains step 2.
class EvaluationRanksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_ = TestOptions(dir_.path() + "/store");
    options_.schedule = {};
    options_.ranks.sharding = TableSharding::Replicated();
  }

  using Body =
      std::function<absl::Status(uint32_t rank, EvaluationState*, Evaluator*)>;
  std::vector<absl::Status> Run(uint32_t world_size, const Body& body,
                                bool read_only = false) {
    ManagerOptions options = options_;
    options.read_only = read_only;
    const auto run = [&](uint32_t rank, auto ranks) -> absl::Status {
      TestModel model;
      model.owns = [=](int64_t) { return rank == 0; };
      model.Train(2);
      CKPTDB_ASSIGN_OR_RETURN(
          const auto manager,
          CheckpointManager::Open(options, &model.state, std::move(ranks)));
      if (saved_) {
        CKPTDB_RETURN_IF_ERROR(manager->StepTo(2).status());
        CKPTDB_ASSIGN_OR_RETURN(const PendingSave save, manager->Save());
        CKPTDB_RETURN_IF_ERROR(save.WaitCommitted().status());
      }
      Evaluator evaluator;
      EvaluationState* const state = manager->evaluation();
      CKPTDB_RETURN_IF_ERROR(state->AddGroup(kGroup, &evaluator.meters));
      return body(rank, state, &evaluator);
    };
    return OnRanks(world_size, run);
  }

  TempDir dir_;
  ManagerOptions options_;
  bool saved_ = true;
};

const EvaluationState::Name kName = {2, "day_7", kGroup};

TEST_F(EvaluationRanksTest, EachRankLoadsItsOwnPart) {
  EXPECT_THAT(Run(3,
                  [](uint32_t rank, auto* state, auto* evaluator) {
                    return evaluator->Save(state, kName, 100 + rank,
                                           absl::StrCat(" of ", rank));
                  }),
              Each(IsOk()));
  saved_ = false;
  EXPECT_THAT(
      Run(3,
          [](uint32_t rank, auto* state, auto* evaluator) -> absl::Status {
            CKPTDB_ASSIGN_OR_RETURN(const uint64_t processed,
                                    state->Load(kName, &evaluator->loader));
            EXPECT_EQ(processed, 100 + rank);
            EXPECT_EQ(evaluator->meters.sums,
                      absl::StrCat("sums of ", 100 + rank, " of ", rank));
            EXPECT_EQ(evaluator->loader.position,
                      absl::StrCat("line ", 100 + rank, " of ", rank));
            return absl::OkStatus();
          }),
      Each(IsOk()));
  // With another number of ranks, no rank loads another rank's part.
  const auto misfit = FailedPrecondition(
      "evaluation \"day_7\" of step 2: expected parts of 2 ranks, got parts of "
      "3 ranks");
  EXPECT_THAT(Run(2,
                  [](uint32_t, auto* state, auto* evaluator) {
                    return state->Load(kName, &evaluator->loader).status();
                  }),
              Each(misfit));
}

// While a trainer keeps saving, all ranks of a reader load the same save.
TEST_F(EvaluationRanksTest, RanksOfAReaderLoadTheSameEvaluation) {
  constexpr uint64_t kSaves = 60;
  constexpr uint64_t kLoads = 20;
  const Body save = [](uint32_t, auto* state, auto* evaluator) -> absl::Status {
    for (uint64_t i = 1; i <= kSaves; ++i) {
      CKPTDB_RETURN_IF_ERROR(evaluator->Save(state, kName, i));
    }
    return absl::OkStatus();
  };
  ASSERT_THAT(Run(2, save), Each(IsOk()));
  std::array<std::array<uint64_t, kLoads>, 2> loaded{};
  saved_ = false;
  std::thread trainer([&] { EXPECT_THAT(Run(2, save), Each(IsOk())); });
  const Body load = [&](uint32_t rank, auto* state,
                        auto* evaluator) -> absl::Status {
    for (uint64_t& each : loaded[rank]) {
      CKPTDB_ASSIGN_OR_RETURN(each, state->Load(kName, &evaluator->loader));
    }
    return absl::OkStatus();
  };
  EXPECT_THAT(Run(2, load, /*read_only=*/true), Each(IsOk()));
  trainer.join();
  EXPECT_EQ(loaded[0], loaded[1]);
}

TEST_F(EvaluationRanksTest, AllRanksFail_WhenOneFails) {
  const auto failed =
      Unavailable("rank 1: meters of \"eval/ctr\": no sums today");
  EXPECT_THAT(Run(3,
                  [&](uint32_t rank, auto* state, auto* evaluator) {
                    if (rank == 1) {
                      evaluator->meters.failure =
                          absl::UnavailableError("no sums today");
                    }
                    EXPECT_THAT(evaluator->Save(state, kName, 1), failed);
                    evaluator->meters.failure = absl::OkStatus();
                    return evaluator->Save(state, kName, 2);
                  }),
              Each(IsOk()));
}

TEST_F(EvaluationRanksTest, SaveIsAborted_WhenRanksNameDifferentEvaluations) {
  EXPECT_THAT(Run(2,
                  [&](uint32_t rank, auto* state, auto* evaluator) {
                    EvaluationState::Name name = kName;
                    if (rank == 1) name.evaluation = "day_8";
                    return evaluator->Save(state, name, 1);
                  }),
              Each(Aborted("day_7", "day_8")));
}

TEST_F(EvaluationRanksTest, RanksCleanUpTogether) {
  EXPECT_THAT(Run(2,
                  [&](uint32_t, auto* state, auto* evaluator) -> absl::Status {
                    CKPTDB_RETURN_IF_ERROR(evaluator->Save(state, kName, 1));
                    CKPTDB_RETURN_IF_ERROR(state->Cleanup(2));
                    CKPTDB_ASSIGN_OR_RETURN(
                        const uint64_t processed,
                        state->Load(kName, &evaluator->loader));
                    EXPECT_EQ(processed, 0U);
                    CKPTDB_RETURN_IF_ERROR(evaluator->Save(state, kName, 1));
                    return state->CleanupAll();
                  }),
              Each(IsOk()));
}

}  // namespace
}  // namespace ckptdb::testing
