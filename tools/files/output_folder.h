// SPDX-License-Identifier: Apache-2.0
// Files that appear in a folder under their names when they are whole and
// durable, all of them or none.
//
//   CKPTDB_ASSIGN_OR_RETURN(auto folder, OutputFolder::Open("out", force));
//   CKPTDB_ASSIGN_OR_RETURN(OutputFile * file, folder->Create("w.npy", 208));
//   CKPTDB_RETURN_IF_ERROR(file->Write(0, header));
//   CKPTDB_RETURN_IF_ERROR(file->Write(128, elements));
//   CKPTDB_RETURN_IF_ERROR(folder->Commit());
#ifndef CKPTDB_TOOLS_FILES_OUTPUT_FOLDER_H_
#define CKPTDB_TOOLS_FILES_OUTPUT_FOLDER_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb::tool {

// A file under a temporary name.
class OutputFile {
 public:
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Writes at this offset. Thread-safe. Of a file with a size, each byte is
  // written once; the write that completes it also makes it durable and closes
  // it.
  absl::Status Write(uint64_t at, absl::string_view bytes);
  // Writes behind everything appended before. Thread-safe.
  absl::Status Append(absl::string_view bytes);

 private:
  friend class OutputFolder;
  OutputFile(std::string path, std::string name, uint64_t bytes, bool replace)
      : path_(std::move(path)),
        name_(std::move(name)),
        bytes_(bytes),
        replace_(replace) {}

  absl::Status OpenNew();
  absl::Status Put(uint64_t at, absl::string_view bytes);
  absl::Status Finish();

  const std::string path_;  // the temporary one
  const std::string name_;
  const uint64_t bytes_;  // kUnknownBytes if it is only appended to
  const bool replace_;
  std::mutex mutex_;
  int file_ = -1;
  bool created_ = false;
  bool done_ = false;
  uint64_t written_ = 0;
};

class OutputFolder {
 public:
  static constexpr uint64_t kUnknownBytes = ~uint64_t{0};

  // Creates the folder unless it exists. Without `force`, creating a file whose
  // name exists returns AlreadyExists. Removes temporary files that a killed
  // export left. Returns FailedPrecondition while another OutputFolder writes
  // to the folder.
  static absl::StatusOr<std::unique_ptr<OutputFolder>> Open(
      const std::string& path, bool force);
  // Removes the files, unless they were committed, and the folder if it was
  // created and is empty.
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  // `name` is that of a file, or "FOLDER/NAME", whose folder is created.
  // Returns InvalidArgument for a name that is too long for a file. The file
  // lives as long as the folder. An append-only one has kUnknownBytes. One with
  // `replace` replaces a file even without `force`.
  absl::StatusOr<OutputFile*> Create(const std::string& name, uint64_t bytes,
                                     bool replace = false);

  // Gives all files their names, in the order in which they were created, and
  // makes that durable. Returns Internal for a file that is not complete.
  absl::Status Commit();

  // The files' names and sizes.
  struct Written {
    std::string name;
    uint64_t bytes = 0;
  };
  const std::vector<Written>& written() const { return written_; }

 private:
  OutputFolder(std::string path, bool force)
      : path_(std::move(path)), force_(force) {}
  absl::Status MakeFolder(const std::string& path);
  absl::Status Lock();
  void RemoveAll();
  absl::Status Rename(const OutputFile& file);

  const std::string path_;
  const bool force_;
  int lock_ = -1;
  bool is_locked_ = false;         // against other exports
  std::set<std::string> cleaned_;  // folders without files of killed exports
  bool committed_ = false;
  std::vector<std::string> made_folders_;
  std::vector<std::unique_ptr<OutputFile>> files_;
  std::vector<Written> written_;
};

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_OUTPUT_FOLDER_H_
