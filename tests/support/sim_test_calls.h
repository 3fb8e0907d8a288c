// SPDX-License-Identifier: Apache-2.0
// Short forms of SimFileSystem calls for its own tests. Each asserts success
// unless it returns the status.
#ifndef CKPTDB_TESTS_SUPPORT_SIM_TEST_CALLS_H_
#define CKPTDB_TESTS_SUPPORT_SIM_TEST_CALLS_H_

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/sim_file_system.h"

namespace ckptdb::testing {

inline const rocksdb::IOOptions kIo;

inline std::unique_ptr<rocksdb::FSWritableFile> Create(
    SimFileSystem& fs, const std::string& path) {
  std::unique_ptr<rocksdb::FSWritableFile> file;
  const rocksdb::IOStatus status = fs.NewWritableFile(path, {}, &file, nullptr);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return file;
}

inline rocksdb::IOStatus Append(rocksdb::FSWritableFile& file,
                                const std::string& bytes) {
  return file.Append(bytes, kIo, nullptr);
}

// Creates a file with unsynced bytes.
inline std::unique_ptr<rocksdb::FSWritableFile> CreateWith(
    SimFileSystem& fs, const std::string& path, const std::string& bytes) {
  auto file = Create(fs, path);
  EXPECT_TRUE(Append(*file, bytes).ok());
  return file;
}

inline void Sync(rocksdb::FSWritableFile& file) {
  EXPECT_TRUE(file.Sync(kIo, nullptr).ok());
}

inline void SyncFolder(SimFileSystem& fs, const std::string& path) {
  std::unique_ptr<rocksdb::FSDirectory> folder;
  ASSERT_TRUE(fs.NewDirectory(path, kIo, &folder, nullptr).ok());
  EXPECT_TRUE(folder->Fsync(kIo, nullptr).ok());
}

inline void MakeFolder(SimFileSystem& fs, const std::string& path) {
  EXPECT_TRUE(fs.CreateDir(path, kIo, nullptr).ok());
}

inline rocksdb::IOStatus Exists(SimFileSystem& fs, const std::string& path) {
  return fs.FileExists(path, kIo, nullptr);
}

inline std::vector<std::string> Paths(const SimFileSystem& fs) {
  std::vector<std::string> paths;
  for (const SimPathSize& file : fs.ListFiles("/")) paths.push_back(file.path);
  return paths;
}

inline std::shared_ptr<SimFileSystem> Crash(const SimFileSystem& fs,
                                            PowerLoss variant) {
  return fs.CrashAfter(fs.operations(), variant);
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SUPPORT_SIM_TEST_CALLS_H_
