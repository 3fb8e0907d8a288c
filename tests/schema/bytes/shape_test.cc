// SPDX-License-Identifier: Apache-2.0
#include "schema/bytes/shape.h"

#include <limits>
#include <random>

#include "schema/types.h"
#include "tests/support/seed.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

int64_t CountOf(const Shape& shape, uint32_t element_bytes) {
  const auto count = ElementCount(shape, element_bytes);
  EXPECT_OK(count);
  return count.value_or(-1);
}

TEST(ElementCount, CountsElements) {
  EXPECT_EQ(CountOf({}, 4), 1);
  EXPECT_EQ(CountOf({0}, 4), 0);
  EXPECT_EQ(CountOf({5}, 4), 5);
  EXPECT_EQ(CountOf({2, 3, 4}, 8), 24);
  EXPECT_EQ(CountOf({kMax, kMax, 0}, 8), 0);
}

TEST(ElementCount, BytesAtBelowAndAboveTheLimit) {
  EXPECT_EQ(CountOf({kMax - 1}, 1), kMax - 1);
  EXPECT_EQ(CountOf({kMax}, 1), kMax);
  EXPECT_EQ(CountOf({kMax / 8}, 8), kMax / 8);
  EXPECT_THAT(ElementCount(Shape{kMax / 8 + 1}, 8),
              InvalidArgument("shape [1152921504606846976] of 8-byte elements "
                              "exceeds 2^63 - 1 bytes"));
  EXPECT_THAT(ElementCount(Shape{int64_t{1} << 32, int64_t{1} << 31}, 1),
              InvalidArgument("exceeds 2^63 - 1 bytes"));
}

TEST(ElementCount, DimensionsAtBelowAndAboveTheLimit) {
  EXPECT_EQ(CountOf(Shape(kMaxDimensions - 1, 1), 4), 1);
  EXPECT_EQ(CountOf(Shape(kMaxDimensions, 1), 4), 1);
  EXPECT_THAT(ElementCount(Shape(kMaxDimensions + 1, 1), 4),
              InvalidArgument("shape has 65 dimensions; the limit is 64"));
}

TEST(ElementCount, RejectsNegativeDimensionsOfEmptyTensorsToo) {
  EXPECT_THAT(ElementCount(Shape{3, -1}, 4),
              InvalidArgument("shape [3, -1] has a negative dimension"));
  EXPECT_THAT(ElementCount(Shape{0, -1}, 4),
              InvalidArgument("negative dimension"));
}

TEST(CheckBoxWithin, AtAndOverEachEdge) {
  const Shape global = {4, 6};
  EXPECT_OK(CheckBoxWithin({{0, 0}, {4, 6}}, global));
  EXPECT_OK(CheckBoxWithin({{3, 5}, {1, 1}}, global));
  EXPECT_OK(CheckBoxWithin({{4, 6}, {0, 0}}, global));
  EXPECT_OK(CheckBoxWithin({{}, {}}, {}));
  for (const Box& box : std::vector<Box>{{{0, 1}, {4, 6}},
                                         {{1, 0}, {4, 6}},
                                         {{-1, 0}, {1, 1}},
                                         {{0, 0}, {-1, 1}},
                                         {{5, 0}, {0, 0}},
                                         {{0}, {4, 6}},
                                         {{0, 0}, {4}},
                                         {{kMax, 0}, {kMax, 1}},
                                         {{0, 0, 0}, {4, 6, 1}}}) {
    EXPECT_THAT(
        CheckBoxWithin(box, global),
        InvalidArgument("shape " + ToString(box.shape) + " at offset " +
                        ToString(box.offset) + " is not within [4, 6]"));
  }
  EXPECT_THAT(CheckBoxWithin({{0}, {0}}, Shape{-1}),
              InvalidArgument("not within [-1]"));
}

TEST(Intersect, ReturnsTheCommonBox) {
  Box both;
  ASSERT_TRUE(Intersect({{0, 2}, {4, 4}}, {{2, 0}, {4, 3}}, &both));
  EXPECT_EQ(both, (Box{{2, 2}, {2, 1}}));
  EXPECT_FALSE(Intersect({{0}, {2}}, {{2}, {2}}, &both));
  EXPECT_FALSE(Intersect({{0}, {0}}, {{0}, {2}}, &both));
  ASSERT_TRUE(Intersect({{}, {}}, {{}, {}}, &both));
  EXPECT_EQ(both, Box{});
}

TEST(Intersect, MatchesAComparisonByElement) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 2000; ++i) {
    const auto draw = [&](int64_t n) {
      return static_cast<int64_t>(random() % n);
    };
    const Box a{{draw(6)}, {draw(5)}};
    const Box b{{draw(6)}, {draw(5)}};
    int64_t first = -1;
    int64_t count = 0;
    for (int64_t at = 0; at < 12; ++at) {
      const auto in = [&](const Box& box) {
        return box.offset[0] <= at && at < box.offset[0] + box.shape[0];
      };
      if (!in(a) || !in(b)) continue;
      if (count++ == 0) first = at;
    }
    Box both;
    ASSERT_EQ(Intersect(a, b, &both), count > 0);
    if (count > 0) {
      ASSERT_EQ(both, (Box{{first}, {count}}));
    }
  }
}

}  // namespace
}  // namespace ckptdb::testing
