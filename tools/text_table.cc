// SPDX-License-Identifier: Apache-2.0
#include "tools/text_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/strip.h"
#include "tools/format.h"

namespace ckptdb::tool {

TextTable::TextTable(const std::vector<absl::string_view>& columns,
                     size_t indent)
    : indent_(indent) {
  for (absl::string_view title : columns) {
    right_.push_back(absl::ConsumePrefix(&title, ">"));
    titles_.emplace_back(title);
    widths_.push_back(DisplayWidth(title));
  }
}

void TextTable::AddRow(std::vector<std::string> cells) {
  cells.resize(titles_.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    widths_[i] = std::max(widths_[i], DisplayWidth(cells[i]));
  }
  rows_.push_back(std::move(cells));
}

// Columns without titles are a list of names and values, without a title line.
std::string TextTable::ToString() const {
  std::string text;
  const auto is_empty = [](const std::string& title) { return title.empty(); };
  if (!std::all_of(titles_.begin(), titles_.end(), is_empty)) {
    AppendLine(titles_, &text);
  }
  for (const auto& row : rows_) AppendLine(row, &text);
  return text;
}

void TextTable::AppendLine(const std::vector<std::string>& cells,
                           std::string* text) const {
  std::string line(indent_, ' ');
  for (size_t i = 0; i < cells.size(); ++i) {
    const size_t padding = widths_[i] - DisplayWidth(cells[i]);
    if (i > 0) line.append(2, ' ');
    if (right_[i]) line.append(padding, ' ');
    line.append(cells[i]);
    if (!right_[i]) line.append(padding, ' ');
  }
  // An empty last cell must not leave trailing spaces.
  line.erase(line.find_last_not_of(' ') + 1);
  text->append(line).append(1, '\n');
}

}  // namespace ckptdb::tool
