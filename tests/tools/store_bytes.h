// SPDX-License-Identifier: Apache-2.0
// The bytes of a store's folder, and damage to them.
#ifndef CKPTDB_TESTS_TOOLS_STORE_BYTES_H_
#define CKPTDB_TESTS_TOOLS_STORE_BYTES_H_

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>

namespace ckptdb::testing {

// Returns a hash of each file below a folder, by path; 0 for a folder.
inline std::map<std::string, size_t> BytesBelow(const std::string& folder) {
  std::map<std::string, size_t> hashes;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    size_t& hash = hashes[entry.path().string()];
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::string bytes(entry.file_size(), '\0');
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    hash = std::hash<std::string>()(bytes);
  }
  return hashes;
}

inline std::filesystem::path LargestTable(const std::string& store) {
  std::filesystem::path largest;
  uintmax_t most = 0;
  for (const auto& entry : std::filesystem::directory_iterator(store + "/db")) {
    if (entry.path().extension() != ".sst" || entry.file_size() <= most) {
      continue;
    }
    most = entry.file_size();
    largest = entry.path();
  }
  return largest;
}

inline void FlipByte(const std::filesystem::path& file, uint64_t at) {
  std::fstream bytes(file, std::ios::binary | std::ios::in | std::ios::out);
  bytes.seekg(static_cast<std::streamoff>(at));
  const char flipped = static_cast<char>(bytes.get() ^ 1);
  bytes.seekp(static_cast<std::streamoff>(at));
  bytes.put(flipped);
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_TOOLS_STORE_BYTES_H_
