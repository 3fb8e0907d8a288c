// SPDX-License-Identifier: Apache-2.0
// Tables that own their rows, and a trainer's arrays as tables.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>

#include "manager/tables.h"
#include "schema/status.h"
#include "tests/manager/row_values.h"
#include "tests/support/on_threads.h"

namespace ckptdb::testing {
namespace {

std::vector<Slot> ColumnSlots() {
  return {{"embedding", DType::kF32, 2}, {"name", DType::kU8, 3}};
}

// The example of the header.
absl::Status ExampleOfColumnTable() {
  ModelState model;
  ColumnTable users(
      {{"embedding", DType::kF32, 16}, {"last_step", DType::kI64, 1}});
  CKPTDB_RETURN_IF_ERROR(model.AddTable("user", &users));
  CKPTDB_ASSIGN_OR_RETURN(const ColumnTable::Column<float> embedding,
                          users.column<float>("embedding"));

  CKPTDB_ASSIGN_OR_RETURN(const ColumnTable::Inserted user,
                          users.Insert(17));  // marks the row
  embedding[user.row][0] = 0.5f;
  users.Erase(18);
  EXPECT_TRUE(user.is_new);
  EXPECT_EQ(embedding[*users.Find(17)][0], 0.5f);
  return absl::OkStatus();
}

TEST(ColumnTableTest, RunsTheExampleOfTheHeader) {
  EXPECT_OK(ExampleOfColumnTable());
}

TEST(ColumnTableTest, InsertsFindsAndErases) {
  ColumnTable table(ColumnSlots());
  ASSERT_OK_AND_ASSIGN(const auto embedding, table.column<float>("embedding"));
  ASSERT_OK_AND_ASSIGN(const auto name, table.column<uint8_t>("name"));
  EXPECT_EQ(embedding.elements(), 2U);
  EXPECT_EQ(table.Find(5), std::nullopt);
  ASSERT_OK_AND_ASSIGN(const ColumnTable::Inserted first, table.Insert(5));
  EXPECT_TRUE(first.is_new);
  EXPECT_EQ(table.Find(5), first.row);
  EXPECT_EQ(table.IdOf(first.row), 5);
  EXPECT_EQ(embedding[first.row][1], 0);
  embedding[first.row][1] = 7;
  name[first.row][2] = 'c';
  ASSERT_OK_AND_ASSIGN(const ColumnTable::Inserted again, table.Insert(5));
  EXPECT_FALSE(again.is_new);
  EXPECT_EQ(again.row, first.row);
  EXPECT_EQ(embedding[again.row][1], 7);
  EXPECT_EQ(table.size(), 1U);
  EXPECT_TRUE(table.Erase(5));
  EXPECT_FALSE(table.Erase(5));
  EXPECT_EQ(table.Find(5), std::nullopt);
  EXPECT_EQ(table.size(), 0U);
}

// The row that was erased last is reused first, zeroed; the others do not move.
TEST(ColumnTableTest, ReusesErasedRows) {
  ColumnTable table(ColumnSlots());
  ASSERT_OK_AND_ASSIGN(const auto embedding, table.column<float>("embedding"));
  std::vector<ColumnTable::Inserted> rows;
  ASSERT_OK(table.Insert({10, 11, 12, 13}, &rows));
  for (const ColumnTable::Inserted& at : rows) embedding[at.row][0] = 1;
  const float* const kept = embedding[rows[3].row];
  EXPECT_EQ(table.Erase({10, 99, 12}), 2U);
  ASSERT_OK_AND_ASSIGN(const ColumnTable::Inserted a, table.Insert(20));
  ASSERT_OK_AND_ASSIGN(const ColumnTable::Inserted b, table.Insert(21));
  ASSERT_OK_AND_ASSIGN(const ColumnTable::Inserted c, table.Insert(22));
  EXPECT_EQ(a.row, rows[2].row);
  EXPECT_EQ(b.row, rows[0].row);
  EXPECT_EQ(c.row, 4U);
  EXPECT_EQ(embedding[a.row][0], 0);
  EXPECT_EQ(embedding[rows[3].row], kept);
  EXPECT_EQ(*kept, 1);
  std::vector<std::pair<int64_t, uint64_t>> visited;
  table.ForEach(
      [&](int64_t id, uint64_t row) { visited.emplace_back(id, row); });
  EXPECT_THAT(visited,
              ElementsAre(std::pair(21, 0), std::pair(11, 1), std::pair(20, 2),
                          std::pair(13, 3), std::pair(22, 4)));
}

TEST(ColumnTableTest, MarksItsOwnChanges) {
  ColumnTable table(ColumnSlots());
  ASSERT_OK_AND_ASSIGN(const ChangeTracker::Consumer consumer,
                       table.tracker()->AddConsumer("test"));
  ASSERT_OK(table.tracker()->Take(consumer));
  std::vector<ColumnTable::Inserted> rows;
  ASSERT_OK(table.Insert({1, 2, 3}, &rows));
  ASSERT_OK(table.Insert(4));
  table.Find(5);
  table.Erase({2, 6});
  table.MarkUpserted({7});
  ChangeTracker::Changes changes = table.tracker()->Take(consumer).value();
  EXPECT_THAT(changes.upserted, UnorderedElementsAre(1, 3, 4, 7));
  EXPECT_THAT(changes.erased, UnorderedElementsAre(2, 6));
  table.Clear();
  EXPECT_EQ(table.size(), 0U);
  ASSERT_OK_AND_ASSIGN(changes, table.tracker()->Take(consumer));
  EXPECT_THAT(changes.upserted, IsEmpty());
  EXPECT_THAT(changes.erased, UnorderedElementsAre(1, 3, 4));
}

// Several chunks, with some rows free in some of them, all of one, and none of
// another.
TEST(ColumnTableTest, PutsAndGathersManyRows) {
  ColumnTable table(ColumnSlots());
  std::vector<ColumnTable::Inserted> inserted;
  ASSERT_OK(table.Insert({10, 11, 12}, &inserted));
  table.Erase(11);
  std::vector<int64_t> rows(4);
  const std::vector<int64_t> ids = {12, 11, 10, 12};
  table.FindRows(ids, absl::MakeSpan(rows));
  EXPECT_THAT(rows, ElementsAre(2, -1, 0, 2));

  ASSERT_OK_AND_ASSIGN(const ChangeTracker::Consumer consumer,
                       table.tracker()->AddConsumer("test"));
  ASSERT_OK(table.tracker()->Take(consumer));
  const std::vector<float> values = {1, 2, 3, 4};
  ASSERT_OK(table.Put("embedding", {2, 0}, values.data()));
  EXPECT_THAT(table.tracker()->Take(consumer).value().upserted,
              UnorderedElementsAre(10, 12));
  std::vector<float> gathered(6);
  ASSERT_OK(table.Gather("embedding", {0, 2, 0}, gathered.data()));
  EXPECT_THAT(gathered, ElementsAre(3, 4, 1, 2, 3, 4));
}

TEST(ColumnTableTest, RejectsRowsThatDoNotExist) {
  ColumnTable table(ColumnSlots());
  ASSERT_OK(table.Insert(10));
  std::vector<float> values(4, 7);
  for (const int64_t row : {int64_t{1}, int64_t{-1}, int64_t{1} << 40}) {
    EXPECT_THAT(
        table.Gather("embedding", {0, row}, values.data()),
        StatusIs(absl::StatusCode::kOutOfRange,
                 HasSubstr(absl::StrCat("number ", row, " at index 1"))));
    EXPECT_THAT(
        table.Put("embedding", {0, row}, values.data()),
        StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("is not a row")));
  }
  EXPECT_THAT(values, ElementsAre(7, 7, 7, 7));
  ASSERT_OK(table.Gather("embedding", {0}, values.data()));
  EXPECT_THAT(values, ElementsAre(0, 0, 7, 7));
  EXPECT_THAT(table.Put("nosuch", {0}, values.data()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("nosuch")));
}

TEST(ColumnTableTest, SourcesContainTheExistingRows) {
  constexpr auto kRows = static_cast<int64_t>(ColumnTable::kRowsPerChunk);
  for (const int64_t rows : {int64_t{1}, int64_t{64}, kRows - 1, kRows,
                             kRows + 1, 3 * kRows + 100}) {
    SCOPED_TRACE(rows);
    ColumnTable table(ColumnSlots());
    const auto embedding = table.column<float>("embedding").value();
    for (int64_t id = 0; id < rows; ++id) {
      ASSERT_OK_AND_ASSIGN(const ColumnTable::Inserted at, table.Insert(id));
      embedding[at.row][0] = static_cast<float>(id);
    }
    ASSERT_OK_AND_ASSIGN(auto all, table.AllRows());
    ExpectRows(*all, rows, [](int64_t) { return true; });
    // The last chunk has as many rows as its first words have bits, with gaps.
    const auto stays = [&](int64_t id) {
      return (id >= 2 * kRows && id != 2 * kRows + 1) || id % 7 == 3 ||
             (id < kRows && id % 2 == 0);
    };
    std::vector<int64_t> some;
    for (int64_t id = 0; id < rows; ++id) {
      if (!stays(id)) {
        table.Erase(id);
      } else if (id % 3 == 0) {
        some.push_back(id);
      }
    }
    ASSERT_OK_AND_ASSIGN(all, table.AllRows());
    ExpectRows(*all, rows, stays);
    std::reverse(some.begin(), some.end());
    ASSERT_OK_AND_ASSIGN(all, table.RowsOf(some));
    ExpectRows(*all, rows,
               [&](int64_t id) { return stays(id) && id % 3 == 0; });
  }
}

TEST(ColumnTableTest, RejectsInvalidSlotsAndRows) {
  ColumnTable table(ColumnSlots());
  EXPECT_THAT(table.column<float>("color"),
              NotFound("the table has no slot \"color\""));
  EXPECT_THAT(table.column<float>("name"),
              InvalidArgument("slot \"name\" has dtype u8, not f32"));
  EXPECT_THAT(table.RowsOf({4}), Internal("row 4 was marked as upserted"));
}

TEST(ColumnTableTest, InsertFails_WithoutAVectorForTheRows) {
  ColumnTable table({{"embedding", DType::kF32, 4}});
  const std::vector<int64_t> ids = {5};
  EXPECT_THAT(table.Insert(ids, nullptr), InvalidArgument("vector"));
  EXPECT_EQ(table.size(), 0u);
}

TEST(ColumnTableTest, InvalidTableReturnsErrors) {
  ColumnTable table({{"a", DType::kF32, 0}});
  ModelState model;
  const auto wrong = InvalidArgument(
      "slot \"a\" of 0 x f32 has 0 bytes per row; expected 1 to");
  EXPECT_THAT(model.AddTable("user", &table), wrong);
  EXPECT_THAT(table.Insert(1).status(), wrong);
  std::vector<ColumnTable::Inserted> rows;
  EXPECT_THAT(table.Insert({1, 2}, &rows), wrong);
  EXPECT_THAT(table.column<float>("a").status(), wrong);
  EXPECT_THAT(table.AllRows().status(), wrong);
  EXPECT_EQ(table.Find(1), std::nullopt);
  EXPECT_FALSE(table.Erase(1));
  EXPECT_EQ(table.Live({"a"}), nullptr);
  table.Clear();
}

TEST(ColumnTableTest, RestoresSomeSlots) {
  ColumnTable table(ColumnSlots());
  ASSERT_OK_AND_ASSIGN(const auto embedding, table.column<float>("embedding"));
  ASSERT_OK_AND_ASSIGN(const auto name, table.column<uint8_t>("name"));
  ASSERT_OK_AND_ASSIGN(const ColumnTable::Inserted at, table.Insert(1));
  embedding[at.row][0] = 9;
  EXPECT_EQ(table.Live({"color"}), nullptr);
  LiveTable* const live = table.Live({"name"});
  const std::array<int64_t, 2> ids = {1, 2};
  const std::array<const char*, 1> slots = {"abcdef"};
  ASSERT_OK(live->Consume(0, {ids, slots}));
  EXPECT_EQ(embedding[at.row][0], 9);
  EXPECT_EQ(name[at.row][1], 'b');
  EXPECT_EQ(embedding[*table.Find(2)][0], 0);
  EXPECT_EQ(name[*table.Find(2)][1], 'e');
  ASSERT_OK(live->Erase(0, {1, 3}));
  EXPECT_EQ(table.size(), 1U);
  ASSERT_OK(live->Clear());
  EXPECT_EQ(table.size(), 0U);
}

// Gives a live table rows of two slots whose values name the writer.
void ConsumeRows(LiveTable* live, int writer, absl::Span<const int64_t> ids) {
  const std::vector<float> embedding(2 * ids.size(),
                                     static_cast<float>(writer));
  const std::string name(3 * ids.size(), static_cast<char>(writer));
  const std::array<const char*, 2> slots = {
      reinterpret_cast<const char*>(embedding.data()), name.data()};
  EXPECT_OK(live->Consume(writer, {ids, slots}));
}

// Several workers restore a table that grows by several chunks. Each id is in
// the batches of all of them, in other orders, and twice in each.
TEST(ColumnTableTest, WorkersRestoreTheSameIds) {
  constexpr int kWriters = 4;
  constexpr auto kIds = static_cast<int64_t>(3 * ColumnTable::kRowsPerChunk);
  constexpr int64_t kBatch = 512;
  std::vector<Slot> slots = ColumnSlots();
  slots.push_back({"untouched", DType::kI64, 1});
  ColumnTable table(slots);
  ASSERT_OK_AND_ASSIGN(const auto embedding, table.column<float>("embedding"));
  ASSERT_OK_AND_ASSIGN(const auto name, table.column<uint8_t>("name"));
  const auto untouched = table.column<int64_t>("untouched").value();
  // Memory of erased rows is used again, with values that must not show.
  for (int64_t id = -5000; id < 0; ++id) {
    ASSERT_OK_AND_ASSIGN(const ColumnTable::Inserted at, table.Insert(id));
    untouched[at.row][0] = 99;
  }
  for (int64_t id = -5000; id < 0; ++id) table.Erase(id);
  LiveTable* const live = table.Live({"embedding", "name"});
  RunOnThreads(kWriters, [&](uint32_t thread) {
    const int writer = static_cast<int>(thread) + 1;
    for (int64_t begin = 0; begin < kIds; begin += kBatch) {
      std::vector<int64_t> ids;
      for (int64_t i = begin; i < begin + kBatch; ++i) {
        ids.push_back(writer % 2 == 0 ? i : kIds - 1 - i);
      }
      ids.push_back(ids.front());
      ConsumeRows(live, writer, ids);
    }
  });
  EXPECT_EQ(table.size(), static_cast<uint64_t>(kIds));
  for (int64_t id = 0; id < kIds; ++id) {
    const auto row = table.Find(id);
    ASSERT_TRUE(row.has_value()) << id;
    const float writer = embedding[*row][0];
    ASSERT_GE(writer, 1) << id;
    ASSERT_EQ(embedding[*row][1], writer) << id;
    ASSERT_EQ(name[*row][0], writer) << id;
    ASSERT_EQ(name[*row][2], writer) << id;
    ASSERT_EQ(untouched[*row][0], 0) << id;
  }
}

// The memory of a row that one worker erases is not given away while another
// one still copies to it.
TEST(ColumnTableTest, WorkersEraseWhileOthersRestore) {
  constexpr int kWriters = 4;
  constexpr int64_t kIds = 2048;
  ColumnTable table(ColumnSlots());
  ASSERT_OK_AND_ASSIGN(const auto embedding, table.column<float>("embedding"));
  LiveTable* const live = table.Live({"embedding", "name"});
  RunOnThreads(kWriters, [&](uint32_t thread) {
    const int writer = static_cast<int>(thread) + 1;
    std::vector<int64_t> ids(kIds);
    std::iota(ids.begin(), ids.end(), writer * kIds);
    for (int round = 0; round < 50; ++round) {
      ConsumeRows(live, writer, ids);
      if (round % 2 == 0) {
        EXPECT_OK(live->Erase(writer, ids));
      }
    }
  });
  EXPECT_EQ(table.size(), static_cast<uint64_t>(kWriters * kIds));
  table.ForEach([&](int64_t id, uint64_t row) {
    ASSERT_EQ(embedding[row][1], static_cast<float>(id / kIds)) << id;
  });
}

// The example of the header.
absl::Status ExampleOfVectorTable() {
  ModelState model;
  std::vector<float> embedding(1000 * 16);
  std::vector<float> adagrad_sum(1000 * 16);
  VectorTable items(1000, {Array("embedding", embedding.data(), 16),
                           Array("adagrad_sum", adagrad_sum.data(), 16)});
  CKPTDB_RETURN_IF_ERROR(model.AddTable("item", &items));
  CKPTDB_RETURN_IF_ERROR(items.MarkUpserted({17, 900}));
  EXPECT_THAT(items.slots(), ElementsAre(Slot{"embedding", DType::kF32, 16},
                                         Slot{"adagrad_sum", DType::kF32, 16}));
  return absl::OkStatus();
}

TEST(VectorTableTest, RunsTheExampleOfTheHeader) {
  EXPECT_OK(ExampleOfVectorTable());
}

// Rows of several blocks, some of which this rank holds.
TEST(VectorTableTest, SourcesContainTheRowsOfTheRank) {
  constexpr uint64_t kRows = (uint64_t{1} << 20) + 1000;
  std::vector<float> values(3 * kRows);
  for (uint64_t row = 0; row < kRows; ++row) {
    values[3 * row] = static_cast<float>(row);
  }
  const auto array =
      Array("a", values.data(), 2, {.stride_bytes = 3 * sizeof(float)});
  const std::vector<int64_t> some = {3, 5, 1 << 20, 4};
  const auto is_some = [&](int64_t id) {
    return std::find(some.begin(), some.end(), id) != some.end();
  };
  VectorTable all(kRows, {array});
  ASSERT_OK_AND_ASSIGN(auto rows, all.AllRows());
  ExpectRows(*rows, kRows, [](int64_t) { return true; });
  ASSERT_OK_AND_ASSIGN(rows, all.RowsOf(some));
  ExpectRows(*rows, kRows, is_some);

  const auto holds = [](int64_t id) { return id % 3 == 1; };
  VectorTable own(kRows, {array}, {}, holds);
  ASSERT_OK_AND_ASSIGN(rows, own.AllRows());
  ExpectRows(*rows, kRows, holds);
  ASSERT_OK_AND_ASSIGN(const ChangeTracker::Consumer consumer,
                       own.tracker()->AddConsumer("test"));
  ASSERT_OK(own.tracker()->Take(consumer));
  ASSERT_OK(own.MarkUpserted(some));
  EXPECT_THAT(own.tracker()->Take(consumer).value().upserted,
              ElementsAre(4, 1 << 20));
}

TEST(VectorTableTest, AddTableRejectsInvalidArrays) {
  struct Case {
    uint64_t rows = 2;
    std::vector<internal::AnyArray> arrays;
    std::string error;
  };
  std::vector<float> values(4);
  float* const none = nullptr;
  const internal::AnyArray array = Array("a", values.data(), 2);
  const Case cases[] = {
      {2, {}, "it has 0 slots; expected 1 to 256"},
      {2, {Array("a", none, 2)}, "the array of slot \"a\" is null"},
      {2, {array, array}, "duplicate slot \"a\""},
      {2, {Array("", values.data(), 2)}, "slot name \"\" is empty"},
      {2, {Array("a", values.data(), 0)}, "slot \"a\" of 0 x f32 has 0 bytes"},
      {2,
       {Array("a", values.data(), 2, {.stride_bytes = 7})},
       "TableOptions::Field::stride_bytes 7 of slot \"a\" is below the 8 "
       "bytes"},
      {kMaxBitmapRows + 1,
       {array},
       "a VectorTable of 68719476737 rows; the limit is 68719476736"},
  };
  for (const Case& wrong : cases) {
    SCOPED_TRACE(wrong.error);
    VectorTable table(wrong.rows, wrong.arrays);
    ModelState model;
    const auto is_wrong = InvalidArgument(wrong.error);
    EXPECT_THAT(model.AddTable("item", &table), is_wrong);
    EXPECT_THAT(table.AllRows().status(), is_wrong);
    EXPECT_THAT(table.RowsOf({0}).status(), is_wrong);
    EXPECT_EQ(table.Live({"a"}), nullptr);
  }
  VectorTable empty(0, {Array("a", none, 2)});
  EXPECT_OK(empty.AllRows());
}

TEST(VectorTableTest, TakesArraysThatWereMoved) {
  std::vector<float> old = {7, 8, 9};
  VectorTable table(3, {Array("embedding", old.data(), 1)});
  std::vector<float> moved = {0, 1, 2};
  ASSERT_OK(table.SetArrays({Array("embedding", moved.data(), 1)}));
  ASSERT_OK_AND_ASSIGN(const auto rows, table.AllRows());
  ExpectRows(*rows, 3, [](int64_t) { return true; });
  LiveTable* const live = table.Live({"embedding"});
  ASSERT_NE(live, nullptr);
  ASSERT_OK(live->Erase(0, {2}));
  EXPECT_THAT(moved, ElementsAre(0, 1, 0));
  EXPECT_THAT(old, ElementsAre(7, 8, 9));
  // Other slots, and too little memory, change nothing.
  std::vector<double> wider(3);
  for (const auto& arrays : std::vector<std::vector<internal::AnyArray>>{
           {Array("other", old.data(), 1)},
           {Array("embedding", old.data(), 2)},
           {Array("embedding", wider.data(), 1)},
           {},
           {Array("embedding", static_cast<float*>(nullptr), 1)}}) {
    EXPECT_EQ(table.SetArrays(arrays).code(),
              absl::StatusCode::kInvalidArgument);
  }
  ASSERT_OK(live->Erase(0, {1}));
  EXPECT_THAT(moved, ElementsAre(0, 0, 0));
}

TEST(VectorTableTest, RejectsNonexistentRows) {
  std::vector<float> values(4);
  VectorTable table(2, {Array("a", values.data(), 2)});
  EXPECT_THAT(table.MarkUpserted({1, 2}), OutOfRange("2"));
  EXPECT_THAT(
      table.RowsOf({-1}),
      Internal("row -1 was marked as upserted, but the table has 2 rows"));
  LiveTable* const live = table.Live({"a"});
  const std::array<int64_t, 1> ids = {2};
  const std::array<const char*, 1> slots = {"12345678"};
  EXPECT_THAT(live->Consume(0, {ids, slots}),
              OutOfRange("row 2 of the step is beyond the 2 rows"));
}

TEST(VectorTableTest, BeginsAtItsFirstId) {
  constexpr uint64_t kRows = (uint64_t{1} << 20) + 10;
  for (const int64_t first : {int64_t{1000}, int64_t{-5}}) {
    std::vector<int64_t> values(kRows);
    std::iota(values.begin(), values.end(), first);
    VectorTable table(kRows, {Array("id", values.data(), 1)}, {}, {}, first);
    ASSERT_OK_AND_ASSIGN(auto rows, table.AllRows());
    uint64_t count = 0;
    for (uint64_t b = 0; b < rows->block_count(); ++b) {
      ASSERT_OK_AND_ASSIGN(const RowBlock block, rows->Block(b));
      for (uint64_t i = 0; i < block.ids.size(); ++i, ++count) {
        int64_t value = 0;
        std::memcpy(&value, block.slots[0].At(block.RowAt(i)), sizeof(value));
        ASSERT_EQ(value, block.ids[i]);
      }
    }
    EXPECT_EQ(count, kRows);
    const int64_t last = first + static_cast<int64_t>(kRows) - 1;
    const std::vector<int64_t> ends = {first, last};  // outlives `rows`
    ASSERT_OK(table.MarkUpserted(ends));
    ASSERT_OK_AND_ASSIGN(rows, table.RowsOf(ends));
    ASSERT_EQ(rows->block_count(), 2u);
    EXPECT_THAT(rows->Block(1).value().ids, ElementsAre(last));
    LiveTable* const live = table.Live({"id"});
    ASSERT_OK(live->Erase(0, {first, last, first - 1, last + 1}));
    EXPECT_EQ(values.front(), 0);
    EXPECT_EQ(values.back(), 0);
    EXPECT_EQ(values[1], first + 1);
    for (const int64_t id : {first - 1, last + 1}) {
      const auto no_row = OutOfRange(absl::StrCat(
          "row ", id, " of the step is not among the ", kRows,
          " rows of the VectorTable, whose ids are ", first, " to ", last));
      EXPECT_THAT(table.CheckId(id), no_row);
      const std::array<const char*, 1> slots = {"12345678"};
      EXPECT_THAT(live->Consume(0, {absl::MakeConstSpan(&id, 1), slots}),
                  no_row);
      EXPECT_THAT(table.MarkUpserted({id}), OutOfRange("from id "));
    }
  }
  std::vector<float> values(2);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_OK(VectorTable(2, {Array("a", values.data(), 1)}, {}, {}, kMost - 2)
                .AllRows());
  EXPECT_THAT(VectorTable(2, {Array("a", values.data(), 1)}, {}, {}, kMost - 1)
                  .AllRows()
                  .status(),
              InvalidArgument("a VectorTable of 2 rows from id "));
}

// Values between the rows, and of slots that are not restored, are unchanged.
TEST(VectorTableTest, RestoreSetsRowsAndZeros) {
  std::vector<float> values(6, 1);
  std::vector<int32_t> counts(3, 1);
  VectorTable table(3, {Array("a", values.data(), 1, {.stride_bytes = 8}),
                        Array("count", counts.data(), 1)});
  LiveTable* const live = table.Live({"a"});
  ASSERT_OK(live->Clear());
  EXPECT_THAT(values, ElementsAre(0, 1, 0, 1, 0, 1));
  const std::array<int64_t, 2> ids = {2, 0};
  const std::array<float, 2> restored = {5, 6};
  const std::array<const char*, 1> slots = {
      reinterpret_cast<const char*>(restored.data())};
  ASSERT_OK(live->Consume(0, {ids, slots}));
  EXPECT_THAT(values, ElementsAre(6, 1, 0, 1, 5, 1));
  ASSERT_OK(live->Erase(0, {0, 3, -1}));
  EXPECT_THAT(values, ElementsAre(0, 1, 0, 1, 5, 1));
  EXPECT_THAT(counts, Each(1));
}

}  // namespace
}  // namespace ckptdb::testing
