// SPDX-License-Identifier: Apache-2.0
#include "db/quirks/read_window.h"

#include <rocksdb/env.h>

#include <fstream>

#include "db/base/huge_page.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr size_t kBlock = 4096;
constexpr uint64_t kLong = uint64_t{1} << 40;

std::string Bytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<char>((i * 2654435761u) >> 13);
  return bytes;
}

class WindowTest : public ::testing::Test {
 protected:
  // Expects what a caller gets who wants [offset, offset + bytes).
  void ExpectGets(ReadWindow* window, uint64_t offset, size_t bytes,
                  bool ahead = true) {
    EXPECT_EQ(Get(window, offset, bytes, ahead), Part(offset, bytes)) << offset;
  }
  std::string Get(ReadWindow* window, uint64_t offset, size_t bytes,
                  bool ahead = true) {
    const ReadWindow::Use use(window, ahead);
    const char* found = window->Find(this, offset, bytes);
    if (found == nullptr) {
      found = window->Move(this, offset, bytes, kBlock,
                           [this](uint64_t at, size_t count, char* out) {
                             reads_.emplace_back(at, count);
                             return file_.copy(out, count, at);
                           });
    }
    return found == nullptr ? "none" : std::string(found, bytes);
  }
  std::string Part(uint64_t offset, size_t bytes) const {
    return file_.substr(offset, bytes);
  }
  const std::string file_ = Bytes(3 << 20);
  std::vector<std::pair<uint64_t, size_t>> reads_;
};

TEST_F(WindowTest, ReadsSeveralPiecesAtATime) {
  ReadWindow window(/*ahead_bytes=*/10 * kBlock, kLong);
  for (int piece = 0; piece < 8; ++piece)
    ExpectGets(&window, 100 + piece * kBlock, kBlock);
  // Eight pieces and the rest of the blocks that they lie in.
  EXPECT_THAT(reads_, ElementsAre(Pair(0, 9 * kBlock)));
  ExpectGets(&window, 100 + 8 * kBlock, kBlock);
  EXPECT_EQ(reads_.size(), 2);
}

TEST_F(WindowTest, ReadsNoFurtherThanThePassGoes) {
  ReadWindow window(/*ahead_bytes=*/64 * kBlock, /*pass_bytes=*/3 * kBlock);
  ExpectGets(&window, 0, kBlock);
  EXPECT_THAT(reads_, ElementsAre(Pair(0, 3 * kBlock)));
  // The pass was estimated too short: a piece at a time.
  ExpectGets(&window, 3 * kBlock, kBlock);
  ExpectGets(&window, 4 * kBlock, kBlock);
  EXPECT_THAT(reads_, ElementsAre(Pair(0, 3 * kBlock), Pair(3 * kBlock, kBlock),
                                  Pair(4 * kBlock, kBlock)));
  // Without reading ahead it holds what is asked for.
  reads_.clear();
  ReadWindow alone(64 * kBlock, kLong);
  ExpectGets(&alone, 5 * kBlock, 10, /*ahead=*/false);
  EXPECT_THAT(reads_, ElementsAre(Pair(5 * kBlock, kBlock)));
}

TEST_F(WindowTest, ReadsAtMostAHugePage) {
  ReadWindow window(kLong, kLong);
  const size_t most = kHugePageBytes - 2 * kBlock;
  ExpectGets(&window, 7, most);
  ExpectGets(&window, 9, most - 1);
  ReadWindow another(kLong, kLong);
  EXPECT_EQ(Get(&another, 8, most + 1), "none");
  // A piece larger than the readahead is read alone.
  ReadWindow small(kBlock, kLong);
  ExpectGets(&small, 1, 5 * kBlock);
  ExpectGets(&small, 1 + 5 * kBlock, 300 * kBlock);
  ExpectGets(&small, 3, 2 * kBlock);
  reads_.clear();
  ReadWindow none(0, kLong);
  EXPECT_EQ(Get(&none, 0, kBlock), "none");
  EXPECT_THAT(reads_, IsEmpty());
}

TEST_F(WindowTest, ReadsOneFileAtATimeToItsEnd) {
  ReadWindow window(64 * kBlock, kLong);
  const uint64_t end = file_.size();
  ExpectGets(&window, end - 10, 10);
  EXPECT_EQ(Get(&window, end - 10, 11), "none");
  EXPECT_EQ(Get(&window, end + 1, 1), "none");
  ExpectGets(&window, end - 3, 3);
  ExpectGets(&window, 0, kBlock);
  const int other = 0;
  EXPECT_EQ(window.Find(&other, 0, kBlock), nullptr);
  EXPECT_NE(window.Find(this, 0, kBlock), nullptr);
}

// Four pieces of 64 KiB in a window, of which the first is handed on.
class LendingTest : public WindowTest {
 protected:
  static constexpr size_t kPiece = 16 * kBlock;
  LendingTest() : window_(5 * kPiece, kLong) {
    EXPECT_EQ(Get(&window_, 1, kPiece), Part(1, kPiece));
    window_.Release(1, kPiece);
  }
  ReadWindow window_;
};

TEST_F(LendingTest, LendsWhereTheNextPieceIsOnce) {
  char* const block = window_.LendNext(kPiece);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(window_.LendNext(kPiece), nullptr);
  EXPECT_EQ(window_.first_byte_lent(), block[0]);
  EXPECT_TRUE(window_.Has(block));
  EXPECT_EQ(window_.Find(this, 1 + kPiece, kPiece), block);
  EXPECT_EQ(std::string(block, kPiece), Part(1 + kPiece, kPiece));
  EXPECT_TRUE(ReturnBlock(block));
  EXPECT_FALSE(ReturnBlock(block));
  EXPECT_EQ(reads_.size(), 1);
}

TEST_F(LendingTest, DoesNotLendOtherSizesOrBeyondTheWindow) {
  EXPECT_EQ(window_.LendNext(kPiece - 1), nullptr);
  EXPECT_EQ(window_.LendNext(kPiece + 1), nullptr);
  window_.Release(1 + 2 * kPiece, kPiece);
  char* const last = window_.LendNext(kPiece);
  ASSERT_NE(last, nullptr);
  window_.Release(1 + 3 * kPiece, kPiece);
  EXPECT_EQ(window_.LendNext(kPiece), nullptr);
  EXPECT_TRUE(ReturnBlock(last));
}

TEST_F(LendingTest, WhatWasLentIsNotHandedOnAgain) {
  char* const block = window_.LendNext(kPiece);
  ASSERT_NE(block, nullptr);
  window_.Release(1 + kPiece, kPiece);
  block[7] = static_cast<char>(~block[7]);
  EXPECT_EQ(window_.Find(this, 1 + kPiece, kPiece), nullptr);
  EXPECT_EQ(Get(&window_, 1 + kPiece, kPiece), Part(1 + kPiece, kPiece));
  EXPECT_TRUE(ReturnBlock(block));
}

TEST_F(LendingTest, WhatIsLentStaysWhenTheWindowMovesAndGoes) {
  std::vector<char*> lent;
  {
    ReadWindow window(5 * kPiece, kLong);
    for (uint64_t at = 0; at + kPiece < file_.size(); at += kPiece) {
      char* const block = window.LendNext(kPiece);
      ASSERT_EQ(Get(&window, at, kPiece), Part(at, kPiece));
      window.Release(at, kPiece);
      if (block == nullptr) continue;
      lent.push_back(block);
      EXPECT_EQ(std::string(block, kPiece), Part(at, kPiece));
    }
  }
  EXPECT_GT(lent.size(), 20);
  uint64_t found = 0;
  for (char* const block : lent) {
    // The first of each window was not lent.
    if (found % (4 * kPiece) == 0) found += kPiece;
    EXPECT_EQ(std::string(block, kPiece), Part(found, kPiece)) << found;
    found += kPiece;
    EXPECT_TRUE(ReturnBlock(block));
  }
}

TEST_F(WindowTest, UsesNestAndAreOfTheirThread) {
  ReadWindow outer(kBlock, kLong);
  ReadWindow inner(kBlock, kLong);
  EXPECT_EQ(ReadWindow::InUse(), nullptr);
  {
    const ReadWindow::Use use(&outer, true);
    {
      const ReadWindow::Use nested(&inner, true);
      EXPECT_EQ(ReadWindow::InUse(), &inner);
    }
    EXPECT_EQ(ReadWindow::InUse(), &outer);
  }
  EXPECT_EQ(ReadWindow::InUse(), nullptr);
}

// Files of the machine, opened in both ways.
class WindowedFileTest : public ::testing::Test {
 protected:
  WindowedFileTest() {
    std::ofstream(path_, std::ios::binary) << bytes_;
    file_ = NewWindowedFile(Open(/*direct=*/false), [this] {
      ++opened_;
      return direct_fails_ ? nullptr : Open(/*direct=*/true);
    });
  }
  std::unique_ptr<rocksdb::FSRandomAccessFile> Open(bool direct) const {
    rocksdb::FileOptions options;
    options.use_direct_reads = direct;
    std::unique_ptr<rocksdb::FSRandomAccessFile> file;
    const auto status = rocksdb::FileSystem::Default()->NewRandomAccessFile(
        path_, options, &file, nullptr);
    // A file system without direct reads is one of the cases.
    EXPECT_TRUE(direct || status.ok()) << status.ToString();
    return status.ok() ? std::move(file) : nullptr;
  }
  std::string Read(uint64_t offset, size_t bytes) const {
    std::string scratch(bytes, '\0');
    rocksdb::Slice result;
    const auto status = file_->Read(offset, bytes, rocksdb::IOOptions(),
                                    &result, scratch.data(), nullptr);
    return status.ok() ? result.ToString() : status.ToString();
  }
  void ExpectReads(uint64_t offset, size_t bytes) const {
    EXPECT_EQ(Read(offset, bytes), bytes_.substr(offset, bytes)) << offset;
  }
  // Like RocksDB: allocates memory, then reads into it.
  void ExpectReadsInto(char* block, uint64_t offset, size_t bytes) const {
    rocksdb::Slice result;
    ASSERT_TRUE(
        file_
            ->Read(offset, bytes, rocksdb::IOOptions(), &result, block, nullptr)
            .ok());
    EXPECT_EQ(result.ToString(), bytes_.substr(offset, bytes)) << offset;
    if (lent_there_) {
      EXPECT_EQ(result.data(), block);
    }
  }
  const testing::TempDir folder_;
  const std::string path_ = folder_.path() + "/file";
  const std::string bytes_ = Bytes((5 << 20) + 123);
  bool direct_fails_ = false;
  bool lent_there_ = false;
  int opened_ = 0;
  std::unique_ptr<rocksdb::FSRandomAccessFile> file_;
};

TEST_F(WindowedFileTest, ReadsTheSameWithAndWithoutAWindow) {
  ReadWindow window(uint64_t{1} << 20, kLong);
  for (uint64_t at = 11; at + 70'000 < bytes_.size(); at += 70'000) {
    ExpectReads(at, 70'000);
    const ReadWindow::Use use(&window, true);
    ExpectReads(at, 70'000);
  }
  EXPECT_EQ(opened_, 1);
}

TEST_F(WindowedFileTest, OpensForDirectReadsOnce_WhenFirstWindowReadsAhead) {
  ReadWindow at_once(/*ahead_bytes=*/0, kLong);
  {
    const ReadWindow::Use use(&at_once, true);
    ExpectReads(5, 5);
  }
  EXPECT_EQ(opened_, 0);
  for (uint64_t at = 5; at < 8; ++at) {
    ReadWindow window(uint64_t{1} << 20, kLong);
    const ReadWindow::Use use(&window, true);
    ExpectReads(at, 5);
  }
  EXPECT_EQ(opened_, 1);
}

TEST_F(WindowedFileTest, ReadsIntoWhatWasLent) {
  constexpr size_t kPiece = 70'000;
  ReadWindow window(uint64_t{1} << 20, kLong);
  const ReadWindow::Use use(&window, true);
  lent_there_ = true;
  uint64_t lent = 0;
  for (uint64_t at = 11; at + kPiece < bytes_.size(); at += kPiece) {
    char* const block = window.LendNext(kPiece);
    if (block == nullptr) {
      ExpectReads(at, kPiece);
      continue;
    }
    ++lent;
    ++block[0];
    ExpectReadsInto(block, at, kPiece);
    EXPECT_TRUE(ReturnBlock(block));
  }
  EXPECT_GT(lent, 50);
}

TEST_F(WindowedFileTest, ReadsSomethingElseIntoWhatWasLent) {
  constexpr size_t kPiece = 70'000;
  ReadWindow window(uint64_t{1} << 20, kLong);
  const ReadWindow::Use use(&window, true);
  ExpectReads(0, kPiece);
  char* const block = window.LendNext(kPiece);
  ASSERT_NE(block, nullptr);
  for (const uint64_t at : {uint64_t{5} * kPiece, uint64_t{4} << 20})
    ExpectReadsInto(block, at, kPiece);
  for (uint64_t at = kPiece; at < 5 * kPiece; at += kPiece)
    ExpectReads(at, kPiece);
  EXPECT_TRUE(ReturnBlock(block));
}

TEST_F(WindowedFileTest, ReadsToTheEndAlsoWithoutDirectReads) {
  direct_fails_ = true;
  ReadWindow window(uint64_t{1} << 20, kLong);
  const ReadWindow::Use use(&window, true);
  for (uint64_t at = 0; at + 99'999 < bytes_.size(); at += 99'999)
    ExpectReads(at, 99'999);
  EXPECT_EQ(opened_, 1);
}

TEST_F(WindowedFileTest, ReadsWhatIsThereAtTheEnd) {
  ReadWindow window(uint64_t{1} << 20, kLong);
  const ReadWindow::Use use(&window, true);
  ExpectReads(bytes_.size() - 5, 5);
  ExpectReads(bytes_.size() - 5, 50);
  EXPECT_EQ(Read(bytes_.size() + 5, 50), "");
}

}  // namespace
}  // namespace ckptdb::internal
