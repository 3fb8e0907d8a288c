// SPDX-License-Identifier: Apache-2.0
// Click logs: examples with a beginning, a held-out tail and an end, read
// forward from any position that was saved before.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_LOG_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_LOG_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace train_ctr {

// The sparse features of a log: field f is looked up in table
// tables[table_of_field[f]].
struct FieldLayout {
  std::vector<std::string> tables;
  std::vector<size_t> table_of_field;

  size_t fields() const { return table_of_field.size(); }
};

struct Example {
  float label = 0;           // 1 a click, 0 none
  std::vector<int64_t> ids;  // one hashed id a field
};

// Examples one after the other; ids[i * fields + f] is field f of example i.
struct Batch {
  std::vector<float> labels;
  std::vector<int64_t> ids;

  size_t size() const { return labels.size(); }
  void Clear() {
    labels.clear();
    ids.clear();
  }
  void Add(const Example& example) {
    labels.push_back(example.label);
    ids.insert(ids.end(), example.ids.begin(), example.ids.end());
  }
};

// The id of a field's value: any int64, negative ones too. Equal values of
// different fields have different ids, so fields can share a table.
int64_t HashFeature(size_t field, absl::string_view value);
int64_t HashFeature(size_t field, int64_t value);

// A place between two examples of a log.
struct LogPosition {
  uint64_t offset = 0;  // bytes of a file, or examples of a generated log
  uint64_t line = 0;    // lines before it, for errors; 0 without lines

  bool operator==(const LogPosition&) const = default;
};

// Every error names the log and the position. Not thread-safe.
class Log {
 public:
  virtual ~Log() = default;

  const FieldLayout& layout() const { return layout_; }
  // Training examples are in [begin, tail), held-out ones in [tail, end).
  LogPosition begin() const { return begin_; }
  LogPosition tail() const { return tail_; }
  LogPosition end() const { return end_; }
  // Says which log this is, its length included: a position is good for the
  // same identity only.
  virtual std::string identity() const = 0;

  // `position` is one of the above, or was returned by position().
  virtual absl::Status Seek(LogPosition position) = 0;
  virtual LogPosition position() const = 0;
  // Returns false at `stop`, and true with the example otherwise.
  virtual absl::StatusOr<bool> Next(LogPosition stop, Example* example) = 0;

 protected:
  FieldLayout layout_;
  LogPosition begin_;
  LogPosition tail_;
  LogPosition end_;
};

// Returns InvalidArgument unless 0 < holdout < 1, and otherwise how many of the
// examples are held out: at least one, and not all.
absl::StatusOr<uint64_t> HeldOut(uint64_t examples, double holdout);

struct GeneratedLogOptions {
  uint64_t seed = 1;
  // Examples of one epoch, the held-out tail included. Default: 200,000.
  uint64_t examples = 200'000;
  // Distinct ids; 8 bytes of memory for each. Default: 20,000 and 50,000.
  uint64_t users = 20'000;
  uint64_t items = 50'000;
  // An id of popularity rank r is drawn with weight 1 / r^exponent.
  // Default: 1.05.
  double exponent = 1.05;
  // The part of the log held out, between 0 and 1. Default: 0.1.
  double holdout = 0.1;
};

// Ranks 0..n-1, rank r with weight 1 / (r + 1)^exponent.
class ZipfDistribution {
 public:
  ZipfDistribution(uint64_t n, double exponent);
  // The rank at `unit` in [0, 1) of the cumulative distribution.
  uint64_t RankAt(double unit) const;

 private:
  std::vector<double> cumulative_;
};

// Returns a log made up as it is read: Zipf-distributed ids and planted
// weights, so that there is something to learn and the AUC means something. The
// logit of an example is a bias plus the planted weights of its user, item,
// device and hour; the label is drawn from it. Example i depends on the seed
// and on i only. Returns InvalidArgument for an option out of its range.
absl::StatusOr<std::unique_ptr<Log>> NewGeneratedLog(
    const GeneratedLogOptions& options);

// The formats of text files. Criteo: CSV with the header label,I1..I13,C1..C26.
// Numeric columns are put into logarithmic buckets; an empty column is a value.
// MovieLens: user, item, rating, timestamp, separated by tabs or by "::". A
// rating of 4 or more is a click. The fields are the user, the item and the
// hour of the day.
enum class Format { kCriteo, kMovieLens };

absl::StatusOr<Format> ParseFormat(absl::string_view name);
// Return InvalidArgument with the column and the value.
absl::Status CheckHeader(Format format, absl::string_view line);
absl::Status ParseLine(Format format, absl::string_view line, Example* example);
// The bucket of a finite number: exact for values under 3, then growing with
// the square of the logarithm.
int64_t LogBucket(double value);

// A longer line is an error, so that a file without lines is not read whole.
inline constexpr size_t kMaxLineBytes = 64 << 10;

// Returns the log in a text file, read as a stream. Reads the file once to find
// the last `holdout` of its examples. A line ends with LF or CR LF, the last
// one also without; empty lines are passed over. Returns NotFound if it cannot
// be opened, and InvalidArgument for less than 2 examples or a wrong header. A
// line that cannot be parsed is InvalidArgument and begins with "FILE:LINE: ".
absl::StatusOr<std::unique_ptr<Log>> OpenFileLog(const std::string& path,
                                                 Format format, double holdout);

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_LOG_H_
