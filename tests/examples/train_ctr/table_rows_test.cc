#include "train_ctr/table_rows.h"

#include <cstring>
#include <string>
#include <vector>

#include "ckptdb/tests/support/status_matchers.h"
#include "train_ctr/digest.h"

namespace train_ctr {
namespace {

EmbeddingTable MakeTable(int64_t rows) {
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
  EXPECT_EQ(TableRowSource(MakeTable(0)).block_count(), 0u);
}

// Gathers each block at odd addresses, as a scan may hand it out.
TEST(TableRowsTest, SinkTakesWhatTheSourceGives) {
  const EmbeddingTable table = MakeTable(10000);
  const TableRowSource source(table);
  EXPECT_EQ(source.block_count(), 3u);
  EmbeddingTable copy({.name = "user", .dim = 3});
  TableRowSink sink(&copy);
  const auto slots = TableSlots(3);
  for (uint64_t b = source.block_count(); b-- > 0;) {
    ASSERT_OK_AND_ASSIGN(const ckptdb::RowBlock block, source.Block(b));
    ASSERT_EQ(block.slots.size(), kTableSlots);
    std::vector<std::string> packed(kTableSlots, "-");
    std::vector<const char*> pointers;
    for (size_t s = 0; s < kTableSlots; ++s) {
      for (size_t row = 0; row < block.ids.size(); ++row) {
        packed[s].append(static_cast<const char*>(block.slots[s].data) +
                             row * block.slots[s].stride_bytes,
                         slots[s].row_bytes());
      }
      pointers.push_back(packed[s].data() + 1);
    }
    ASSERT_OK(sink.Consume(0, {block.ids, pointers}));
  }
  EXPECT_EQ(copy.rows(), 10000u);
  EXPECT_EQ(TableDigest(copy), TableDigest(table));
}

}  // namespace
}  // namespace train_ctr
