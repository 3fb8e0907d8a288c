// SPDX-License-Identifier: Apache-2.0
// The temporary folder in which `ckptdb doctor` works, so that it touches
// nothing else in the user's folder.
#ifndef CKPTDB_TOOLS_DOCTOR_PRIVATE_FOLDER_H_
#define CKPTDB_TOOLS_DOCTOR_PRIVATE_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/doctor/file_calls.h"

namespace ckptdb::tool {

// A session's folder is named with this prefix and the session's name.
inline constexpr char kPrivatePrefix[] = ".ckptdb-doctor-";

// Returns an unpredictable name.
std::string NewSession();

// Returns whether `name` is a valid session name: 1 to 64 letters, digits and
// "-".
bool IsSessionName(absl::string_view name);

class PrivateFolder {
 public:
  // Creates the folder in `parent`. Returns AlreadyExists if it exists, and
  // NotFound without the parent. The destructor removes it and its contents.
  static absl::StatusOr<std::unique_ptr<PrivateFolder>> Make(
      const std::string& parent, const std::string& session);
  // Opens the folder that another process has created and will remove.
  static absl::StatusOr<std::unique_ptr<PrivateFolder>> Join(
      const std::string& parent, const std::string& session);

  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  int folder() const { return folder_; }
  FileCalls* files() { return &files_; }

  // Removes the folder now. If that fails, returns an error that names it.
  absl::Status Remove();

 private:
  PrivateFolder(std::string path, int parent, int folder, bool made)
      : path_(std::move(path)),
        parent_(parent),
        folder_(folder),
        made_(made),
        files_(folder) {}

  const std::string path_;
  const int parent_;
  const int folder_;
  bool made_;
  FileCalls files_;
};

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_DOCTOR_PRIVATE_FOLDER_H_
