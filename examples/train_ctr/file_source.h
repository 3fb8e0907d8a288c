// SPDX-License-Identifier: Apache-2.0
// A click log in a text file, read as a stream.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_FILE_SOURCE_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_FILE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/source.h"
#include "train_ctr/text_formats.h"

namespace train_ctr {

// A longer line is an error, so that a file without lines is not read whole.
inline constexpr size_t kMaxLineBytes = 64 << 10;

// Holds one line in memory. A line ends with LF or CR LF, the last one also
// without. Not thread-safe.
class LineReader {
 public:
  // Returns NotFound if the file cannot be opened.
  static absl::StatusOr<LineReader> Open(const std::string& path);

  absl::Status Seek(LogPosition position);
  LogPosition position() const { return position_; }
  const std::string& path() const { return path_; }

  // The next line without its end; false after the last.
  absl::StatusOr<bool> Next(std::string* line);

 private:
  LineReader(std::string path, std::ifstream file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  std::ifstream file_;
  LogPosition position_;
};

class FileSource : public Source {
 public:
  // Reads the file once to find the last `holdout` (0 < holdout < 1) of its
  // examples. Empty lines are passed over. A file with fewer than 2 examples,
  // or a wrong header, is InvalidArgument.
  static absl::StatusOr<std::unique_ptr<FileSource>> Open(
      const std::string& path, Format format, double holdout);

  const FieldLayout& layout() const override { return layout_; }
  std::string identity() const override;
  LogPosition begin() const override { return begin_; }
  LogPosition tail() const override { return tail_; }
  LogPosition end() const override { return end_; }
  absl::Status Seek(LogPosition position) override;
  LogPosition position() const override { return lines_.position(); }
  // A line that cannot be parsed is InvalidArgument and starts "FILE:LINE: ".
  absl::StatusOr<bool> Next(LogPosition stop, Example* example) override;

 private:
  FileSource(LineReader lines, Format format, double holdout)
      : lines_(std::move(lines)),
        format_(format),
        holdout_(holdout),
        layout_(LayoutOf(format)) {}

  absl::Status FindTail();
  absl::Status PassHeader();
  absl::Status PassExamples(uint64_t limit, uint64_t* passed);
  absl::Status AtLine(const absl::Status& status) const;

  LineReader lines_;
  Format format_;
  double holdout_;
  FieldLayout layout_;
  LogPosition begin_;
  LogPosition tail_;
  LogPosition end_;
  std::string line_;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_FILE_SOURCE_H_
