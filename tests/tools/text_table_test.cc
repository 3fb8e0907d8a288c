// SPDX-License-Identifier: Apache-2.0
#include "tools/text_table.h"

#include "gtest/gtest.h"

namespace ckptdb::tool {
namespace {

TEST(TextTable, AlignsColumns) {
  TextTable table({{"STEP", TextTable::kRight}, {"KIND"}, {"FLAGS"}});
  table.AddRow({"5", "full", "pinned"});
  table.AddRow({"100000", "delta", ""});
  EXPECT_EQ(table.ToString(),
            "  STEP  KIND   FLAGS\n"
            "     5  full   pinned\n"
            "100000  delta\n");
}

TEST(TextTable, PrintsTitlesOfAnEmptyTable) {
  EXPECT_EQ(TextTable({{"STEP", TextTable::kRight}, {"KIND"}}).ToString(),
            "STEP  KIND\n");
}

TEST(TextTable, OmitsEmptyTitles) {
  TextTable table({{""}, {"", TextTable::kRight}}, 2);
  table.AddRow({"own", "1.0 KiB"});
  table.AddRow({"borrowed", "0 B"});
  EXPECT_EQ(table.ToString(),
            "  own       1.0 KiB\n"
            "  borrowed      0 B\n");
}

TEST(TextTable, AlignsByCodePoints) {
  TextTable table({{"NAME"}, {"N"}});
  table.AddRow({"größe", "1"});
  table.AddRow({"abcdef", "2"});
  EXPECT_EQ(table.ToString(),
            "NAME    N\n"
            "größe   1\n"
            "abcdef  2\n");
}

TEST(TextTable, PadsAndTruncatesRows) {
  TextTable table({{"A"}, {"B"}});
  table.AddRow({"1"});
  table.AddRow({"1", "2", "3"});
  EXPECT_EQ(table.ToString(), "A  B\n1\n1  2\n");
}

}  // namespace
}  // namespace ckptdb::tool
