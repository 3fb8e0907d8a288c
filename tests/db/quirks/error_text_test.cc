// SPDX-License-Identifier: Apache-2.0
// What is read from the texts of errors that RocksDB makes.
#include "db/quirks/error_text.h"

#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include <cerrno>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::internal {
namespace {

using rocksdb::Status;
using ::testing::HasSubstr;

TEST(ErrorTextTest, ErrnosOfRocksDbsFileSystem) {
  std::unique_ptr<rocksdb::SequentialFile> file;
  const Status missing = rocksdb::Env::Default()->NewSequentialFile(
      "/dev/null/x", &file, rocksdb::EnvOptions());
  EXPECT_TRUE(IsErrno(missing, ENOTDIR)) << missing.ToString();
  EXPECT_FALSE(IsErrno(missing, EACCES)) << missing.ToString();
  EXPECT_TRUE(IsErrno(Status::IOError("x", "File too large"), EFBIG));
}

TEST(ErrorTextTest, NamesATableThatIsToldByItsNumber) {
  EXPECT_EQ(TextWithTableNames(Status::Corruption("bad table file 12, at 3")),
            "Corruption: bad table file 000012.sst, at 3");
  EXPECT_EQ(TextWithTableNames(Status::Corruption("table file of a store")),
            "Corruption: table file of a store");
}

TEST(ErrorTextTest, DropsTheManifestThatIsBlamedForATable) {
  EXPECT_EQ(TextWithTableNames(Status::Corruption(
                "/db/000012.sst is cut in file /db/MANIFEST-000004")),
            "Corruption: /db/000012.sst is cut");
  EXPECT_EQ(TextWithTableNames(Status::Corruption(
                "/db/000012.sst is cut  The file /db/MANIFEST-000004 may be "
                "corrupted.")),
            "Corruption: /db/000012.sst is cut");
  EXPECT_THAT(TextWithTableNames(Status::Corruption(
                  "checksum mismatch in file /db/MANIFEST-000004")),
              HasSubstr("MANIFEST-000004"));
}

TEST(ErrorTextTest, AFamilyThatIsMissing) {
  const testing::TempDir dir;
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* database = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, dir.path(), &database).ok());
  delete database;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const Status status = rocksdb::DB::OpenForReadOnly(
      options, dir.path(),
      {{rocksdb::kDefaultColumnFamilyName, {}}, {"bulk", {}}}, &handles,
      &database);
  EXPECT_TRUE(IsMissingFamily(status.ToString())) << status.ToString();
  EXPECT_FALSE(IsMissingFamily("IO error"));
}

TEST(ErrorTextTest, TellsFilesOutOfReachAndStaleOnesFromMissingOnes) {
  EXPECT_TRUE(IsInaccessibleFile(
      "Corruption: Can't access /000012.sst: IO error: Permission denied"));
  EXPECT_FALSE(IsInaccessibleFile(
      "Corruption: Can't access /000012.sst: IO error: No such file"));
  EXPECT_TRUE(IsStaleHandle("IO error: x: Stale file handle"));
  EXPECT_FALSE(IsStaleHandle("IO error: x: No such file or directory"));
  EXPECT_TRUE(IsMissingLog("/db/000012.log: No such file or directory"));
  EXPECT_FALSE(IsMissingLog("/db/000012.sst: No such file or directory"));
}

}  // namespace
}  // namespace ckptdb::internal
