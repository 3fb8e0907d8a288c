// SPDX-License-Identifier: Apache-2.0
// Which blocks of rows a trainer may give.
#include "db/base/row_block.h"

#include <array>

#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

const std::vector<Slot> kBlockSlots = {{"a", DType::kF32, 2}};

TEST(RowBlock, RowsThatLieAnywhere) {
  std::array<float, 6> values = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> ids = {7, 8};
  const std::vector<const void*> places = {&values[3], &values[0]};
  const RowBlock::SlotValues rows = {.places = places,
                                     .offset_bytes = sizeof(float)};
  const RowBlock block = {ids, {&rows, 1}};
  EXPECT_OK(internal::CheckRowBlock(0, block, kBlockSlots));
  EXPECT_EQ(rows.At(block.RowAt(0)), reinterpret_cast<char*>(&values[4]));
  EXPECT_EQ(rows.At(block.RowAt(1)), reinterpret_cast<char*>(&values[1]));
}

TEST(RowBlock, APlaceForEachIdAndNoRows) {
  const std::array<float, 2> value = {};
  const std::vector<int64_t> ids = {7, 8};
  const std::vector<const void*> places = {value.data()};
  const RowBlock::SlotValues rows = {.places = places};
  EXPECT_THAT(internal::CheckRowBlock(3, {ids, {&rows, 1}}, kBlockSlots),
              InvalidArgument("block 3 has 1 places of slot \"a\", and 2 ids"));
  const std::vector<uint32_t> numbers = {0};
  EXPECT_THAT(internal::CheckRowBlock(
                  4, {absl::MakeConstSpan(ids).subspan(1), {&rows, 1}, numbers},
                  kBlockSlots),
              InvalidArgument(
                  "block 4 has both places of slot \"a\" and RowBlock::rows"));
}

}  // namespace
}  // namespace ckptdb::testing
