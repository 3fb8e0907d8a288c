// SPDX-License-Identifier: Apache-2.0
#include <ckptdb/schema/status.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "train_ctr/log.h"

namespace train_ctr {
namespace {

constexpr int kNumericColumns = 13;
constexpr int kCategoricalColumns = 26;
constexpr int kCriteoColumns = 1 + kNumericColumns + kCategoricalColumns;
constexpr int kMovieLensColumns = 4;
constexpr double kClickRating = 4;
constexpr int64_t kSecondsAnHour = 3600;

template <typename... Words>
absl::Status Invalid(const Words&... words) {
  return absl::InvalidArgumentError(absl::StrCat(words...));
}

std::string CriteoColumn(int column) {
  if (column == 0) return "label";
  return column <= kNumericColumns
             ? absl::StrCat("I", column)
             : absl::StrCat("C", column - kNumericColumns);
}

absl::Status CheckColumns(size_t found, int expected) {
  if (found == static_cast<size_t>(expected)) return absl::OkStatus();
  return Invalid("the line has ", found, " columns, not ", expected);
}

absl::StatusOr<double> ParseNumber(absl::string_view column,
                                   absl::string_view text) {
  double value;
  if (absl::SimpleAtod(text, &value) && std::isfinite(value)) return value;
  return Invalid(column, " \"", text, "\" is not a finite number");
}

absl::StatusOr<int64_t> ParseInteger(absl::string_view column,
                                     absl::string_view text) {
  int64_t value;
  if (absl::SimpleAtoi(text, &value)) return value;
  return Invalid(column, " \"", text, "\" is not an integer");
}

absl::Status ParseCriteo(absl::string_view line, Example* example) {
  const std::vector<absl::string_view> columns = absl::StrSplit(line, ',');
  CKPTDB_RETURN_IF_ERROR(CheckColumns(columns.size(), kCriteoColumns));
  if (columns[0] != "0" && columns[0] != "1") {
    return Invalid("label \"", columns[0], "\" is not 0 or 1");
  }
  example->label = columns[0] == "1" ? 1 : 0;
  example->ids.clear();
  for (int c = 1; c < kCriteoColumns; ++c) {
    const auto field = static_cast<size_t>(c - 1);
    if (c > kNumericColumns || columns[c].empty()) {
      example->ids.push_back(HashFeature(field, columns[c]));
      continue;
    }
    CKPTDB_ASSIGN_OR_RETURN(const double value,
                            ParseNumber(CriteoColumn(c), columns[c]));
    example->ids.push_back(HashFeature(field, LogBucket(value)));
  }
  return absl::OkStatus();
}

absl::Status ParseMovieLens(absl::string_view line, Example* example) {
  std::vector<absl::string_view> columns = absl::StrSplit(line, '\t');
  if (columns.size() == 1) columns = absl::StrSplit(line, "::");
  CKPTDB_RETURN_IF_ERROR(CheckColumns(columns.size(), kMovieLensColumns));
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

// Holds one line in memory.
class FileLog final : public Log {
 public:
  FileLog(std::string path, std::ifstream file, Format format)
      : path_(std::move(path)), file_(std::move(file)), format_(format) {
    layout_ = {{"user", "item", "context"}, {0, 1, 2}};
    if (format == Format::kMovieLens) return;
    layout_ = {{"numeric", "categorical"}, {}};
    layout_.table_of_field.assign(kNumericColumns, 0);
    layout_.table_of_field.resize(kNumericColumns + kCategoricalColumns, 1);
  }

  // Finds the beginning, the tail and the end.
  absl::Status Open(double holdout);

  std::string identity() const override {
    return absl::StrCat(format_ == Format::kCriteo ? "criteo" : "movielens",
                        " file of ", end_.offset, " bytes, holdout ", holdout_);
  }
  absl::Status Seek(LogPosition position) override;
  LogPosition position() const override { return position_; }
  absl::StatusOr<bool> Next(LogPosition stop, Example* example) override;

 private:
  // Reads the next line without its end into line_; false after the last.
  absl::StatusOr<bool> ReadLine();
  // Passes over up to so many examples, and returns how many there were.
  absl::StatusOr<uint64_t> Pass(uint64_t limit);
  absl::Status AtLine(const absl::Status& status) const;

  const std::string path_;
  std::ifstream file_;
  const Format format_;
  double holdout_ = 0;
  LogPosition position_;
  std::string line_;
};

absl::Status FileLog::Open(double holdout) {
  holdout_ = holdout;
  if (format_ == Format::kCriteo) {
    CKPTDB_ASSIGN_OR_RETURN(const bool found, ReadLine());
    if (!found) return Invalid("data file ", path_, " is empty");
    CKPTDB_RETURN_IF_ERROR(AtLine(CheckHeader(format_, line_)));
  }
  begin_ = position_;
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t examples,
                          Pass(std::numeric_limits<uint64_t>::max()));
  end_ = position_;
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t held_out, HeldOut(examples, holdout));
  if (examples < 2) {
    return Invalid("data file ", path_, " has ", examples,
                   " examples; at least 2 are needed");
  }
  CKPTDB_RETURN_IF_ERROR(Seek(begin_));
  CKPTDB_RETURN_IF_ERROR(Pass(examples - held_out).status());
  tail_ = position_;
  return Seek(begin_);
}

absl::Status FileLog::Seek(LogPosition position) {
  file_.clear();
  if (!file_.seekg(static_cast<std::streamoff>(position.offset))) {
    return absl::DataLossError(absl::StrCat(
        "cannot seek to byte ", position.offset, " of data file ", path_));
  }
  position_ = position;
  return absl::OkStatus();
}

absl::StatusOr<bool> FileLog::ReadLine() {
  line_.clear();
  std::streambuf& in = *file_.rdbuf();
  int byte;
  while ((byte = in.sbumpc()) != std::char_traits<char>::eof()) {
    ++position_.offset;
    if (byte == '\n') break;
    if (line_.size() == kMaxLineBytes) {
      return Invalid(path_, ":", position_.line + 1,
                     ": the line is longer than ", kMaxLineBytes, " bytes");
    }
    line_.push_back(static_cast<char>(byte));
  }
  if (byte != '\n' && line_.empty()) return false;
  ++position_.line;
  if (!line_.empty() && line_.back() == '\r') line_.pop_back();
  return true;
}

absl::StatusOr<uint64_t> FileLog::Pass(uint64_t limit) {
  uint64_t passed = 0;
  while (passed < limit) {
    CKPTDB_ASSIGN_OR_RETURN(const bool found, ReadLine());
    if (!found) break;
    if (!line_.empty()) ++passed;
  }
  return passed;
}

absl::Status FileLog::AtLine(const absl::Status& status) const {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(path_, ":", position_.line,
                                                  ": ", status.message()));
}

absl::StatusOr<bool> FileLog::Next(LogPosition stop, Example* example) {
  do {
    if (position_.offset >= stop.offset) return false;
    CKPTDB_ASSIGN_OR_RETURN(const bool found, ReadLine());
    if (!found) {
      return absl::DataLossError(
          absl::StrCat("data file ", path_, " ends at byte ", position_.offset,
                       "; it had ", end_.offset, " bytes"));
    }
  } while (line_.empty());
  CKPTDB_RETURN_IF_ERROR(AtLine(ParseLine(format_, line_, example)));
  return true;
}

}  // namespace

absl::StatusOr<Format> ParseFormat(absl::string_view name) {
  if (name == "criteo") return Format::kCriteo;
  if (name == "movielens") return Format::kMovieLens;
  return Invalid("format \"", name, "\" is not criteo or movielens");
}

absl::Status CheckHeader(Format format, absl::string_view line) {
  if (format != Format::kCriteo) return absl::OkStatus();
  const std::vector<absl::string_view> columns = absl::StrSplit(line, ',');
  const int count = std::min<int>(columns.size(), kCriteoColumns);
  for (int c = 0; c < count; ++c) {
    if (columns[c] == CriteoColumn(c)) continue;
    return Invalid("column ", c + 1, " of the header is \"", columns[c],
                   "\", not \"", CriteoColumn(c), "\"");
  }
  return CheckColumns(columns.size(), kCriteoColumns);
}

absl::Status ParseLine(Format format, absl::string_view line,
                       Example* example) {
  return format == Format::kCriteo ? ParseCriteo(line, example)
                                   : ParseMovieLens(line, example);
}

int64_t LogBucket(double value) {
  // Bounds the buckets of negative counts, which are few in the real log.
  constexpr double kLowestBucket = -1000;
  if (value < 3) {
    return static_cast<int64_t>(std::floor(std::max(value, kLowestBucket)));
  }
  const double log_value = std::log(value);
  return 2 + static_cast<int64_t>(std::floor(log_value * log_value));
}

absl::StatusOr<std::unique_ptr<Log>> OpenFileLog(const std::string& path,
                                                 Format format,
                                                 double holdout) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return Invalid("data file ", path, " is a folder");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(absl::StrCat("cannot open data file ", path,
                                            ": ", std::strerror(errno)));
  }
  auto log = std::make_unique<FileLog>(path, std::move(file), format);
  CKPTDB_RETURN_IF_ERROR(log->Open(holdout));
  return log;
}

}  // namespace train_ctr
