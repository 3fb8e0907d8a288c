// SPDX-License-Identifier: Apache-2.0
#include "tools/text_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/strip.h"
#include "tools/format.h"
#include "tools/terminal.h"

namespace ckptdb::tool {
namespace {

// Cuts a line of UTF-8 that is too wide for the terminal, which would wrap it.
void CutLine(size_t columns, std::string* line) {
  if (columns == 0 || DisplayWidth(*line) <= columns) return;
  size_t end = 0;
  for (size_t width = 0; end < line->size(); ++end) {
    const bool begins =
        (static_cast<unsigned char>((*line)[end]) & 0xc0) != 0x80;
    if (begins && width++ == columns - 1) break;
  }
  line->resize(end);
  line->push_back('>');
}

}  // namespace

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
    const bool bold = GetTerminalStyle().bold_titles;
    if (bold) text += "\x1b[1m";
    AppendLine(titles_, &text);
    if (bold) text.insert(text.size() - 1, "\x1b[0m");
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
  CutLine(GetTerminalStyle().columns, &line);
  text->append(line).append(1, '\n');
}

}  // namespace ckptdb::tool
