// SPDX-License-Identifier: Apache-2.0
// The records of an open store in memory: which saves and folds are in
// progress, what is held, and what a sweep has to know.
#include "db/store/step_catalog.h"

#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "db/store/commit.h"
#include "db/store/sweep_requests.h"
#include "db/store/version_holds.h"
#include "schema/records/records.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::internal {
namespace {

using ::ckptdb::testing::StatusIs;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::UnorderedElementsAre;

constexpr int64_t kNow = 1'000'000;

class StepCatalogTest : public ::testing::Test {
 protected:
  static SaveSpec SaveOf(int64_t step) {
    SaveSpec spec;
    spec.step = step;
    return spec;
  }
  static StepRecord RecordOf(const Version& version) {
    StepRecord record;
    record.version = version;
    record.chain = {version};
    record.branches = {{version.attempt, version.attempt}};
    return record;
  }

  Version Begin(int64_t step) {
    const auto begun = catalog_.BeginSave(SaveOf(step), kNow);
    EXPECT_OK(begun);
    return begun.ok() ? begun->attempt.version : Version();
  }
  Version Save(int64_t step) {
    Commit commit;
    commit.step = RecordOf(Begin(step));
    const Version version = commit.step.version;
    catalog_.ApplyCommit(std::move(commit));
    return version;
  }
  AttemptState StateOf(const Version& version) const {
    return catalog_.Mark().attempts.at(version.attempt).state;
  }

  SweepRequests requests_;
  VersionHolds holds_{&requests_};
  StepCatalog catalog_{"the/store", Catalog(), &holds_};
};

TEST_F(StepCatalogTest, ErrorsNameTheStore) {
  EXPECT_THAT(catalog_.FindStep(7),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("the/store: ")));
  EXPECT_THAT(catalog_.Latest(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("the/store: ")));
}

TEST_F(StepCatalogTest, ASaveIsInProgressUntilItsCommit) {
  const Version version = Begin(7);
  const auto save = catalog_.FindSave(version);
  ASSERT_OK(save);
  EXPECT_EQ(save->spec.step, 7);
  EXPECT_EQ(save->begun_at_micros, kNow);
  EXPECT_TRUE(catalog_.MayStage(version.attempt));
  EXPECT_EQ(StateOf(version), AttemptState::kBegun);
  Commit commit;
  commit.step = RecordOf(version);
  catalog_.ApplyCommit(std::move(commit));
  EXPECT_THAT(catalog_.FindSave(version),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("is not a save in progress")));
  EXPECT_FALSE(catalog_.MayStage(version.attempt));
  EXPECT_EQ(StateOf(version), AttemptState::kCommitted);
  EXPECT_EQ(catalog_.Latest()->version, version);
}

TEST_F(StepCatalogTest, ASaveIsFoundByItsStepAndItsAttempt) {
  const Version version = Begin(7);
  const Version other = {8, version.attempt};
  EXPECT_THAT(catalog_.FindSave(other),
              StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_THAT(catalog_.EndSave(other),
              StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_OK(catalog_.EndSave(version));
  EXPECT_THAT(catalog_.EndSave(version),
              StatusIs(absl::StatusCode::kNotFound, _));
}

TEST_F(StepCatalogTest, AttemptsAreNumberedOnAlsoAfterASaveThatEnded) {
  const Version first = Begin(7);
  ASSERT_OK(catalog_.EndSave(first));
  const auto second = catalog_.BeginSave(SaveOf(7), kNow);
  ASSERT_OK(second);
  EXPECT_EQ(second->attempt.version.attempt, first.attempt + 1);
  EXPECT_EQ(second->root.next_attempt, first.attempt + 2);
}

TEST_F(StepCatalogTest, AStepThatIsThereIsNotAvailableUnlessItIsOverwritten) {
  Save(7);
  EXPECT_THAT(catalog_.CheckStepAvailable(SaveOf(7)),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       HasSubstr("set SaveSpec::overwrite")));
  EXPECT_OK(catalog_.CheckStepAvailable(SaveOf(8)));
  SaveSpec overwrites = SaveOf(7);
  overwrites.overwrite = true;
  EXPECT_OK(catalog_.CheckStepAvailable(overwrites));
}

TEST_F(StepCatalogTest, ASaveHoldsItsParentUntilItEnds) {
  const Version parent = Save(7);
  const Version one = Begin(8);
  const Version other = Begin(9);
  EXPECT_THAT(holds_.versions(), ElementsAre(parent));
  ASSERT_OK(catalog_.EndSave(one));
  EXPECT_THAT(holds_.versions(), ElementsAre(parent));
  catalog_.EndAllSaves();
  EXPECT_THAT(holds_.versions(), IsEmpty());
  EXPECT_FALSE(catalog_.MayStage(other.attempt));
}

TEST_F(StepCatalogTest, ACommitRetiresWhatItNames) {
  const Version first = Save(7);
  const Version second = Save(8);
  Commit commit;
  commit.step = RecordOf(Begin(8));  // takes the place of `second`
  commit.retired = {RecordOf(first), RecordOf(second)};
  commit.removed_steps = {7};
  const Version third = commit.step.version;
  catalog_.ApplyCommit(std::move(commit));
  EXPECT_THAT(catalog_.FindStep(7), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_EQ(catalog_.FindStep(8)->version, third);
  EXPECT_EQ(StateOf(first), AttemptState::kRetired);
  EXPECT_EQ(StateOf(second), AttemptState::kRetired);
  catalog_.Read([&](const Catalog& records) {
    EXPECT_THAT(records.retired, UnorderedElementsAre(Key(first), Key(second)));
  });
  EXPECT_FALSE(catalog_.TakeUnflushed()) << "a commit is flushed by itself";
}

TEST_F(StepCatalogTest, ADeletionIsUnflushedOnce) {
  const Version version = Save(7);
  catalog_.ApplyDeletion(RecordOf(version));
  EXPECT_THAT(catalog_.FindStep(7), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_EQ(StateOf(version), AttemptState::kRetired);
  EXPECT_TRUE(catalog_.TakeUnflushed());
  EXPECT_FALSE(catalog_.TakeUnflushed());
  catalog_.GiveBackUnflushed();
  EXPECT_TRUE(catalog_.TakeUnflushed());
}

TEST_F(StepCatalogTest, HeldStepsAreMarkedAfterTheyWereRetired) {
  const Version version = Save(7);
  auto held = catalog_.HoldStep(7);
  ASSERT_OK(held);
  catalog_.ApplyDeletion(held->record);
  EXPECT_THAT(catalog_.Mark().whole, IsEmpty());
  EXPECT_THAT(catalog_.Mark().held, ElementsAre(version));
  held->hold.reset();
  EXPECT_THAT(catalog_.Mark().held, IsEmpty());
}

TEST_F(StepCatalogTest, AHoldThatCannotBePlannedHoldsNothing) {
  Save(7);
  EXPECT_THAT(catalog_.HoldStep(8), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_THAT(catalog_.HoldChain(8, HeldBy::kReader),
              StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_THAT(holds_.versions(), IsEmpty());
  EXPECT_EQ(holds_.readers(), 0);
}

TEST_F(StepCatalogTest, MarksKnowSavesStepsAndWhatTheyBorrow) {
  const Version parent = Save(7);
  Commit commit;
  commit.step = RecordOf(Begin(8));
  commit.step.chain = {parent, commit.step.version};
  const Version child = commit.step.version;
  catalog_.ApplyCommit(std::move(commit));
  const Version in_progress = Begin(9);
  EXPECT_THAT(catalog_.Mark().whole, ElementsAre(parent, child, in_progress));
  EXPECT_THAT(catalog_.Mark().borrowers, IsEmpty());
  catalog_.ApplyDeletion(RecordOf(parent));
  const CatalogMarks marks = catalog_.Mark();
  EXPECT_THAT(marks.whole, ElementsAre(child, in_progress));
  ASSERT_EQ(marks.borrowers.size(), 1);
  EXPECT_EQ(marks.borrowers[0].version, child);
}

TEST_F(StepCatalogTest, AFoldThatWasCutShortGoesOnWhileItsStepIsTheSame) {
  const Version step = Save(7);
  const BegunAttempt begun = catalog_.BeginFold(RecordOf(step), kNow, {});
  EXPECT_EQ(begun.attempt.folds, step.attempt);
  const uint32_t attempt = begun.attempt.version.attempt;
  catalog_.EndFold();
  EXPECT_TRUE(catalog_.MayStage(attempt)) << "it can go on";
  const BegunAttempt again = catalog_.BeginFold(RecordOf(step), kNow, {});
  EXPECT_EQ(again.attempt, begun.attempt);
  // While it is under way its files are kept, also those of a step that goes.
  catalog_.ApplyDeletion(RecordOf(step));
  EXPECT_TRUE(catalog_.MayStage(attempt));
  EXPECT_THAT(catalog_.Mark().whole, ElementsAre(begun.attempt.version));
  catalog_.EndFold();
  EXPECT_FALSE(catalog_.MayStage(attempt));
  EXPECT_THAT(catalog_.Mark().whole, IsEmpty());
}

TEST_F(StepCatalogTest, AFoldWhoseFilesWereIngestedIsNotTakenAgain) {
  const Version step = Save(7);
  const Version first =
      catalog_.BeginFold(RecordOf(step), kNow, {}).attempt.version;
  catalog_.EndFold();
  const BegunAttempt second =
      catalog_.BeginFold(RecordOf(step), kNow, {{first, 4096}});
  EXPECT_EQ(second.attempt.version.attempt, first.attempt + 1);
}

TEST_F(StepCatalogTest, HoldAllHasWhatIsInProgressAndHoldsEachStep) {
  const Version step = Save(7);
  const Version save = Begin(8);
  catalog_.BeginFold(RecordOf(step), kNow, {});
  const HeldCatalog held = catalog_.HoldAll();
  EXPECT_THAT(held.records.steps, ElementsAre(Key(7)));
  EXPECT_THAT(held.in_progress, ElementsAre(save.attempt, save.attempt + 1));
  catalog_.EndAllSaves();
  EXPECT_THAT(holds_.versions(), ElementsAre(step));
}

TEST_F(StepCatalogTest, WhatASweepRemovedIsForgotten) {
  const Version version = Save(7);
  catalog_.ApplyDeletion(RecordOf(version));
  catalog_.Forget({version});
  EXPECT_THAT(catalog_.Mark().attempts, IsEmpty());
  catalog_.Read(
      [](const Catalog& records) { EXPECT_THAT(records.retired, IsEmpty()); });
}

}  // namespace
}  // namespace ckptdb::internal
