// SPDX-License-Identifier: Apache-2.0
// The records of an open store in memory: which saves and folds are in
// progress, what is held, and what a sweep has to know.
#include "db/store/step_catalog.h"

#include "db/store/commit.h"
#include "db/store/sweep_requests.h"
#include "db/store/version_holds.h"
#include "schema/records/records.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::internal {
namespace {

using ::ckptdb::testing::NotFound;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::UnorderedElementsAre;

constexpr int64_t kNow = 1'000'000;

class StepCatalogTest : public ::testing::Test {
 protected:
  static SaveSpec SaveOf(int64_t step) { return {.step = step}; }
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
  EXPECT_THAT(catalog_.FindStep(7), NotFound());
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
  EXPECT_THAT(catalog_.FindStep(7), NotFound());
  EXPECT_EQ(StateOf(version), AttemptState::kRetired);
  EXPECT_TRUE(catalog_.TakeUnflushed());
  EXPECT_FALSE(catalog_.TakeUnflushed());
  catalog_.GiveBackUnflushed();
  EXPECT_TRUE(catalog_.TakeUnflushed());
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

TEST_F(StepCatalogTest, AbandonsFoldsThatNoCallWouldResume) {
  const Version step = Save(7);
  const Version old =
      catalog_.BeginFold(RecordOf(step), kNow, {}).attempt.version;
  catalog_.EndFold();
  catalog_.AbandonFolds({});
  EXPECT_TRUE(catalog_.MayStage(old.attempt)) << "nothing was saved since";
  const Version newest = Save(8);
  EXPECT_TRUE(catalog_.MayStage(old.attempt)) << "no sweep has marked since";
  catalog_.AbandonFolds({});
  EXPECT_FALSE(catalog_.MayStage(old.attempt));
  EXPECT_THAT(catalog_.Mark().whole, UnorderedElementsAre(step, newest));
  EXPECT_NE(catalog_.BeginFold(RecordOf(step), kNow, {}).attempt.version, old);
  catalog_.EndFold();

  const Version ingested =
      catalog_.BeginFold(RecordOf(newest), kNow, {}).attempt.version;
  catalog_.AbandonFolds({{ingested, 4096}});
  EXPECT_TRUE(catalog_.MayStage(ingested.attempt)) << "it is in progress";
  catalog_.EndFold();
  catalog_.AbandonFolds({{ingested, 4096}});
  EXPECT_FALSE(catalog_.MayStage(ingested.attempt));
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
