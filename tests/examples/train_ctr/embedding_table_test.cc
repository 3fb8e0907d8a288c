#include "train_ctr/embedding_table.h"

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "ckptdb/tests/support/seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

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

TEST(EmbeddingTableTest, ChunksHoldAllRowsWithoutGaps) {
  EmbeddingTable table = MakeTable(3);
  const size_t rows = 2 * EmbeddingTable::kRowsPerChunk + 5;
  for (size_t i = 0; i < rows; ++i) {
    const auto row = table.Insert(static_cast<int64_t>(i) * 17);
    table.mutable_row(row).embedding[2] = static_cast<float>(i);
    *table.mutable_row(row).last_step = static_cast<int64_t>(i);
  }
  ASSERT_EQ(table.chunks(), 3u);
  size_t i = 0;
  for (size_t c = 0; c < table.chunks(); ++c) {
    const EmbeddingTable::Chunk chunk = table.chunk(c);
    for (size_t r = 0; r < chunk.rows; ++r, ++i) {
      ASSERT_EQ(chunk.ids[r], static_cast<int64_t>(i) * 17);
      ASSERT_EQ(chunk.embedding[r * 3 + 2], static_cast<float>(i));
      ASSERT_EQ(chunk.last_step[r], static_cast<int64_t>(i));
    }
  }
  EXPECT_EQ(i, rows);
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
      ASSERT_EQ(table.id(*row), id);
      ASSERT_EQ(table.freq(*row), counts.first);
      ASSERT_EQ(table.last_step(*row), counts.second);
      ASSERT_EQ(table.embedding(*row)[0], static_cast<float>(counts.first));
      ASSERT_EQ(table.embedding(*row)[1], static_cast<float>(id));
    }
  }
}

TEST(EmbeddingTableTest, ErasesAcrossChunksAndToTheLastRow) {
  EmbeddingTable table = MakeTable(1);
  const auto rows = static_cast<int64_t>(EmbeddingTable::kRowsPerChunk) + 1;
  for (int64_t id = 0; id < rows; ++id) table.Touch(id, id == 5 ? 1 : 2);
  EXPECT_THAT(table.EraseUnseenSince(2), ElementsAre(5));
  EXPECT_EQ(table.chunks(), 1u);
  EXPECT_FALSE(table.Find(5).has_value());
  EXPECT_EQ(table.Find(rows - 1), 5u);
  EXPECT_EQ(table.EraseUnseenSince(3).size(), static_cast<size_t>(rows - 1));
  EXPECT_EQ(table.rows(), 0u);
  EXPECT_EQ(table.chunks(), 0u);
  EXPECT_EQ(table.Touch(5, 4), 0u);
}

TEST(EmbeddingTableTest, ErasesOneRow) {
  EmbeddingTable table = MakeTable();
  table.Touch(1, 1);
  table.Touch(2, 2);
  EXPECT_TRUE(table.Erase(1));
  EXPECT_FALSE(table.Erase(1));
  EXPECT_FALSE(table.Erase(3));
  EXPECT_EQ(table.rows(), 1u);
  EXPECT_EQ(table.last_step(table.Find(2).value()), 2);
}

TEST(EmbeddingTableTest, TakesAnyId) {
  EmbeddingTable table = MakeTable();
  const std::set<int64_t> ids = {std::numeric_limits<int64_t>::min(), -1, 0,
                                 std::numeric_limits<int64_t>::max()};
  for (const int64_t id : ids) table.Touch(id, 0);
  const EmbeddingTable::Chunk chunk = table.chunk(0);
  EXPECT_EQ(std::set<int64_t>(chunk.ids, chunk.ids + chunk.rows), ids);
}

}  // namespace
}  // namespace train_ctr
