// SPDX-License-Identifier: Apache-2.0
#include "tools/chain_length.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckptdb::tool {
namespace {

using ::testing::HasSubstr;

StepRecord Step(size_t deltas, uint64_t base_bytes, uint64_t delta_bytes) {
  StepRecord record;
  record.chain.resize(deltas + 1);
  record.base_bytes = base_bytes;
  record.delta_bytes = delta_bytes;
  return record;
}

TEST(ChainText, ReportsBytes) {
  EXPECT_EQ(ChainText(Step(0, 10, 0)), "no deltas");
  EXPECT_EQ(ChainText(Step(1, 2048, 10)),
            "1 delta of 10 B over a base of 2.0 KiB");
  EXPECT_EQ(ChainText(Step(2, 2048, 1536)),
            "2 deltas of 1.5 KiB over a base of 2.0 KiB");
}

TEST(DeltaRatio, ComparesDeltasWithTheBase) {
  EXPECT_EQ(DeltaRatio(Step(0, 100, 0)), 0);
  EXPECT_EQ(DeltaRatio(Step(1, 100, 25)), 0.25);
  EXPECT_EQ(NumberJson(DeltaRatio(Step(1, 0, 25))), "inf");
}

TEST(BaseDue, ReportsTheDeltaLimit) {
  const StoreOptions::ChainBounds bounds = {.max_deltas = 3,
                                            .max_delta_ratio = 1.0};
  EXPECT_EQ(BaseDue(Step(2, 100, 1), bounds), "");
  EXPECT_EQ(BaseDue(Step(3, 100, 1), bounds),
            "the chain has 3 deltas; the limit is 3");
}

TEST(BaseDue, ReportsTheByteLimit) {
  const StoreOptions::ChainBounds bounds = {.max_deltas = 3,
                                            .max_delta_ratio = 0.5};
  EXPECT_EQ(BaseDue(Step(1, 100, 50), bounds), "");
  EXPECT_THAT(BaseDue(Step(1, 100, 51), bounds),
              HasSubstr("deltas are 0.51 times the base (51 B over 100 B); the "
                        "limit is 0.50"));
  EXPECT_EQ(BaseDue(Step(0, 0, 0), bounds), "");
}

}  // namespace
}  // namespace ckptdb::tool
