// SPDX-License-Identifier: Apache-2.0
// The database files that contain rows of small saves, and a way to damage one.
#ifndef CKPTDB_TESTS_SUPPORT_ROW_FILES_H_
#define CKPTDB_TESTS_SUPPORT_ROW_FILES_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
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

// Changes a byte of a file, by default one of its first block.
inline void DamageFile(const std::filesystem::path& path, size_t at = 30) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(file.get());
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 0x5a));
  ASSERT_TRUE(file.flush()) << path;
}

// Changes a byte of a step's rows. Each step has its own blocks, and the first
// key of a block begins with the step, big-endian.
inline void DamageStep(const std::string& store, int64_t step) {
  std::string key;
  for (int shift = 56; shift >= 0; shift -= 8) {
    key += static_cast<char>(static_cast<uint64_t>(step) >> shift);
  }
  for (const std::filesystem::path& path : RowFiles(store)) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const size_t at = bytes.find(key);
    if (at == std::string::npos) continue;
    ASSERT_NO_FATAL_FAILURE(DamageFile(path, at + key.size()));
    return;
  }
  FAIL() << "no file contains rows of step " << step;
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_ROW_FILES_H_
