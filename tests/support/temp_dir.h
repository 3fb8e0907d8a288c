// SPDX-License-Identifier: Apache-2.0
// A temporary folder, removed when the object is destroyed.
//
//   TempDir dir;
//   auto store = Store::Open(dir.path() + "/store", {});
#ifndef CKPTDB_TESTS_SUPPORT_TEMP_DIR_H_
#define CKPTDB_TESTS_SUPPORT_TEMP_DIR_H_

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace ckptdb::testing {

class TempDir {
 public:
  TempDir() {
    std::string name =
        (std::filesystem::temp_directory_path() / "ckptdb_test.XXXXXX")
            .string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_TEMP_DIR_H_
