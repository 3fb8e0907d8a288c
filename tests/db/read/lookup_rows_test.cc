// SPDX-License-Identifier: Apache-2.0
// Many rows looked up in one call. Chains and ranks: ExpectLookups of
// tests/db/delta_content.h.

#include <rocksdb/convenience.h>

#include "db/rocks/rocks_options.h"
#include "schema/bytes/keys.h"
#include "schema/types.h"
#include "tests/db/delta_fixture.h"
#include "tests/db/raw_database.h"

namespace ckptdb::testing {
namespace {

// The result of a call, with bytes behind the arrays that it must not touch.
struct Batch {
  explicit Batch(const std::vector<int64_t>& looked_up) : ids(looked_up) {}

  absl::Status LookUp(const StepReader& step, const std::string& table,
                      const std::vector<std::string>& slots,
                      const std::vector<uint64_t>& row_bytes,
                      const ReadOptions& options = {}) {
    values.clear();
    for (const uint64_t bytes : row_bytes) {
      values.emplace_back(ids.size() * bytes + 8, '\xcc');
    }
    std::vector<char*> out;
    for (std::string& each : values) out.push_back(each.data());
    found = std::make_unique<bool[]>(ids.size() + 1);
    return step.LookupRows(table, ids, slots, out, found.get(), options);
  }

  std::vector<int64_t> ids;
  std::vector<std::string> values;
  std::unique_ptr<bool[]> found;
};

class LookupRowsTest : public DeltaFixture {
 protected:
  // Looks ids up with these slots of the table, and compares with its rows.
  void ExpectBatch(const StepReader& step, const TableContent& table,
                   const std::vector<int64_t>& ids,
                   const std::vector<size_t>& slots,
                   const ReadOptions& options = {}) {
    std::vector<std::string> names;
    std::vector<uint64_t> row_bytes;
    std::vector<uint64_t> begins;
    for (const size_t s : slots) {
      names.push_back(table.slots[s].name);
      row_bytes.push_back(table.slots[s].row_bytes());
      uint64_t begin = 0;
      for (size_t i = 0; i < s; ++i) begin += table.slots[i].row_bytes();
      begins.push_back(begin);
    }
    Batch batch(ids);
    ASSERT_OK(batch.LookUp(step, "user", names, row_bytes, options));
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto row = table.rows.find(ids[i]);
      ASSERT_EQ(batch.found[i], row != table.rows.end()) << "id " << ids[i];
      for (size_t s = 0; s < slots.size(); ++s) {
        const std::string expected =
            batch.found[i] ? row->second.substr(begins[s], row_bytes[s])
                           : std::string(row_bytes[s], '\0');
        ASSERT_TRUE(batch.values[s].substr(i * row_bytes[s], row_bytes[s]) ==
                    expected)
            << "id " << ids[i] << ", slot " << names[s];
      }
    }
    for (const std::string& values : batch.values) {
      EXPECT_EQ(values.substr(values.size() - 8), std::string(8, '\xcc'));
    }
  }
};

// Ids of the table and others, some of them several times.
std::vector<int64_t> SomeIds(std::mt19937_64* random, const Rows& rows,
                             size_t count) {
  std::vector<int64_t> all;
  for (const auto& [id, values] : rows) all.push_back(id);
  std::vector<int64_t> ids;
  for (size_t i = 0; i < count; ++i) {
    const int64_t id = all[(*random)() % all.size()];
    ids.push_back((*random)() % 4 == 0 ? id + 1 : id);
  }
  return ids;
}

TEST_F(LookupRowsTest, RandomIdsOfATableInFiles) {
  std::mt19937_64 random(TestSeed());
  TableContent table;
  table.slots = {{"embedding", DType::kF32, 64},
                 {"adagrad", DType::kF32, 1},
                 {"note", DType::kU8, 600}};
  table.rows = RandomRows(&random, table.row_bytes(), 20'000);
  RankContent content;
  content.tables["user"] = table;
  ASSERT_OK(Save(1, content));
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  EXPECT_EQ(step->ranks()[0].items[0].placement, Item::Placement::kBulk);
  for (const size_t count : {1, 2, 63, 64, 128, 1000, 20'000}) {
    const std::vector<int64_t> ids = SomeIds(&random, table.rows, count);
    for (const int threads : {1, 2, 16}) {
      ExpectBatch(*step, table, ids, {0, 1, 2}, {.threads = threads});
    }
    ExpectBatch(*step, table, ids, {2, 0});
    ExpectBatch(*step, table, ids, {});
  }
}

TEST_F(LookupRowsTest, ChainsOfDeltasWithErasures) {
  std::mt19937_64 random(TestSeed());
  for (const bool bulk : {false, true}) {
    content_ = UserContent({});
    parent_.reset();
    TableContent& table = content_.tables["user"];
    const int64_t rows = bulk ? 60'000 : 300;
    for (int64_t id = 0; id < rows; ++id) table.rows[id * 3] = RowOf(id, 0);
    const int64_t first = bulk ? 100 : 1;
    for (int64_t step = first; step < first + 6; ++step) {
      for (int64_t i = 0; i < rows / 20; ++i) {
        const auto id =
            static_cast<int64_t>(random() % static_cast<uint64_t>(rows * 3));
        if (random() % 3 == 0) {
          table.rows.erase(id);
        } else {
          table.rows[id] = RowOf(id, step);
        }
      }
      ASSERT_NO_FATAL_FAILURE(SaveNext(step));
      ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(step));
      std::vector<int64_t> ids;
      for (int64_t id = -1; id <= rows * 3; ++id) ids.push_back(id);
      std::shuffle(ids.begin(), ids.end(), random);
      ExpectBatch(*reader, table, ids, {0, 1});
      ids.resize(100);
      ExpectBatch(*reader, table, ids, {1});
    }
  }
}

// Removes the files of the base run, whose records remain.
TEST_F(LookupRowsTest, RunWithoutItsPagesIsDamage) {
  content_.tables["user"] = BulkTable(1);
  Rows& rows = content_.tables["user"].rows;
  SaveNext(1);
  const std::string begin = VersionPrefix(*parent_);
  const std::string end = VersionEnd(*parent_);
  rows[31] = std::string(8192, 'x');
  rows.erase(62);
  SaveNext(2);
  store_.reset();
  {
    RawDatabase database(path());
    const rocksdb::Slice first(begin);
    const rocksdb::Slice last(end);
    constexpr auto kBulk = static_cast<size_t>(internal::Family::kBulk);
    ASSERT_TRUE(rocksdb::DeleteFilesInRange(
                    database.rocks(), database.family(kBulk), &first, &last)
                    .ok());
  }
  Reopen();
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(2));
  EXPECT_EQ(step->LookupRow("user", 31).value()[0], rows[31]);
  EXPECT_THAT(step->LookupRow("user", 62), NotFound("no row with id 62"));
  const auto damaged = DataLoss("step 1 rank 0 table \"user\" has 0 rows",
                                "its record has 2200");
  EXPECT_THAT(step->LookupRow("user", 93), damaged);
  EXPECT_THAT(step->LookupRow("user", 94), damaged) << "never a row";
  Batch batch({31, 93});
  EXPECT_THAT(batch.LookUp(*step, "user", {"embedding"}, {8192}), damaged);
}

TEST_F(LookupRowsTest, RefusesBadArguments) {
  content_ = UserContent({1, 2, 3});
  SaveNext(1);
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  Batch batch({1, 2});
  EXPECT_THAT(batch.LookUp(*step, "item", {"embedding"}, {16}),
              NotFound("step 1 has no table \"item\""));
  EXPECT_THAT(batch.LookUp(*step, "user", {"embedding", "other"}, {16, 4}),
              NotFound("no slot \"other\""));
  EXPECT_THAT(batch.LookUp(*step, "user", {"embedding", "freq"}, {16}),
              InvalidArgument("\"user\": 2 slots are looked up into 1 arrays"));
  EXPECT_THAT(batch.LookUp(*step, "user", {}, {16}),
              InvalidArgument("0 slots are looked up into 1 arrays"));
  EXPECT_THAT(batch.LookUp(*step, "user", {"freq"}, {4}, {.threads = 0}),
              InvalidArgument("ReadOptions::threads is 0"));
  const std::vector<std::string> slots = {"freq"};
  std::array<char, 8> values = {};
  std::array<bool, 2> found = {};
  const std::vector<char*> no_values = {nullptr};
  const std::vector<char*> out = {values.data()};
  EXPECT_THAT(
      step->LookupRows("user", batch.ids, slots, no_values, found.data()),
      InvalidArgument("\"user\"", "null pointer"));
  EXPECT_THAT(step->LookupRows("user", batch.ids, slots, out, nullptr),
              InvalidArgument("\"user\"", "null pointer"));
  EXPECT_OK(step->LookupRows("user", {}, slots, no_values, nullptr));
  EXPECT_OK(step->LookupRows("user", batch.ids, slots, out, found.data()));
  EXPECT_THAT(found, ElementsAre(true, true));
}

}  // namespace
}  // namespace ckptdb::testing
