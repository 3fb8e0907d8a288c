// SPDX-License-Identifier: Apache-2.0
// Formats a table for people. Columns are as wide as their widest cell, with
// two spaces between them and no trailing spaces. Lines are cut at the width of
// the terminal: see tools/terminal.h.
//
//   TextTable table({">STEP", "KIND"});
//   table.AddRow({"1000", "full"});
//   out << table.ToString();
#ifndef CKPTDB_TOOLS_TEXT_TABLE_H_
#define CKPTDB_TOOLS_TEXT_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ckptdb::tool {

class TextTable {
 public:
  // A column whose title begins with ">" is aligned to the right, and shows the
  // title without it. If no column has a title, the title line is omitted.
  // Every line is indented by `indent` spaces.
  explicit TextTable(const std::vector<absl::string_view>& columns,
                     size_t indent = 0);

  // Adds a row with one cell per column. Missing cells are empty, and extra
  // cells are dropped.
  void AddRow(std::vector<std::string> cells);

  std::string ToString() const;

 private:
  void AppendLine(const std::vector<std::string>& cells,
                  std::string* text) const;

  const size_t indent_;
  std::vector<std::string> titles_;
  std::vector<bool> right_;  // aligned
  std::vector<size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_TEXT_TABLE_H_
