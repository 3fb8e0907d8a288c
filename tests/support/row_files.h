// SPDX-License-Identifier: Apache-2.0
// The database files that contain rows of small saves, and a way to damage one.
#ifndef CKPTDB_TESTS_SUPPORT_ROW_FILES_H_
#define CKPTDB_TESTS_SUPPORT_ROW_FILES_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace ckptdb::testing {

// Returns the files, oldest first, in the order of RocksDB's file numbers.
inline std::set<std::filesystem::path> RowFiles(const std::string& store) {
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(store + "/db")) {
    if (entry.path().extension() != ".sst") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (bytes.find("ckptdb.greatest_key") != std::string::npos) {
      files.insert(entry.path());
    }
  }
  return files;
}

// Changes a byte of the file's first block.
inline void DamageFile(const std::filesystem::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(30);
  const char byte = static_cast<char>(file.get());
  file.seekp(30);
  file.put(static_cast<char>(byte ^ 0x5a));
  ASSERT_TRUE(file.flush()) << path;
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_ROW_FILES_H_
