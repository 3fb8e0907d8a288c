// SPDX-License-Identifier: Apache-2.0
// A file that is mapped into memory for reading, so that its arrays take no
// memory besides the page cache.
#ifndef CKPTDB_TOOLS_FILES_MAPPED_FILE_H_
#define CKPTDB_TOOLS_FILES_MAPPED_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb::tool {

class MappedFile {
 public:
  // Returns InvalidArgument for anything but a regular file.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(
      const std::string& path);
  // Maps an open file of this size, and takes ownership of `file`.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Adopt(
      int file, const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  absl::string_view bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  absl::string_view bytes_;
};

// While it lives, reading a mapped file that another process has truncated, or
// that its disk cannot return, prints an error and ends the process with exit
// code 5, instead of a signal.
class MappedFileErrors {
 public:
  MappedFileErrors();
  ~MappedFileErrors();
  MappedFileErrors(const MappedFileErrors&) = delete;
  MappedFileErrors& operator=(const MappedFileErrors&) = delete;
};

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_MAPPED_FILE_H_
