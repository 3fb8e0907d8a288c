// SPDX-License-Identifier: Apache-2.0
#include "schema/types.h"
#include "tests/support/test.h"

#include <cstring>
#include <thread>

namespace ckptdb::testing {
namespace {

std::string Numbered(uint64_t bytes) {
  std::string text(bytes, '\0');
  for (uint64_t i = 0; i < bytes; ++i) {
    text[i] = static_cast<char>(i * 131 + i / 256);
  }
  return text;
}

// Wherever the range begins and ends, exactly its bytes are copied.
TEST(BulkCopyTest, CopiesAnySizeAndAlignment) {
  constexpr uint64_t kEdge = 128;
  const std::string from = Numbered(20000);
  for (const uint64_t bytes : {0, 1, 63, 4095, 4096, 4097, 4160, 8192, 19999}) {
    for (uint64_t shift = 0; shift < 64; ++shift) {
      const uint64_t from_shift = shift % 7 == 0 ? 0 : shift * 11 % 64;
      if (from_shift + bytes > from.size()) continue;
      std::string to(kEdge + bytes + kEdge, '#');
      BulkCopy(to.data() + shift, from.data() + from_shift, bytes);
      std::string expected(to.size(), '#');
      std::memcpy(expected.data() + shift, from.data() + from_shift, bytes);
      ASSERT_EQ(to, expected) << bytes << " bytes, shift " << shift;
    }
  }
}

TEST(BulkCopyTest, IsVisibleToOtherThreads) {
  const std::string from = Numbered(1 << 20);
  std::string to(from.size(), '\0');
  std::thread copier([&] { BulkCopy(to.data(), from.data(), from.size()); });
  copier.join();
  EXPECT_EQ(to, from);
}

}  // namespace
}  // namespace ckptdb::testing
