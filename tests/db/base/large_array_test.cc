// SPDX-License-Identifier: Apache-2.0
#include "db/base/large_array.h"

#include <cstring>
#include <thread>

#include "db/base/huge_page.h"
#include "gtest/gtest.h"
#include "tests/support/seed.h"

namespace ckptdb::internal {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(LargeArrayTest, EverySizeCanBeWritten) {
  for (const uint64_t bytes :
       {uint64_t{0}, uint64_t{1}, kHugePageBytes - 1, uint64_t{kHugePageBytes},
        kHugePageBytes + 1, 33 * kMiB}) {
    const LargeArray<char> array = AllocateArray<char>(bytes);
    ASSERT_NE(array, nullptr) << bytes;
    EXPECT_GE(array.get_deleter().bytes, bytes);
    std::memset(array.get(), 1, bytes);
  }
}

TEST(LargeArrayTest, TooLargeASizeReturnsNull) {
  constexpr auto kMost = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(AllocateArray<char>(kMost), nullptr);
  EXPECT_EQ(AllocateArray<uint64_t>(kMost / 8 + 1), nullptr);
  EXPECT_EQ(AllocateArray<uint64_t>(kMost / 16), nullptr);
  EXPECT_NE(AllocateArray<uint64_t>(3 * kMiB), nullptr);
}

// The next that is as large, or a little larger or smaller, has the memory of
// the one before.
TEST(LargeArrayTest, MemoryIsUsedAgain) {
  LargeArray<char> array = AllocateArray<char>(200 * kMiB);
  ASSERT_NE(array, nullptr);
  char* const memory = array.get();
  for (const uint64_t bytes : {200 * kMiB, 201 * kMiB, 150 * kMiB}) {
    array.reset();
    array = AllocateArray<char>(bytes);
    EXPECT_EQ(array.get(), memory) << bytes;
  }
  // Not for much less: the rest would lie idle.
  array.reset();
  array = AllocateArray<char>(20 * kMiB);
  EXPECT_NE(array.get(), memory);
}

// However sizes change, no more is held than was once in use together.
TEST(LargeArrayTest, KeepsNoMoreThanWasInUse) {
  std::mt19937_64 random(testing::TestSeed());
  std::vector<LargeArray<char>> arrays(4);
  uint64_t used = 0;
  uint64_t most_used = GetLargeUsage().most_used_bytes;
  for (int i = 0; i < 2000; ++i) {
    LargeArray<char>& array = arrays[random() % arrays.size()];
    if (array != nullptr) used -= array.get_deleter().bytes;
    array.reset();
    if (random() % 3 != 0) {
      array = AllocateArray<char>((2 + random() % 64) * kMiB);
      ASSERT_NE(array, nullptr);
      array[0] = 1;
      used += array.get_deleter().bytes;
    }
    most_used = std::max(most_used, used);
    const LargeUsage usage = GetLargeUsage();
    ASSERT_EQ(usage.used_bytes, used);
    ASSERT_EQ(usage.most_used_bytes, most_used);
    ASSERT_LE(usage.used_bytes + usage.kept_bytes, most_used);
  }
}

TEST(LargeArrayTest, ThreadsHaveArraysOfTheirOwn) {
  const auto work = [](char value) {
    for (int i = 0; i < 50; ++i) {
      const uint64_t bytes = (3 + i % 5) * kMiB;
      const LargeArray<char> array = AllocateArray<char>(bytes);
      ASSERT_NE(array, nullptr);
      std::memset(array.get(), value, bytes);
      for (uint64_t at = 0; at < bytes; at += 4096) ASSERT_EQ(array[at], value);
    }
  };
  std::vector<std::thread> threads;
  for (char value = 1; value <= 4; ++value) threads.emplace_back(work, value);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ckptdb::internal
