// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/trainer.h"

#include <set>
#include <string>

#include "tests/examples/train_ctr/state_copy.h"

namespace train_ctr {
namespace {

TEST(DigestTest, DoesNotDependOnRowOrder) {
  auto trainer = MakeTrainer(SmallTrainer());
  ASSERT_OK(trainer->Step());
  auto copy = MakeTrainer(SmallTrainer());
  ASSERT_NO_FATAL_FAILURE(CopyState(*trainer, copy.get()));
  ASSERT_NE(TablesOf(*trainer)[0].state()->IdOf(0),
            TablesOf(*copy)[0].state()->IdOf(0));
  EXPECT_EQ(StateDigest(*trainer), StateDigest(*copy));
  EXPECT_EQ(StateDigest(*trainer).size(), 16u);
}

// Each change gives a digest that was not there before.
TEST(DigestTest, DependsOnEveryPartOfTheState) {
  auto trainer = MakeTrainer(SmallTrainer());
  ASSERT_OK(trainer->Step());
  std::set<std::string> digests = {StateDigest(*trainer)};
  const auto expect_new = [&](const std::string& what) {
    EXPECT_TRUE(digests.insert(StateDigest(*trainer)).second) << what;
  };
  for (EmbeddingTable& table : TablesOf(*trainer)) {
    const auto row = table.mutable_row(0);
    row.embedding[3] += 1;
    expect_new(table.name() + " embedding");
    row.adagrad_sum[0] += 1;
    expect_new(table.name() + " adagrad_sum");
    ++*row.freq;
    expect_new(table.name() + " freq");
    ++*row.last_step;
    expect_new(table.name() + " last_step");
    table.Insert(123456);
    expect_new(table.name() + " row");
  }
  Mlp::State& dense = trainer->model()->mlp()->state();
  ++dense.adam_step;
  expect_new("adam_step");
  for (const Mlp::Parameter& parameter : dense.parameters) {
    for (float* const array : {parameter.values, parameter.m, parameter.v}) {
      array[parameter.count - 1] += 1;
      expect_new(parameter.name);
    }
  }
  auto further = MakeTrainer(SmallTrainer());
  ASSERT_OK(further->Step());
  ASSERT_OK(further->Step());
  ASSERT_OK(trainer->RestoreProgress(further->progress()));
  expect_new("progress");
}

TEST(DigestTest, DetectsSwappedRows) {
  EmbeddingTable table({.name = "user", .dim = 1});
  *table.mutable_row(table.Insert(1)).embedding = 5;
  *table.mutable_row(table.Insert(2)).embedding = 6;
  const std::string before = TableDigest(table);
  *table.mutable_row(0).embedding = 6;
  *table.mutable_row(1).embedding = 5;
  EXPECT_NE(TableDigest(table), before);
}

}  // namespace
}  // namespace train_ctr
