// SPDX-License-Identifier: Apache-2.0
// State that only some ranks have: each kind is stored and restored, or refused
// with the rank, the name and the remedy.
#include <functional>

#include "db/reader.h"
#include "schema/status.h"
#include "tests/manager/run_ranks.h"
#include "tests/manager/test_options.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

using ::testing::ElementsAre;

// What a rank adds to its model, and what it does after its manager was opened.
struct OneRank {
  TestTable table;
  TestIo io;
  std::string value = "saved";
  std::vector<float> weights = {1, 2, 3};
  SaveRequest request = {};
  std::function<absl::Status(ModelState*)> add = [](ModelState*) {
    return absl::OkStatus();
  };
};

class RankNamesTest : public ::testing::TestWithParam<bool> {
 protected:
  RankNamesTest() {
    options_ = TestOptions(dir_.path() + "/store", 100);
    options_.observers.on_warning = [this](const std::string& warning) {
      warnings_.push_back(warning);  // only rank 0 warns
    };
  }

  // Opens a manager of each rank, whose tensors and objects a provider adds if
  // the parameter says so, and saves.
  std::vector<absl::Status> Run(
      const std::function<absl::Status(CheckpointManager*, OneRank*)>& body =
          nullptr) {
    return OnRanks(2, [&](uint32_t r, auto ranks) -> absl::Status {
      OneRank& rank = ranks_[r];
      ModelState model;
      if (GetParam()) {
        model.SetProvider([&](const StepReader*) {
          model.RemoveTensorsAndObjects();
          return rank.add(&model);
        });
      } else {
        CKPTDB_RETURN_IF_ERROR(rank.add(&model));
      }
      CKPTDB_ASSIGN_OR_RETURN(
          const auto manager,
          CheckpointManager::Open(options_, &model, std::move(ranks)));
      if (body != nullptr) return body(manager.get(), &rank);
      return StepAndSave(manager.get(), rank.request);
    });
  }
  static absl::Status RestoreAll(CheckpointManager* manager, OneRank* rank) {
    rank->value = rank->io.position = "lost";
    rank->weights = {0, 0, 0};
    return manager->Restore().status();
  }

  // Lets a rank add a tensor that only it has.
  void AddShard(size_t rank, const char* name, int64_t elements) {
    ranks_[rank].add = [=, this](ModelState* model) {
      return model->AddTensor(name, ShardOf(ranks_[rank].weights.data(),
                                            {elements}, {elements}, {0}));
    };
  }

  const TempDir dir_;
  ManagerOptions options_;
  std::vector<std::string> warnings_;
  OneRank ranks_[2];
};

INSTANTIATE_TEST_SUITE_P(RegisteredOrProvided, RankNamesTest,
                         ::testing::Bool());

TEST_P(RankNamesTest, RefusesAnObjectThatTheOwnerLacks) {
  ranks_[1].add = [this](ModelState* model) {
    return model->AddValue("sampler", &ranks_[1].value);
  };
  EXPECT_THAT(Run(), Each(InvalidArgument(
                         "rank 1 has object \"sampler\", which rank 0 lacks",
                         "register it on all ranks, or as an io state")));
  EXPECT_TRUE(Reader::Open(options_.path).value()->Steps().empty());
}

TEST_P(RankNamesTest, OtherRanksMayLackAnObject) {
  ranks_[0].add = [this](ModelState* model) {
    return model->AddValue("sampler", &ranks_[0].value);
  };
  ASSERT_THAT(Run(), Each(IsOk()));
  ASSERT_THAT(Run(RestoreAll), Each(IsOk()));
  EXPECT_EQ(ranks_[0].value, "saved");
}

TEST_P(RankNamesTest, RefusesAReplicatedTensorOfOneRank) {
  for (const size_t has : {0, 1}) {
    options_.path = absl::StrCat(dir_.path(), "/tensor", has);
    ranks_[1 - has].add = OneRank().add;
    ranks_[has].add = [this, has](ModelState* model) {
      return model->AddTensor("w",
                              TensorState::Of(ranks_[has].weights.data(), {3}));
    };
    EXPECT_THAT(Run(), Each(InvalidArgument("different replicated tensors",
                                            "tensor \"w\" f32 [3]")));
  }
}

TEST_P(RankNamesTest, RestoresAShardedTensorOfOneRank) {
  ranks_[1].add = [this](ModelState* model) {
    return model->AddTensor("w",
                            ShardOf(ranks_[1].weights.data(), {3}, {3}, {0}));
  };
  ASSERT_THAT(Run(), Each(IsOk()));
  ASSERT_THAT(Run(RestoreAll), Each(IsOk()));
  EXPECT_THAT(ranks_[1].weights, ElementsAre(1, 2, 3));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_P(RankNamesTest, WarnsOfItemsThatNoRankRegistersAnyMore) {
  AddShard(0, "w", 3);
  AddShard(1, "v", 3);
  ASSERT_THAT(Run(), Each(IsOk()));
  ranks_[0].add = OneRank().add;
  std::vector<std::string> unexpected[2];
  const auto restore = [&](CheckpointManager* manager, OneRank* rank) {
    const absl::StatusOr<RestoreReport> report = manager->Restore();
    if (report.ok()) unexpected[rank - ranks_] = report->loaded.unexpected;
    return report.status();
  };
  ASSERT_THAT(Run(restore), Each(IsOk()));
  for (const auto& each : unexpected) EXPECT_THAT(each, ElementsAre("w"));
  EXPECT_THAT(warnings_,
              ElementsAre(HasSubstr("step 1 has \"w\", which is not "
                                    "registered and so not in the next save")));
}

TEST_P(RankNamesTest, MisfitDoesNotListWhatAnotherRankRegisters) {
  AddShard(0, "w", 3);
  AddShard(1, "v", 3);
  ASSERT_THAT(Run(), Each(IsOk()));
  AddShard(0, "w", 2);
  const std::vector<absl::Status> statuses = Run(RestoreAll);
  EXPECT_THAT(statuses, Each(FailedPrecondition("rank 0: ", "dense \"w\": ",
                                                Not(HasSubstr("but not")))));
}

TEST_P(RankNamesTest, RefusesAMetricThatTheOwnerLacks) {
  ranks_[0].request.metrics = {{"loss", 1}};
  ranks_[1].request.metrics = {{"auc", 0.5}, {"loss", 2}};
  EXPECT_THAT(Run(), Each(InvalidArgument(
                         "rank 1 has metric \"auc\", which rank 0 lacks",
                         "pass it on rank 0")));
}

TEST_P(RankNamesTest, OtherRanksMayLackMetricsAndUserMetadata) {
  ranks_[0].request.metrics = {{"loss", 1}};
  ranks_[0].request.user_metadata = {{"run", "7"}};
  ASSERT_THAT(Run(), Each(IsOk()));
  const StepRecord step = Reader::Open(options_.path).value()->Latest().value();
  EXPECT_EQ(step.metrics.at("loss"), 1);
  EXPECT_EQ(step.user_metadata.at("run"), "7");
}

TEST_P(RankNamesTest, RefusesUserMetadataThatTheOwnerLacks) {
  ranks_[1].request.user_metadata = {{"run", "7"}};
  EXPECT_THAT(Run(), Each(InvalidArgument(
                         "rank 1 has user metadata \"run\", which rank 0 lacks",
                         "pass it on rank 0")));
}

// A provider does not add tables and io states.
class RankTablesTest : public RankNamesTest {};
INSTANTIATE_TEST_SUITE_P(Registered, RankTablesTest, ::testing::Values(false));

TEST_P(RankTablesTest, RefusesATableOfOneRank) {
  ranks_[1].add = [this](ModelState* model) {
    return model->AddTable("user", &ranks_[1].table, TableSharding::BySlices());
  };
  EXPECT_THAT(Run(), Each(InvalidArgument("rank 0 has no table",
                                          "rank 1 has table \"user\"")));
}

TEST_P(RankTablesTest, RestoresAnIoStateOfOneRank) {
  ranks_[1].add = [this](ModelState* model) {
    return model->AddIoState("reader", &ranks_[1].io);
  };
  ranks_[1].io.position = "row 7";
  ASSERT_THAT(Run(), Each(IsOk()));
  ASSERT_THAT(Run(RestoreAll), Each(IsOk()));
  EXPECT_EQ(ranks_[1].io.position, "row 7");
  EXPECT_THAT(warnings_, IsEmpty());
}

}  // namespace
}  // namespace ckptdb::testing
