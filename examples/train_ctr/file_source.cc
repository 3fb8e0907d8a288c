// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/file_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include <ckptdb/schema/status.h>
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

absl::StatusOr<std::unique_ptr<FileSource>> FileSource::Open(
    const std::string& path, Format format, double holdout) {
  if (!(holdout > 0 && holdout < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("holdout ", holdout, " is not between 0 and 1"));
  }
  CKPTDB_ASSIGN_OR_RETURN(LineReader lines, LineReader::Open(path));
  std::unique_ptr<FileSource> source(
      new FileSource(std::move(lines), format, holdout));
  CKPTDB_RETURN_IF_ERROR(source->FindTail());
  return source;
}

absl::Status FileSource::FindTail() {
  CKPTDB_RETURN_IF_ERROR(PassHeader());
  begin_ = lines_.position();
  uint64_t examples = 0;
  CKPTDB_RETURN_IF_ERROR(
      PassExamples(std::numeric_limits<uint64_t>::max(), &examples));
  end_ = lines_.position();
  if (examples < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("data file ", lines_.path(), " has ", examples,
                     " examples; at least 2 are needed"));
  }
  const uint64_t held_out = std::clamp<uint64_t>(
      static_cast<uint64_t>(static_cast<double>(examples) * holdout_), 1,
      examples - 1);
  CKPTDB_RETURN_IF_ERROR(lines_.Seek(begin_));
  CKPTDB_RETURN_IF_ERROR(PassExamples(examples - held_out, &examples));
  tail_ = lines_.position();
  return lines_.Seek(begin_);
}

absl::Status FileSource::PassHeader() {
  if (!HasHeader(format_)) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(const bool found, lines_.Next(&line_));
  if (!found) {
    return absl::InvalidArgumentError(
        absl::StrCat("data file ", lines_.path(), " is empty"));
  }
  return AtLine(CheckHeader(format_, line_));
}

absl::Status FileSource::PassExamples(uint64_t limit, uint64_t* passed) {
  *passed = 0;
  while (*passed < limit) {
    CKPTDB_ASSIGN_OR_RETURN(const bool found, lines_.Next(&line_));
    if (!found) break;
    if (!line_.empty()) ++*passed;
  }
  return absl::OkStatus();
}

absl::Status FileSource::AtLine(const absl::Status& status) const {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(lines_.path(), ":", lines_.position().line,
                                   ": ", status.message()));
}

std::string FileSource::identity() const {
  return absl::StrCat(FormatName(format_), " file of ", end_.offset,
                      " bytes, holdout ", holdout_);
}

absl::Status FileSource::Seek(LogPosition position) {
  return lines_.Seek(position);
}

absl::StatusOr<bool> FileSource::Next(LogPosition stop, Example* example) {
  do {
    if (lines_.position().offset >= stop.offset) return false;
    CKPTDB_ASSIGN_OR_RETURN(const bool found, lines_.Next(&line_));
    if (!found) {
      return absl::DataLossError(absl::StrCat(
          "data file ", lines_.path(), " ends at byte ",
          lines_.position().offset, "; it had ", end_.offset, " bytes"));
    }
  } while (line_.empty());
  CKPTDB_RETURN_IF_ERROR(AtLine(ParseLine(format_, line_, example)));
  return true;
}

}  // namespace train_ctr
