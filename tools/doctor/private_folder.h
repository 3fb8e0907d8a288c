// A folder of its own that `ckptdb doctor` works in, so that it touches nothing
// else of the folder that it is given.
#ifndef CKPTDB_TOOLS_DOCTOR_PRIVATE_FOLDER_H_
#define CKPTDB_TOOLS_DOCTOR_PRIVATE_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/tools/doctor/file_calls.h"

namespace ckptdb::tool {

// The name of the folder of a session is this and the session's name.
inline constexpr char kPrivatePrefix[] = ".ckptdb-doctor-";

// Returns a name that nobody can know before.
std::string NewSession();

// Returns whether the name may be that of a session: 1 to 64 letters, digits
// and "-".
bool IsSessionName(absl::string_view name);

class PrivateFolder {
 public:
  // Makes the folder in `parent`. Returns AlreadyExists when it is there,
  // NotFound without the parent. It is removed with the object, and all that is
  // in it.
  static absl::StatusOr<std::unique_ptr<PrivateFolder>> Make(
      const std::string& parent, const std::string& session);
  // Opens the folder that another process has made, which also removes it.
  static absl::StatusOr<std::unique_ptr<PrivateFolder>> Join(
      const std::string& parent, const std::string& session);

  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  int folder() const { return folder_; }
  FileCalls* files() { return &files_; }

  // Removes the folder now. Returns an error that names it if it stays.
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
