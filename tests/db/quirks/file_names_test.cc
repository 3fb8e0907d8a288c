// SPDX-License-Identifier: Apache-2.0
// The names of RocksDB's files, as the names of those that it makes.
#include "db/quirks/file_names.h"

#include <rocksdb/db.h>

#include "gtest/gtest.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::internal {
namespace {

TEST(ManifestNumberTest, IsReadFromTheName) {
  EXPECT_EQ(ManifestNumber("MANIFEST-000012"), 12);
  EXPECT_EQ(ManifestNumber("MANIFEST-18446744073709551615"),
            18446744073709551615U);
  for (const char* const name :
       {"", "MANIFEST", "MANIFEST-", "MANIFEST-x", "MANIFEST-1x", "manifest-1",
        "MANIFEST--1", "MANIFEST-18446744073709551616", "xMANIFEST-1"})
    EXPECT_EQ(ManifestNumber(name), std::nullopt) << name;
}

TEST(FileNamesTest, RecognizesFilesByName) {
  EXPECT_TRUE(IsTable("/store/db/000012.sst"));
  EXPECT_FALSE(IsTable("/store/db/000012.log"));
  EXPECT_TRUE(IsLog("/store/db/000012.log"));
  EXPECT_FALSE(IsLog("/store/db/LOG"));
  EXPECT_EQ(FileName("/store/db/000012.sst"), "000012.sst");
  EXPECT_EQ(FileName("CURRENT"), "CURRENT");
  EXPECT_EQ(TableOfLevelDbName("/db/000012.ldb"), "/db/000012.sst");
  EXPECT_EQ(TableOfLevelDbName("/db/000012.sst"), std::nullopt);
  EXPECT_TRUE(IsUnfinishedOptions("OPTIONS-000012.dbtmp"));
  for (const char* const name : {"OPTIONS-000012", "000012.dbtmp", "OPTIONS"})
    EXPECT_FALSE(IsUnfinishedOptions(name)) << name;
  for (const char* const name :
       {"", "x", ".sst", "a.sst", "MANIFEST-", "OPTIONS-x", "CURRENT2", "LOG.1",
        "LOCK2", "000012.txt"}) {
    EXPECT_FALSE(IsDatabaseFile(name)) << name;
  }
}

TEST(FileNamesTest, KnowsWhateverRocksDbMakes) {
  const testing::TempDir dir;
  rocksdb::Options options;
  options.create_if_missing = true;
  for (int i = 0; i < 2; ++i) {
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(options, dir.path(), &opened).ok());
    const std::unique_ptr<rocksdb::DB> database(opened);
    ASSERT_TRUE(database->Put(rocksdb::WriteOptions(), "key", "value").ok());
    ASSERT_TRUE(database->Flush(rocksdb::FlushOptions()).ok());
  }
  int tables = 0;
  int logs = 0;
  int manifests = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(IsDatabaseFile(name)) << name;
    tables += IsTable(name) ? 1 : 0;
    logs += IsLog(name) ? 1 : 0;
    manifests += ManifestNumber(name).has_value() ? 1 : 0;
  }
  EXPECT_EQ(tables, 2);
  EXPECT_EQ(logs, 1);
  EXPECT_EQ(manifests, 1);
}

}  // namespace
}  // namespace ckptdb::internal
