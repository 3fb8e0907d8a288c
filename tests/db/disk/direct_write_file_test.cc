// SPDX-License-Identifier: Apache-2.0
#include "db/disk/direct_write_file.h"

#include <rocksdb/env.h>

#include <cstdio>
#include <fstream>

#include "db/base/huge_page.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::internal {
namespace {

using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;
using ::testing::HasSubstr;

class FailingFile : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FailingFile(std::unique_ptr<rocksdb::FSWritableFile> file, int good_writes)
      : FSWritableFileOwnerWrapper(std::move(file)), left_(good_writes) {}
  IOStatus PositionedAppend(const Slice& bytes, uint64_t offset,
                            const IOOptions& options,
                            rocksdb::IODebugContext* debug) override {
    if (left_-- <= 0) return IOStatus::NoSpace("no space for this test");
    return target()->PositionedAppend(bytes, offset, options, debug);
  }

 private:
  int left_;
};

class DirectWriteFileTest : public ::testing::Test {
 protected:
  // False where the file system has no direct writes.
  bool Open(int good_writes = 1000) {
    rocksdb::FileOptions options;
    options.use_direct_writes = true;
    std::unique_ptr<rocksdb::FSWritableFile> direct;
    const auto status = rocksdb::FileSystem::Default()->NewWritableFile(
        path_, options, &direct, nullptr);
    if (!status.ok()) return false;
    direct = std::make_unique<FailingFile>(std::move(direct), good_writes);
    file_ = NewDirectWriteFile(&direct);
    EXPECT_NE(file_, nullptr);
    return file_ != nullptr;
  }
  IOStatus Append(const std::string& bytes) {
    return file_->Append(Slice(bytes), IOOptions(), nullptr);
  }
  IOStatus Sync() { return file_->Sync(IOOptions(), nullptr); }
  IOStatus Close() { return file_->Close(IOOptions(), nullptr); }
  std::string OnDisk() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  const testing::TempDir folder_;
  const std::string path_ = folder_.path() + "/file";
  std::unique_ptr<rocksdb::FSWritableFile> file_;
};

TEST_F(DirectWriteFileTest, WritesWhatWasAppended) {
  if (!Open()) GTEST_SKIP() << "no direct writes here";
  std::mt19937_64 random(testing::TestSeed());
  std::string all;
  while (all.size() < 3 * kHugePageBytes) {
    const std::string part(random() % 600'000, static_cast<char>(random()));
    ASSERT_TRUE(Append(part).ok());
    all += part;
    ASSERT_EQ(file_->GetFileSize(IOOptions(), nullptr), all.size());
    // More may come after a sync, in the middle of a block too.
    if (random() % 4 != 0) continue;
    ASSERT_TRUE(Sync().ok());
    ASSERT_TRUE(OnDisk() == all) << all.size();
  }
  ASSERT_TRUE(Close().ok());
  EXPECT_TRUE(OnDisk() == all) << all.size();
}

TEST_F(DirectWriteFileTest, SizesAroundAPage) {
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{4096}, kHugePageBytes - 1, kHugePageBytes,
        kHugePageBytes + 1, 2 * kHugePageBytes}) {
    if (!Open()) GTEST_SKIP() << "no direct writes here";
    const std::string bytes(size, 'b');
    ASSERT_TRUE(Append(bytes).ok());
    ASSERT_TRUE(Sync().ok());
    ASSERT_TRUE(Close().ok());
    EXPECT_TRUE(OnDisk() == bytes) << size;
    file_.reset();
    std::remove(path_.c_str());
  }
}

// A page is written while the next one is gathered: the error comes with a
// later call, and with all after it.
TEST_F(DirectWriteFileTest, AnErrorIsNotLost) {
  if (!Open(/*good_writes=*/1)) GTEST_SKIP() << "no direct writes here";
  const std::string page(kHugePageBytes, 'p');
  ASSERT_TRUE(Append(page).ok());
  ASSERT_TRUE(Append(page).ok());
  const IOStatus late = Append(page);
  EXPECT_TRUE(late.IsNoSpace()) << late.ToString();
  EXPECT_THAT(late.ToString(), HasSubstr("no space for this test"));
  EXPECT_TRUE(Sync().IsNoSpace());
  EXPECT_TRUE(Close().IsNoSpace());
}

TEST_F(DirectWriteFileTest, AnErrorOfTheLastPageComesWithTheSync) {
  if (!Open(/*good_writes=*/0)) GTEST_SKIP() << "no direct writes here";
  ASSERT_TRUE(Append(std::string(kHugePageBytes, 'p')).ok());
  EXPECT_TRUE(Sync().IsNoSpace());
}

TEST_F(DirectWriteFileTest, MayBeDestroyedAtAnyTime) {
  if (!Open()) GTEST_SKIP() << "no direct writes here";
  ASSERT_TRUE(Append(std::string(kHugePageBytes + 10, 'p')).ok());
  file_.reset();
}

}  // namespace
}  // namespace ckptdb::internal
