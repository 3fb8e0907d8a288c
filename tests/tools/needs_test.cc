// SPDX-License-Identifier: Apache-2.0
// What steps need of one another, and the length of their chains.
#include "tools/needs.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/chain_length.h"

namespace ckptdb::tool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

StepRecord Step(Version version, std::vector<Version> chain) {
  StepRecord record;
  record.version = version;
  record.chain = std::move(chain);
  return record;
}

TEST(NeedsOf, ReturnsStepsAndWhatTheyNeed) {
  const Version old = {100, 1};
  StepRecord chained = Step({200, 2}, {old, {200, 2}});
  chained.references = {old};
  StepRecord folded = Step({100, 5}, {{100, 5}});
  folded.folded = true;
  folded.folded_from = old;
  const std::vector<StepRecord> steps = {folded, chained,
                                         Step({300, 3}, {{300, 3}})};
  const Needs needs = NeedsOf(old, steps);
  EXPECT_THAT(needs.in_chain_of, ElementsAre(200));
  EXPECT_THAT(needs.referenced_by, ElementsAre(200));
  EXPECT_THAT(needs.folded_into, ElementsAre(100));
  EXPECT_EQ(NeedsText(needs),
            "runs of step 200; tensors of step 200; increment of step 100");
}

TEST(NeedsOf, ExcludesTheStepItself) {
  const std::vector<StepRecord> steps = {Step({100, 1}, {{100, 1}})};
  const Needs needs = NeedsOf({100, 1}, steps);
  EXPECT_THAT(needs.in_chain_of, IsEmpty());
  EXPECT_EQ(NeedsText(needs), "-");
}

TEST(StepsText, AbbreviatesLongLists) {
  EXPECT_EQ(StepsText({7}), "step 7");
  EXPECT_EQ(StepsText({1, 2, 3, 4, 5}), "steps 1, 2, 3, 4, 5");
  EXPECT_EQ(StepsText({1, 2, 3, 4, 5, 6}), "steps 1, 2, 3, 4 and 2 more");
}

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
