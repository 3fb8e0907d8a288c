// SPDX-License-Identifier: Apache-2.0
#include "tools/needs.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ckptdb::tool {
namespace {

using ::testing::ElementsAre;
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

}  // namespace
}  // namespace ckptdb::tool
