// Lines of a text file with the place of each.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_LINE_READER_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_LINE_READER_H_

#include <cstddef>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/source.h"

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

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_LINE_READER_H_
