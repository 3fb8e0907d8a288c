// SPDX-License-Identifier: Apache-2.0
// A trainer's arrays as tables.
#include <algorithm>
#include <array>

#include "manager/tables.h"
#include "schema/status.h"
#include "tests/manager/row_values.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

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
  ASSERT_OK_AND_ASSIGN(const ChangeTracker::Changes changes,
                       own.tracker()->Take(consumer));
  EXPECT_THAT(changes.upserted, ElementsAre(4, 1 << 20));
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
