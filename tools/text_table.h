// SPDX-License-Identifier: Apache-2.0
// Formats a table for people. Columns are as wide as their widest cell, with
// two spaces between them and no trailing spaces.
//
//   TextTable table({{"STEP", TextTable::kRight}, {"KIND"}});
//   table.AddRow({"1000", "full"});
//   out << table.ToString();
#ifndef CKPTDB_TOOLS_TEXT_TABLE_H_
#define CKPTDB_TOOLS_TEXT_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace ckptdb::tool {

class TextTable {
 public:
  enum Alignment { kLeft, kRight };
  struct Column {
    std::string title;
    Alignment alignment = kLeft;
  };

  // If no column has a title, the title line is omitted. Every line is indented
  // by `indent` spaces.
  explicit TextTable(std::vector<Column> columns, size_t indent = 0);

  // Adds a row with one cell per column. Missing cells are empty, and extra
  // cells are dropped.
  void AddRow(std::vector<std::string> cells);

  std::string ToString() const;

 private:
  void AppendLine(const std::vector<std::string>& cells,
                  std::string* text) const;

  std::vector<Column> columns_;
  size_t indent_;
  std::vector<size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_TEXT_TABLE_H_
