// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/trainer.h"

#include <string>
#include <vector>

#include "tests/examples/train_ctr/state_copy.h"

namespace train_ctr {
namespace {

using ::ckptdb::testing::StatusIs;
using ::testing::HasSubstr;

void Train(Trainer& trainer, int steps) {
  for (int i = 0; i < steps; ++i) ASSERT_OK(trainer.Step());
}

TEST(TrainerTest, LearnsThePlantedWeights) {
  TrainerOptions options;
  auto trainer = MakeTrainer(options);
  ASSERT_OK_AND_ASSIGN(const Evaluation before, Evaluate(trainer.get()));
  EXPECT_NEAR(before.auc, 0.5, 0.1);
  Train(*trainer, 200);
  ASSERT_OK_AND_ASSIGN(const Evaluation after, Evaluate(trainer.get()));
  EXPECT_GT(after.auc, 0.75);
  EXPECT_LT(after.loss, before.loss - 0.1);
  EXPECT_EQ(after.examples, 20000u);
}

TEST(TrainerTest, SeedDecidesEverything) {
  TrainerOptions options = SmallTrainer();
  auto one = MakeTrainer(options);
  auto same = MakeTrainer(options);
  options.seed = 2;
  auto other = MakeTrainer(options);
  for (Trainer* trainer : {one.get(), same.get(), other.get()}) {
    Train(*trainer, 30);
  }
  EXPECT_EQ(StateDigest(*one), StateDigest(*same));
  EXPECT_NE(StateDigest(*one), StateDigest(*other));
}

// Rows in another order, as after a restore, change nothing.
TEST(TrainerTest, ContinuesFromACopyOfItsState) {
  auto trainer = MakeTrainer(SmallTrainer());
  for (int round = 0; round < 5; ++round) {
    Train(*trainer, 13);
    auto copy = MakeTrainer(SmallTrainer());
    ASSERT_NO_FATAL_FAILURE(CopyState(*trainer, copy.get()));
    Train(*trainer, 20);
    Train(*copy, 20);
    EXPECT_EQ(StateDigest(*trainer), StateDigest(*copy)) << round;
    EXPECT_EQ(Evaluate(trainer.get())->auc, Evaluate(copy.get())->auc);
  }
}

TEST(TrainerTest, EvaluationChangesNoState) {
  auto trainer = MakeTrainer(SmallTrainer());
  Train(*trainer, 5);
  const std::string digest = StateDigest(*trainer);
  ASSERT_OK(Evaluate(trainer.get()));
  EXPECT_EQ(StateDigest(*trainer), digest);
  auto unevaluated = MakeTrainer(SmallTrainer());
  Train(*unevaluated, 6);
  Train(*trainer, 1);
  EXPECT_EQ(StateDigest(*trainer), StateDigest(*unevaluated));
}

TEST(TrainerTest, ErasesUnseenRows) {
  TrainerOptions options = SmallTrainer();
  auto erasing = MakeTrainer(options);
  options.erase_after_steps = 0;
  auto keeping = MakeTrainer(options);
  Train(*erasing, 100);
  Train(*keeping, 100);
  EXPECT_LT(erasing->rows(), keeping->rows() / 2);
  // 16 steps, looked for every 2.
  for (const EmbeddingTable& table : TablesOf(*erasing)) {
    table.state()->ForEach([&](int64_t, EmbeddingTable::Row row) {
      EXPECT_GE(table.last_step(row), 100 - 16);
    });
  }
}

// A copy of the tables before some steps, and what the trackers say of these,
// make the tables after them.
TEST(TrainerTest, TracksChangedRows) {
  auto trainer = MakeTrainer(SmallTrainer());
  std::vector<ckptdb::ChangeTracker::Consumer> consumers;
  for (size_t t = 0; t < TablesOf(*trainer).size(); ++t) {
    ASSERT_OK_AND_ASSIGN(
        const auto consumer,
        TablesOf(*trainer)[t].state()->tracker()->AddConsumer("test"));
    consumers.push_back(consumer);
  }
  auto copy = MakeTrainer(SmallTrainer());
  for (int round = 0; round < 6; ++round) {
    Train(*trainer, 5);
    size_t upserted = 0;
    size_t erased = 0;
    for (size_t t = 0; t < consumers.size(); ++t) {
      ASSERT_OK_AND_ASSIGN(
          const ckptdb::ChangeTracker::Changes changes,
          TablesOf(*trainer)[t].state()->tracker()->Take(consumers[t]));
      EXPECT_EQ(changes.complete, round > 0);
      const EmbeddingTable& now = TablesOf(*trainer)[t];
      EmbeddingTable& table = TablesOf(*copy)[t];
      if (!changes.complete) {
        CopyTable(now, &table);
        continue;
      }
      upserted += changes.upserted.size();
      erased += changes.erased.size();
      for (const int64_t id : changes.upserted) CopyRow(now, id, &table);
      for (const int64_t id : changes.erased) table.state()->Erase(id);
      ASSERT_EQ(TableDigest(table), TableDigest(now)) << round;
    }
    EXPECT_LT(upserted, trainer->rows());
    EXPECT_EQ(upserted > 0, round > 0);
    EXPECT_EQ(erased > 0, round > 2);
  }
}

TEST(TrainerTest, RefusesProgressOfOtherOptions) {
  TrainerOptions options = SmallTrainer();
  const std::string progress = MakeTrainer(options)->progress();
  options.dim = 5;
  auto trainer = MakeTrainer(options);
  EXPECT_THAT(
      trainer->RestoreProgress(progress),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               ::testing::AllOf(HasSubstr("trained with seed 1"),
                                HasSubstr("dim 4"), HasSubstr("dim 5"))));
}

TEST(TrainerTest, RefusesDamagedProgress) {
  auto trainer = MakeTrainer(SmallTrainer());
  Train(*trainer, 2);
  const std::string progress = trainer->progress();
  for (const size_t bytes : {size_t{0}, size_t{7}, progress.size() - 1}) {
    EXPECT_THAT(trainer->RestoreProgress(progress.substr(0, bytes)),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("damaged")));
  }
  EXPECT_EQ(trainer->progress(), progress);
}

TEST(TrainerTest, RefusesOptionsOutOfRange) {
  const auto create = [](const TrainerOptions& options) {
    auto source = NewGeneratedLog({}).value();
    return Trainer::Create(options,
                           Reader::Create(std::move(source), 1, 1).value());
  };
  const auto invalid = [](const std::string& words) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words));
  };
  TrainerOptions options;
  options.batch = 0;
  EXPECT_THAT(create(options), invalid("batch 0 is not in 1 to 1048576"));
  options = {};
  options.dim = 4097;
  EXPECT_THAT(create(options), invalid("dim 4097 is not in 1 to 4096"));
  options = {};
  options.hidden = {8, 0};
  EXPECT_THAT(create(options), invalid("hidden layer width 0"));
  options = {};
  options.erase_after_steps = -1;
  EXPECT_THAT(create(options), invalid("erase-after -1"));
  options = {};
  options.dense_learning_rate = 0;
  EXPECT_THAT(create(options), invalid("learning rates 0.02 and 0"));
}

}  // namespace
}  // namespace train_ctr
