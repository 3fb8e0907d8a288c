// Formats a table for people: columns are as wide as their widest cell, with
// two spaces between them and none at the end of a line.
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

  // A table without titles has no line of titles. Every line starts with
  // `indent` spaces.
  explicit TextTable(std::vector<Column> columns, size_t indent = 0);

  // Adds one cell for each column. Missing cells are empty, and cells beyond
  // the last column are dropped.
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
