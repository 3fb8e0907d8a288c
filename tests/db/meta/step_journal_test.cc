// SPDX-License-Identifier: Apache-2.0
#include "db/meta/step_journal.h"

#include <gmock/gmock.h>

namespace ckptdb::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(StepJournalTest, TellsWhatWasAddedSince) {
  StepJournal journal;
  const ChangedSteps first = journal.Since(0);
  EXPECT_TRUE(first.all);
  journal.Add(7);
  journal.Add(-1);
  const ChangedSteps second = journal.Since(first.until);
  EXPECT_FALSE(second.all);
  EXPECT_THAT(second.steps, ElementsAre(7, -1));
  EXPECT_THAT(journal.Since(second.until).steps, IsEmpty());
}

TEST(StepJournalTest, WhatIsTooLongAgoIsAll) {
  StepJournal journal;
  const uint64_t start = journal.Since(0).until;
  for (size_t i = 0; i < StepJournal::kSteps; ++i) journal.Add(1);
  EXPECT_THAT(journal.Since(start).steps, SizeIs(StepJournal::kSteps));
  EXPECT_FALSE(journal.Since(start).all);
  journal.Add(1);
  EXPECT_TRUE(journal.Since(start).all);
  EXPECT_THAT(journal.Since(start).steps, IsEmpty());
  EXPECT_FALSE(journal.Since(start + 1).all);
}

TEST(StepJournalTest, ALookOfAnotherHandleIsAll) {
  const StepJournal journal;
  EXPECT_TRUE(journal.Since(1000).all);
}

}  // namespace
}  // namespace ckptdb::internal
