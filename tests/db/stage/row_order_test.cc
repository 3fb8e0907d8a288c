// SPDX-License-Identifier: Apache-2.0
// RowOrder sorts rows by slice and id, whether ids share few slices or many.
#include "db/stage/row_order.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "db/base/own_rows.h"
#include "db/state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schema/bytes/keys.h"
#include "schema/types.h"
#include "tests/support/seed.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::internal {
namespace {

// Exceeds both the number of rows that are sorted by comparison and the size of
// the largest group that is sorted by slice.
constexpr size_t kRows = 100'000;

enum class Ids { kAscending, kMixed, kOfOneSlice, kOfOneGroup, kNegative };

struct Case {
  Ids ids;
  SliceHash hash;
};

int64_t IdAt(Ids ids, int64_t i) {
  switch (ids) {
    case Ids::kOfOneSlice:
      return i * kSlices;
    case Ids::kOfOneGroup:
      return i / 200 * kSlices + i % 200;
    case Ids::kNegative:
      return -1 - i;
    default:
      return i;
  }
}

class RowOrderTest : public ::testing::TestWithParam<Case> {
 protected:
  std::vector<int64_t> MakeIds() {
    std::vector<int64_t> ids(kRows);
    for (size_t i = 0; i < kRows; ++i) {
      ids[i] = IdAt(GetParam().ids, static_cast<int64_t>(i));
    }
    if (GetParam().ids != Ids::kAscending) {
      std::shuffle(ids.begin(), ids.end(), random_);
    }
    return ids;
  }

  absl::StatusOr<std::unique_ptr<RowOrder>> Order(
      const std::vector<int64_t>& ids) {
    const RowSource::Arrays rows(ids, {});
    RankState::Table table;
    table.name = "user";
    table.rows = &rows;
    table.slice_hash = GetParam().hash;
    return RowOrder::Build(table, OwnRows(), /*threads=*/3);
  }

  std::mt19937_64 random_{testing::TestSeed()};
};

TEST_P(RowOrderTest, RowsAreOrderedBySliceAndId) {
  const std::vector<int64_t> ids = MakeIds();
  ASSERT_OK_AND_ASSIGN(const auto order, Order(ids));
  ASSERT_EQ(order->rows(), kRows);
  std::vector<bool> seen(kRows);
  RowPosition last;
  // Threads request pages that cut groups, in any order.
  for (const auto& [begin, end] :
       {std::pair<size_t, size_t>{kRows / 3, kRows}, {0, kRows / 3}}) {
    ASSERT_OK_AND_ASSIGN(const absl::Span<const RowRef> rows,
                         order->Sorted(begin, end));
    ASSERT_EQ(rows.size(), end - begin);
    for (size_t i = 0; i < rows.size(); ++i) {
      ASSERT_EQ(static_cast<uint64_t>(ids.at(rows[i].row)), rows[i].id);
      ASSERT_FALSE(seen.at(rows[i].row));
      seen.at(rows[i].row) = true;
      if (i > 0) {
        ASSERT_LT(last, order->PositionOf(rows[i]));
      }
      last = order->PositionOf(rows[i]);
    }
  }
}

TEST_P(RowOrderTest, ADuplicateIdIsFound) {
  std::vector<int64_t> ids = MakeIds();
  ids[kRows / 2] = ids[7];
  ASSERT_OK_AND_ASSIGN(const auto order, Order(ids));
  EXPECT_THAT(order->Sorted(0, kRows),
              testing::InvalidArgument(absl::StrCat("duplicate id ", ids[7])));
}

INSTANTIATE_TEST_SUITE_P(
    Ids, RowOrderTest,
    ::testing::Values(Case{Ids::kAscending, SliceHash::kModulo},
                      Case{Ids::kAscending, SliceHash::kMix},
                      Case{Ids::kMixed, SliceHash::kMix},
                      Case{Ids::kOfOneSlice, SliceHash::kModulo},
                      Case{Ids::kOfOneGroup, SliceHash::kModulo},
                      Case{Ids::kNegative, SliceHash::kModulo}));

}  // namespace
}  // namespace ckptdb::internal
