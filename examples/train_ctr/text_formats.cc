// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/text_formats.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <ckptdb/schema/status.h>
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace train_ctr {
namespace {

constexpr int kCriteoColumns =
    1 + kCriteoNumericColumns + kCriteoCategoricalColumns;
constexpr int kMovieLensColumns = 4;
constexpr int64_t kSecondsAnHour = 3600;
// Bounds the buckets of negative counts, which are few in the real log.
constexpr double kLowestBucket = -1000;

std::string CriteoColumn(int column) {
  if (column == 0) return "label";
  if (column <= kCriteoNumericColumns) return absl::StrCat("I", column);
  return absl::StrCat("C", column - kCriteoNumericColumns);
}

absl::Status ColumnCountError(size_t found, int expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("the line has ", found, " columns, not ", expected));
}

absl::StatusOr<double> ParseNumber(absl::string_view column,
                                   absl::string_view text) {
  double value;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) {
    return absl::InvalidArgumentError(
        absl::StrCat(column, " \"", text, "\" is not a finite number"));
  }
  return value;
}

absl::StatusOr<int64_t> ParseInteger(absl::string_view column,
                                     absl::string_view text) {
  int64_t value;
  if (!absl::SimpleAtoi(text, &value)) {
    return absl::InvalidArgumentError(
        absl::StrCat(column, " \"", text, "\" is not an integer"));
  }
  return value;
}

absl::StatusOr<int64_t> NumericFeature(int column, absl::string_view text) {
  const size_t field = column - 1;
  if (text.empty()) return HashFeature(field, text);
  CKPTDB_ASSIGN_OR_RETURN(const double value,
                          ParseNumber(CriteoColumn(column), text));
  return HashFeature(field, LogBucket(value));
}

absl::Status ParseCriteo(absl::string_view line, Example* example) {
  const std::vector<absl::string_view> columns = absl::StrSplit(line, ',');
  if (columns.size() != kCriteoColumns) {
    return ColumnCountError(columns.size(), kCriteoColumns);
  }
  if (columns[0] != "0" && columns[0] != "1") {
    return absl::InvalidArgumentError(
        absl::StrCat("label \"", columns[0], "\" is not 0 or 1"));
  }
  example->label = columns[0] == "1" ? 1 : 0;
  example->ids.clear();
  for (int c = 1; c <= kCriteoNumericColumns; ++c) {
    CKPTDB_ASSIGN_OR_RETURN(const int64_t id, NumericFeature(c, columns[c]));
    example->ids.push_back(id);
  }
  for (int c = kCriteoNumericColumns + 1; c < kCriteoColumns; ++c) {
    example->ids.push_back(HashFeature(c - 1, columns[c]));
  }
  return absl::OkStatus();
}

std::vector<absl::string_view> SplitMovieLens(absl::string_view line) {
  if (line.find('\t') != absl::string_view::npos) {
    return absl::StrSplit(line, '\t');
  }
  return absl::StrSplit(line, "::");
}

absl::Status ParseMovieLens(absl::string_view line, Example* example) {
  const std::vector<absl::string_view> columns = SplitMovieLens(line);
  if (columns.size() != kMovieLensColumns) {
    return ColumnCountError(columns.size(), kMovieLensColumns);
  }
  CKPTDB_ASSIGN_OR_RETURN(const int64_t user, ParseInteger("user", columns[0]));
  CKPTDB_ASSIGN_OR_RETURN(const int64_t item, ParseInteger("item", columns[1]));
  CKPTDB_ASSIGN_OR_RETURN(const double rating,
                          ParseNumber("rating", columns[2]));
  CKPTDB_ASSIGN_OR_RETURN(const int64_t timestamp,
                          ParseInteger("timestamp", columns[3]));
  example->label = rating >= kClickRating ? 1 : 0;
  example->ids = {HashFeature(0, user), HashFeature(1, item),
                  HashFeature(2, timestamp / kSecondsAnHour % 24)};
  return absl::OkStatus();
}

FieldLayout CriteoLayout() {
  FieldLayout layout{{"numeric", "categorical"}, {}};
  layout.table_of_field.assign(kCriteoNumericColumns, 0);
  layout.table_of_field.insert(layout.table_of_field.end(),
                               kCriteoCategoricalColumns, 1);
  return layout;
}

}  // namespace

absl::StatusOr<Format> ParseFormat(absl::string_view name) {
  if (name == "criteo") return Format::kCriteo;
  if (name == "movielens") return Format::kMovieLens;
  return absl::InvalidArgumentError(
      absl::StrCat("format \"", name, "\" is not criteo or movielens"));
}

absl::string_view FormatName(Format format) {
  return format == Format::kCriteo ? "criteo" : "movielens";
}

bool HasHeader(Format format) { return format == Format::kCriteo; }

FieldLayout LayoutOf(Format format) {
  if (format == Format::kCriteo) return CriteoLayout();
  return {{"user", "item", "context"}, {0, 1, 2}};
}

absl::Status CheckHeader(Format format, absl::string_view line) {
  if (!HasHeader(format)) return absl::OkStatus();
  const std::vector<absl::string_view> columns = absl::StrSplit(line, ',');
  const int count = std::min<int>(columns.size(), kCriteoColumns);
  for (int c = 0; c < count; ++c) {
    if (columns[c] == CriteoColumn(c)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("column ", c + 1, " of the header is \"", columns[c],
                     "\", not \"", CriteoColumn(c), "\""));
  }
  if (columns.size() != kCriteoColumns) {
    return ColumnCountError(columns.size(), kCriteoColumns);
  }
  return absl::OkStatus();
}

absl::Status ParseLine(Format format, absl::string_view line,
                       Example* example) {
  return format == Format::kCriteo ? ParseCriteo(line, example)
                                   : ParseMovieLens(line, example);
}

int64_t LogBucket(double value) {
  if (value < 3) {
    return static_cast<int64_t>(std::floor(std::max(value, kLowestBucket)));
  }
  const double log_value = std::log(value);
  return 2 + static_cast<int64_t>(std::floor(log_value * log_value));
}

}  // namespace train_ctr
