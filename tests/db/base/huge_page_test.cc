// SPDX-License-Identifier: Apache-2.0
#include "db/base/huge_page.h"

#include <cstring>
#include <thread>

#include "gtest/gtest.h"

namespace ckptdb::internal {
namespace {

size_t OffsetIn(const HugePage& page, size_t bytes) {
  return reinterpret_cast<uintptr_t>(page.data()) % bytes;
}

TEST(HugePageTest, IsAWholePageOrAPart) {
  EXPECT_EQ(HugePage().data(), nullptr);
  EXPECT_EQ(HugePage().bytes(), 0);
  const HugePage whole = HugePage::Take();
  ASSERT_NE(whole.data(), nullptr);
  EXPECT_EQ(whole.bytes(), kHugePageBytes);
  EXPECT_EQ(OffsetIn(whole, kHugePageBytes), 0);
  const HugePage part = HugePage::Take(1);
  ASSERT_NE(part.data(), nullptr);
  EXPECT_EQ(part.bytes(), kHugePartBytes);
  EXPECT_EQ(OffsetIn(part, kDiskBlockBytes), 0);
  EXPECT_EQ(HugePage::Take(kHugePartBytes).bytes(), kHugePartBytes);
  EXPECT_EQ(HugePage::Take(kHugePartBytes + 1).bytes(), kHugePageBytes);
  EXPECT_EQ(HugePage::Take(kHugePageBytes + 1).data(), nullptr);
}

TEST(HugePageTest, MovesItsMemory) {
  HugePage page = HugePage::Take();
  char* const data = page.data();
  HugePage other = std::move(page);
  EXPECT_EQ(other.data(), data);
  EXPECT_EQ(page.data(), nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(page.bytes(), 0);
}

// Each holds what was written to it, whatever comes and goes beside it.
TEST(HugePageTest, PartsDoNotOverlap) {
  std::vector<HugePage> parts;
  const auto add = [&](size_t i) {
    parts[i] = HugePage::Take(kHugePartBytes);
    ASSERT_NE(parts[i].data(), nullptr);
    std::memset(parts[i].data(), static_cast<int>(i), parts[i].bytes());
  };
  const auto check = [&](size_t i) {
    for (const size_t at : {size_t{0}, kHugePartBytes - 1})
      EXPECT_EQ(parts[i].data()[at], static_cast<char>(i)) << i;
  };
  constexpr size_t kParts = 100;
  parts.resize(kParts);
  for (size_t i = 0; i < kParts; ++i) add(i);
  for (size_t i = 0; i < kParts; i += 3) parts[i] = HugePage();
  const HugePage whole = HugePage::Take();
  std::memset(whole.data(), 0x7f, whole.bytes());
  for (size_t i = 0; i < kParts; i += 3) add(i);
  for (size_t i = 0; i < kParts; ++i) check(i);
}

TEST(HugePageTest, ManyThreadsTakeAndReturnPages) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      for (int i = 0; i < 200; ++i) {
        const HugePage part = HugePage::Take(kHugePartBytes - i);
        const HugePage whole = HugePage::Take();
        part.data()[i] = static_cast<char>(thread);
        whole.data()[i] = static_cast<char>(thread);
        EXPECT_EQ(part.data()[i], static_cast<char>(thread));
        EXPECT_EQ(whole.data()[i], static_cast<char>(thread));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ckptdb::internal
