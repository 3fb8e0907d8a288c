// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/rows.h"

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/seed.h"

namespace train_ctr {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

EmbeddingTable MakeTable(size_t dim = 4, uint64_t seed = 1) {
  EmbeddingTableOptions options;
  options.name = "user";
  options.dim = dim;
  options.seed = seed;
  return EmbeddingTable(options);
}

std::vector<float> Values(const EmbeddingTable& table, int64_t id) {
  const float* values = table.embedding(table.Find(id).value());
  return {values, values + table.dim()};
}

TEST(EmbeddingTableTest, CreatesAndCounts) {
  EmbeddingTable table = MakeTable();
  EXPECT_FALSE(table.Find(7).has_value());
  const auto row = table.Touch(7, 3);
  EXPECT_EQ(table.Touch(7, 5), row);
  EXPECT_EQ(table.rows(), 1u);
  EXPECT_EQ(table.freq(row), 2);
  EXPECT_EQ(table.last_step(row), 5);
  EXPECT_EQ(table.Find(7), row);
}

TEST(EmbeddingTableTest, FirstValuesDependOnSeedNameAndId) {
  EmbeddingTable table = MakeTable();
  EmbeddingTable same = MakeTable();
  EmbeddingTable other_seed = MakeTable(4, 2);
  EmbeddingTableOptions named;
  named.name = "item";
  named.dim = 4;
  EmbeddingTable other_name(named);
  same.Touch(1, 0);  // another order
  for (EmbeddingTable* t : {&table, &same, &other_seed, &other_name}) {
    t->Touch(-5, 0);
  }
  EXPECT_EQ(Values(table, -5), Values(same, -5));
  EXPECT_NE(Values(table, -5), Values(other_seed, -5));
  EXPECT_NE(Values(table, -5), Values(other_name, -5));
  EXPECT_NE(Values(same, -5), Values(same, 1));
  for (const float value : Values(table, -5)) {
    EXPECT_LT(std::abs(value), 0.05f);
    EXPECT_NE(value, 0);
  }
}

TEST(EmbeddingTableTest, InsertsZeros) {
  EmbeddingTable table = MakeTable();
  const auto row = table.Insert(3);
  EXPECT_EQ(Values(table, 3), std::vector<float>(4, 0.0f));
  EXPECT_EQ(table.freq(row), 0);
  EXPECT_EQ(table.Insert(3), row);
  *table.mutable_row(row).freq = 9;
  EXPECT_EQ(table.freq(row), 9);
}

TEST(EmbeddingTableTest, AppliesAdagrad) {
  EmbeddingTable table = MakeTable(2);
  const auto row = table.Insert(1);
  const float gradient[] = {3, -4};
  table.ApplyAdagrad(row, gradient, 0.5f);
  EXPECT_FLOAT_EQ(table.embedding(row)[0], -0.5f);
  EXPECT_FLOAT_EQ(table.embedding(row)[1], 0.5f);
  EXPECT_FLOAT_EQ(table.adagrad_sum(row)[0], 9);
  EXPECT_FLOAT_EQ(table.adagrad_sum(row)[1], 16);
  table.ApplyAdagrad(row, gradient, 0.5f);
  EXPECT_FLOAT_EQ(table.embedding(row)[0], -0.5f - 0.5f / std::sqrt(2.0f));
}

// Random touches and erasures against a map.
TEST(EmbeddingTableTest, AgreesWithAModel) {
  std::mt19937_64 random(ckptdb::testing::TestSeed());
  EmbeddingTable table = MakeTable(2);
  std::map<int64_t, std::pair<int64_t, int64_t>> model;  // freq, last step
  for (int64_t step = 0; step < 400; ++step) {
    for (int i = 0; i < 60; ++i) {
      const auto id = static_cast<int64_t>(random() % 8000) - 4000;
      auto& [freq, last_step] = model[id];
      const auto row = table.Touch(id, step);
      ++freq;
      last_step = step;
      table.mutable_row(row).embedding[0] = static_cast<float>(freq);
      table.mutable_row(row).embedding[1] = static_cast<float>(id);
    }
    if (step % 20 != 0) continue;
    std::vector<int64_t> gone;
    for (const auto& [id, counts] : model) {
      if (counts.second < step - 50) gone.push_back(id);
    }
    for (const int64_t id : gone) model.erase(id);
    EXPECT_THAT(table.EraseUnseenSince(step - 50),
                UnorderedElementsAreArray(gone));
    ASSERT_EQ(table.rows(), model.size());
    for (const auto& [id, counts] : model) {
      const auto row = table.Find(id);
      ASSERT_TRUE(row.has_value()) << id;
      ASSERT_EQ(table.state()->IdOf(*row), id);
      ASSERT_EQ(table.freq(*row), counts.first);
      ASSERT_EQ(table.last_step(*row), counts.second);
      ASSERT_EQ(table.embedding(*row)[0], static_cast<float>(counts.first));
      ASSERT_EQ(table.embedding(*row)[1], static_cast<float>(id));
    }
  }
}

TEST(EmbeddingTableTest, ErasesToTheLastRow) {
  EmbeddingTable table = MakeTable(1);
  for (int64_t id = 0; id < 100; ++id) table.Touch(id, id == 5 ? 1 : 2);
  EXPECT_THAT(table.EraseUnseenSince(2), ElementsAre(5));
  EXPECT_FALSE(table.Find(5).has_value());
  EXPECT_EQ(table.EraseUnseenSince(3).size(), 99U);
  EXPECT_EQ(table.rows(), 0u);
  EXPECT_EQ(table.freq(table.Touch(5, 4)), 1);
}

// The names and types that steps of earlier versions have.
TEST(EmbeddingTableTest, StateHasTheSlotsOfARow) {
  using ckptdb::Codec;
  using ckptdb::DType;
  EXPECT_THAT(
      MakeTable(3).state()->slots(),
      ElementsAre(ckptdb::Slot{"embedding", DType::kF32, 3},
                  ckptdb::Slot{"adagrad_sum", DType::kF32, 3},
                  ckptdb::Slot{"freq", DType::kI64, 1, Codec::kAuto},
                  ckptdb::Slot{"last_step", DType::kI64, 1, Codec::kAuto}));
}

TEST(EmbeddingTableTest, TakesAnyId) {
  EmbeddingTable table = MakeTable();
  const std::set<int64_t> ids = {std::numeric_limits<int64_t>::min(), -1, 0,
                                 std::numeric_limits<int64_t>::max()};
  for (const int64_t id : ids) table.Touch(id, 0);
  std::set<int64_t> found;
  table.state()->ForEach(
      [&](int64_t id, EmbeddingTable::Row) { found.insert(id); });
  EXPECT_EQ(found, ids);
}

}  // namespace
}  // namespace train_ctr
