// SPDX-License-Identifier: Apache-2.0
#include "db/disk/file_pool.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"

namespace ckptdb::testing {
namespace {

using internal::FilePool;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

class CountedFile : public FilePool::File {
 public:
  CountedFile(int number, int* open) : number_(number), open_(open) {
    ++*open_;
  }
  ~CountedFile() override { --*open_; }
  CountedFile(const CountedFile&) = delete;
  CountedFile& operator=(const CountedFile&) = delete;
  IOStatus Read(uint64_t /*offset*/, size_t /*n*/, const IOOptions& /*options*/,
                rocksdb::Slice* result, char* scratch,
                IODebugContext* /*debug*/) const override {
    scratch[0] = static_cast<char>(number_);
    *result = rocksdb::Slice(scratch, 1);
    return IOStatus::OK();
  }

 private:
  const int number_;
  int* const open_;
};

class FilePoolTest : public ::testing::Test {
 protected:
  static constexpr int kMostOpen = 3;
  std::unique_ptr<FilePool::File> Add(int number) {
    return pool_->Add(std::make_unique<CountedFile>(number, &open_),
                      [this, number](std::unique_ptr<FilePool::File>* opened) {
                        if (removed_ == number)
                          return IOStatus::PathNotFound("removed");
                        ++reopened_;
                        *opened = std::make_unique<CountedFile>(number, &open_);
                        return IOStatus::OK();
                      });
  }
  static IOStatus Read(const FilePool::File& file, int* number) {
    char byte = 0;
    rocksdb::Slice result;
    const IOStatus status =
        file.Read(0, 1, IOOptions(), &result, &byte, nullptr);
    *number = byte;
    return status;
  }
  static void ExpectReads(const FilePool::File& file, int number) {
    int found = 0;
    EXPECT_TRUE(Read(file, &found).ok());
    EXPECT_EQ(found, number);
  }
  std::shared_ptr<FilePool> pool_ = std::make_shared<FilePool>(kMostOpen);
  int open_ = 0;
  int reopened_ = 0;
  int removed_ = -1;
};

TEST_F(FilePoolTest, ReadsMoreFilesThanAreOpen) {
  std::vector<std::unique_ptr<FilePool::File>> files;
  for (int i = 0; i < 10; ++i) files.push_back(Add(i));
  EXPECT_EQ(open_, kMostOpen);
  for (int i = 0; i < 10; ++i) {
    ExpectReads(*files[static_cast<size_t>(i)], i);
    EXPECT_LE(open_, kMostOpen);
  }
  files.clear();
  EXPECT_EQ(open_, 0);
}

TEST_F(FilePoolTest, ClosesLeastRecentlyReadFile) {
  const auto first = Add(1);
  const auto second = Add(2);
  const auto third = Add(3);
  ExpectReads(*first, 1);
  const auto fourth = Add(4);
  ExpectReads(*first, 1);
  EXPECT_EQ(reopened_, 0);
  ExpectReads(*second, 2);
  EXPECT_EQ(reopened_, 1);
}

TEST_F(FilePoolTest, ReadFails_WhenFileCannotBeOpenedAgain) {
  const auto removed = Add(7);
  std::vector<std::unique_ptr<FilePool::File>> others;
  for (int i = 0; i < kMostOpen; ++i) others.push_back(Add(i));
  removed_ = 7;
  int number = 0;
  EXPECT_TRUE(Read(*removed, &number).IsPathNotFound());
  removed_ = -1;
  ExpectReads(*removed, 7);
}

}  // namespace
}  // namespace ckptdb::testing
