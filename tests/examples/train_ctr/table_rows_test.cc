#include "train_ctr/table_rows.h"

#include <cstring>
#include <string>
#include <vector>

#include "ckptdb/tests/support/status_matchers.h"
#include "train_ctr/digest.h"

namespace train_ctr {
namespace {

using ::ckptdb::testing::StatusIs;
using ::testing::HasSubstr;

EmbeddingTable TableOfRows(int64_t rows) {
  EmbeddingTable table({.name = "user", .dim = 3});
  for (int64_t i = 0; i < rows; ++i) table.Touch(i * 31 - 500, i);
  return table;
}

TEST(TableRowsTest, SlotsAreTheRow) {
  const auto slots = TableSlots(3);
  ASSERT_EQ(slots.size(), kTableSlots);
  EXPECT_EQ(slots[0].name, "embedding");
  EXPECT_EQ(slots[0].row_bytes(), 12u);
  EXPECT_EQ(slots[1].name, "adagrad_sum");
  EXPECT_EQ(slots[1].row_bytes(), 12u);
  EXPECT_EQ(slots[2].name, "freq");
  EXPECT_EQ(slots[2].row_bytes(), 8u);
  EXPECT_EQ(slots[3].name, "last_step");
  EXPECT_EQ(slots[3].row_bytes(), 8u);
}

TEST(TableRowsTest, AnEmptyTableHasNoBlocks) {
  EXPECT_EQ(TableRowSource(TableOfRows(0)).block_count(), 0u);
}

// Hands each block over at odd addresses, as a scan may do.
void Copy(const TableRowSource& source, LiveRows* to) {
  const auto slots = TableSlots(3);
  for (uint64_t b = source.block_count(); b-- > 0;) {
    ASSERT_OK_AND_ASSIGN(const ckptdb::RowBlock block, source.Block(b));
    ASSERT_EQ(block.slots.size(), kTableSlots);
    std::vector<std::string> packed(kTableSlots, "-");
    std::vector<const char*> pointers;
    for (size_t s = 0; s < kTableSlots; ++s) {
      for (size_t row = 0; row < block.ids.size(); ++row) {
        packed[s].append(static_cast<const char*>(block.slots[s].data) +
                             block.RowAt(row) * block.slots[s].stride_bytes,
                         slots[s].row_bytes());
      }
      pointers.push_back(packed[s].data() + 1);
    }
    ASSERT_OK(to->Consume(0, {block.ids, pointers}));
  }
}

TEST(TableRowsTest, LiveRowsTakeWhatTheSourceGives) {
  const EmbeddingTable table = TableOfRows(10000);
  const TableRowSource source(table);
  EXPECT_EQ(source.block_count(), 3u);
  EmbeddingTable copy({.name = "user", .dim = 3});
  LiveRows rows(&copy);
  ASSERT_NO_FATAL_FAILURE(Copy(source, &rows));
  EXPECT_EQ(rows.upserted(), 10000u);
  EXPECT_EQ(copy.rows(), 10000u);
  EXPECT_EQ(TableDigest(copy), TableDigest(table));
}

// Every third row, and a stretch over the end of a chunk.
std::vector<int64_t> SomeIds() {
  std::vector<int64_t> ids;
  for (int64_t i = 9000; i-- > 0;) {
    if (i % 3 == 0 || (i > 4000 && i < 4200)) ids.push_back(i * 31 - 500);
  }
  return ids;
}

TEST(TableRowsTest, SourceOfSomeRowsHasThese) {
  const EmbeddingTable table = TableOfRows(10000);
  const std::vector<int64_t> ids = SomeIds();
  ASSERT_OK_AND_ASSIGN(const TableRowSource source,
                       TableRowSource::Of(table, ids));
  EXPECT_EQ(source.block_count(), 3u);
  EmbeddingTable copy({.name = "user", .dim = 3});
  LiveRows rows(&copy);
  ASSERT_NO_FATAL_FAILURE(Copy(source, &rows));
  EXPECT_EQ(copy.rows(), ids.size());
  EmbeddingTable others = TableOfRows(10000);
  ASSERT_OK(LiveRows(&others).Erase(0, ids));
  ASSERT_NO_FATAL_FAILURE(Copy(TableRowSource(others), &rows));
  EXPECT_EQ(TableDigest(copy), TableDigest(table));
}

TEST(TableRowsTest, SourceOfARowThatIsNotThereIsAnError) {
  const EmbeddingTable table = TableOfRows(3);
  EXPECT_THAT(TableRowSource::Of(table, {-500, 7}),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("row 7 of table \"user\"")));
}

TEST(TableRowsTest, LiveRowsEraseAndClear) {
  EmbeddingTable table = TableOfRows(10);
  LiveRows rows(&table);
  ASSERT_OK(rows.Erase(0, {-500, 12345}));  // the second one is not there
  EXPECT_EQ(rows.erased(), 2u);
  EXPECT_EQ(table.rows(), 9u);
  EXPECT_FALSE(table.Find(-500).has_value());
  ASSERT_OK(rows.Clear());
  EXPECT_EQ(table.rows(), 0u);
}

}  // namespace
}  // namespace train_ctr
