#include "train_ctr/line_reader.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"

namespace train_ctr {

absl::StatusOr<LineReader> LineReader::Open(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data file ", path, " is a folder"));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(absl::StrCat("cannot open data file ", path,
                                            ": ", std::strerror(errno)));
  }
  return LineReader(path, std::move(file));
}

absl::Status LineReader::Seek(LogPosition position) {
  file_.clear();
  if (!file_.seekg(static_cast<std::streamoff>(position.offset))) {
    return absl::DataLossError(absl::StrCat(
        "cannot seek to byte ", position.offset, " of data file ", path_));
  }
  position_ = position;
  return absl::OkStatus();
}

absl::StatusOr<bool> LineReader::Next(std::string* line) {
  line->clear();
  std::streambuf& in = *file_.rdbuf();
  int byte;
  while ((byte = in.sbumpc()) != std::char_traits<char>::eof()) {
    ++position_.offset;
    if (byte == '\n') break;
    if (line->size() == kMaxLineBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ":", position_.line + 1, ": the line is longer ",
                       "than ", kMaxLineBytes, " bytes"));
    }
    line->push_back(static_cast<char>(byte));
  }
  if (byte != '\n' && line->empty()) return false;
  ++position_.line;
  if (!line->empty() && line->back() == '\r') line->pop_back();
  return true;
}

}  // namespace train_ctr
