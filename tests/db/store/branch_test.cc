// SPDX-License-Identifier: Apache-2.0
// The step that a save goes on from, and what becomes of those after it.
#include <gmock/gmock.h>

#include "tests/db/delta_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class BranchTest : public DeltaFixture {
 protected:
  // Steps 10 (whole), 20 and 30 (deltas).
  void SetUp() override {
    DeltaFixture::SetUp();
    content_ = UserContent({1, 2, 3});
    for (const int64_t step : {10, 20, 30}) {
      rows()[step] = RowOf(step, 0);
      rows().erase(step - 10);
      SaveNext(step);
      versions_[step] = *parent_;
    }
  }
  // The trainer has restored a step, and writes one row.
  absl::StatusOr<SaveResult> Branch(int64_t from, int64_t step,
                                    SaveSpec::Abandoned abandoned,
                                    bool overwrite = false) {
    content_ = history_.at(from);
    rows()[step] = RowOf(step, 7);
    const HeldChanges held(content_,
                           ChangesBetween(history_.at(from), content_),
                           /*whole=*/false);
    SaveSpec spec{.step = step, .overwrite = overwrite};
    spec.parent = versions_.at(from);
    spec.abandoned = abandoned;
    absl::StatusOr<SaveResult> result = store_->Save(spec, held.state());
    if (result.ok()) {
      versions_[step] = result->version;
      history_[step] = content_;
    }
    return result;
  }
  void ExpectParentRefused(const SaveSpec& spec, absl::StatusCode code,
                           const std::string& words) {
    EXPECT_THAT(store_->Begin(spec),
                StatusIs(code, AllOf(HasSubstr(words), HasSubstr("/store"))));
    EXPECT_THAT(ListSteps(), ElementsAre(10, 20, 30));
  }
  void ExpectSteps(const std::vector<int64_t>& steps) {
    EXPECT_EQ(ListSteps(), steps);
    for (const int64_t step : steps) {
      ExpectRows(step, history_.at(step), {0, 10, 20, 30, 40, 50});
    }
  }

  std::map<int64_t, Version> versions_;
};

TEST_F(BranchTest, UnknownParent) {
  const auto code = absl::StatusCode::kFailedPrecondition;
  ExpectParentRefused({.step = 40, .parent = Version{25, 2}}, code,
                      "parent step 25 attempt 2 is not a committed step");
  ExpectParentRefused({.step = 40, .parent = Version{30, 77}}, code,
                      "parent step 30 attempt 77 is not a committed step");
  const Version old = versions_[30];
  ASSERT_OK(store_->Delete(30));
  ASSERT_OK(Branch(20, 30, SaveSpec::Abandoned::kRefuse));
  ExpectParentRefused({.step = 40, .parent = old}, code, ToString(old));
}

TEST_F(BranchTest, QuarantinedParent) {
  ASSERT_OK(store_->Quarantine(30));
  ExpectParentRefused({.step = 40, .parent = versions_[30]},
                      absl::StatusCode::kFailedPrecondition, "is quarantined");
  // A trainer that falls back to the step before it need not say a word.
  ASSERT_OK(Branch(20, 40, SaveSpec::Abandoned::kRefuse));
  ExpectSteps({10, 20, 30, 40});
}

TEST_F(BranchTest, ParentAfterTheStep) {
  ExpectParentRefused({.step = 25, .parent = versions_[30]},
                      absl::StatusCode::kInvalidArgument,
                      "step 25 is before its parent, step 30");
}

TEST_F(BranchTest, RefusesAParentThatIsNotTheNewest) {
  ExpectParentRefused({.step = 40, .parent = versions_[20]},
                      absl::StatusCode::kFailedPrecondition,
                      "is not the newest: " + ToString(versions_[30]));
  ExpectParentRefused({.step = 40, .parent = versions_[10]},
                      absl::StatusCode::kFailedPrecondition,
                      "set SaveSpec::abandoned");
}

TEST_F(BranchTest, NewestIsTheOneSavedLast) {
  ASSERT_OK(Branch(10, 15, SaveSpec::Abandoned::kKeep));
  ASSERT_OK_AND_ASSIGN(const StepRecord latest, store_->Latest());
  EXPECT_EQ(latest.version.step, 15);
  EXPECT_THAT(Branch(30, 40, SaveSpec::Abandoned::kRefuse),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr(ToString(versions_[15]))));
  ASSERT_OK(Branch(15, 16, SaveSpec::Abandoned::kRefuse));
  ExpectSteps({10, 15, 16, 20, 30});
}

TEST_F(BranchTest, KeptBranchesCanBeRead) {
  ASSERT_OK(Branch(20, 40, SaveSpec::Abandoned::kKeep));
  ASSERT_OK(Branch(10, 50, SaveSpec::Abandoned::kKeep));
  ASSERT_OK(store_->Sweep());
  Reopen();
  ExpectSteps({10, 20, 30, 40, 50});
  ASSERT_OK_AND_ASSIGN(const StepRecord fifty, store_->FindStep(50));
  EXPECT_THAT(fifty.chain, ElementsAre(versions_[10], versions_[50]));
  for (const int64_t step : {10, 20, 30}) ASSERT_OK(store_->Delete(step));
  ASSERT_OK(store_->Sweep());
  Reopen();
  ExpectSteps({40, 50});
}

TEST_F(BranchTest, RemovedBranchGoesWithTheCommit) {
  ASSERT_OK(Branch(10, 40, SaveSpec::Abandoned::kRemove));
  ExpectSteps({10, 40});
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_THAT(swept.swept_versions, ElementsAre(versions_[20], versions_[30]));
  Reopen();
  ExpectSteps({10, 40});
}

TEST_F(BranchTest, OnlyDescendantsAreRemoved) {
  ASSERT_OK(Branch(10, 15, SaveSpec::Abandoned::kKeep));
  ASSERT_OK(Branch(15, 16, SaveSpec::Abandoned::kKeep));
  ASSERT_OK(Branch(20, 25, SaveSpec::Abandoned::kRemove));
  ExpectSteps({10, 15, 16, 20, 25});
}

// Also those whose way to it leads over steps that are gone.
TEST_F(BranchTest, DescendantsOverRetiredSteps) {
  ASSERT_OK(store_->Delete(20));
  ASSERT_OK(store_->Sweep());
  Reopen();
  ASSERT_OK(Branch(10, 40, SaveSpec::Abandoned::kRemove));
  ExpectSteps({10, 40});
}

// However many versions lie between, and whatever is known of them.
TEST_F(BranchTest, DescendantsOverSweptVersions) {
  ASSERT_OK(Branch(30, 40, SaveSpec::Abandoned::kRefuse));
  for (const int64_t step : {20, 30}) ASSERT_OK(store_->Delete(step));
  ASSERT_OK_AND_ASSIGN(const Store::FoldResult folded, store_->Fold(40));
  EXPECT_TRUE(folded.folded);
  ASSERT_OK(store_->Sweep());
  Reopen();
  ASSERT_OK(Branch(10, 50, SaveSpec::Abandoned::kKeep));
  ASSERT_OK(Branch(50, 60, SaveSpec::Abandoned::kRefuse));
  ASSERT_OK(store_->Delete(50));
  ASSERT_OK(store_->Sweep());
  Reopen();
  ExpectSteps({10, 40, 60});
  ASSERT_OK(Branch(40, 70, SaveSpec::Abandoned::kRemove));
  ExpectSteps({10, 40, 60, 70});
  ASSERT_OK(Branch(10, 80, SaveSpec::Abandoned::kRemove));
  ExpectSteps({10, 80});
}

// A step of the branch that is removed may come again.
TEST_F(BranchTest, ReplacesAStepOfTheRemovedBranch) {
  EXPECT_THAT(Branch(10, 20, SaveSpec::Abandoned::kRemove),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("step 20")));
  ASSERT_OK(Branch(10, 20, SaveSpec::Abandoned::kRemove, /*overwrite=*/true));
  ExpectSteps({10, 20});
  Reopen();
  ExpectSteps({10, 20});
}

TEST_F(BranchTest, PinnedDescendantStaysWhenItsBranchIsRemoved) {
  ASSERT_OK(store_->Pin(30));
  ASSERT_OK(Branch(10, 40, SaveSpec::Abandoned::kRemove));
  // Its chain leads over step 20, which is removed.
  ExpectSteps({10, 30, 40});
  ASSERT_OK(store_->Sweep());
  Reopen();
  ExpectSteps({10, 30, 40});
  ASSERT_OK_AND_ASSIGN(const StepRecord latest, store_->Latest());
  EXPECT_EQ(latest.version.step, 40);
  ASSERT_OK(Branch(40, 50, SaveSpec::Abandoned::kRefuse));
  ASSERT_OK(store_->Unpin(30));
  ASSERT_OK(Branch(10, 60, SaveSpec::Abandoned::kRemove));
  ExpectSteps({10, 60});
}

TEST_F(BranchTest, PinnedStepIsNotOverwritten) {
  ASSERT_OK(store_->Pin(30));
  const auto is_pinned =
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("step 30 is pinned"), HasSubstr(path())));
  SaveSpec spec{.step = 30, .overwrite = true, .parent = versions_[20]};
  spec.abandoned = SaveSpec::Abandoned::kRemove;
  EXPECT_THAT(store_->Begin(spec), is_pinned);
  EXPECT_THAT(Branch(20, 30, SaveSpec::Abandoned::kRemove, /*overwrite=*/true),
              is_pinned);
  ExpectSteps({10, 20, 30});
}

// A quarantined step cannot be restored, so the promise of the pin is kept by
// the step that replaces it.
TEST_F(BranchTest, PinPassesFromAQuarantinedStepToItsReplacement) {
  ASSERT_OK(store_->Pin(30));
  ASSERT_OK(store_->Quarantine(30));
  ASSERT_OK(Branch(20, 30, SaveSpec::Abandoned::kRefuse, /*overwrite=*/true));
  ASSERT_OK_AND_ASSIGN(const StepRecord replaced, store_->FindStep(30));
  EXPECT_TRUE(replaced.pinned);
  EXPECT_FALSE(replaced.quarantined);
  ExpectSteps({10, 20, 30});
}

TEST_F(BranchTest, PinnedParentMayBeGoneOnFrom) {
  ASSERT_OK(store_->Pin(10));
  ASSERT_OK(Branch(10, 40, SaveSpec::Abandoned::kRemove));
  ExpectSteps({10, 40});
}

// A delta may take the place of the very step that it goes on from.
TEST_F(BranchTest, OverwritesItsParent) {
  const Version old = versions_[30];
  ASSERT_OK(Branch(30, 30, SaveSpec::Abandoned::kRefuse, /*overwrite=*/true));
  ASSERT_OK_AND_ASSIGN(const StepRecord record, store_->FindStep(30));
  EXPECT_EQ(record.parent, old);
  EXPECT_EQ(record.chain.size(), 4u);
  ASSERT_OK(store_->Sweep());
  Reopen();
  ExpectSteps({10, 20, 30});
}

// A chain that is gone on from keeps what was overwritten in it.
TEST_F(BranchTest, OverwritingAMemberLeavesItsSuccessors) {
  const RankContent other = UserContent({77});
  ASSERT_OK(Overwrite(20, other));
  ASSERT_OK(store_->Sweep());
  Reopen();
  history_[20] = other;
  ExpectSteps({10, 20, 30});
}

class InProgressTest : public BranchTest {
 protected:
  void Stage40(const SaveSpec& spec) {
    RankContent after = content_;
    after.tables["user"].rows[40] = RowOf(40, 0);
    const HeldChanges held(after, ChangesBetween(content_, after),
                           /*whole=*/false);
    ASSERT_OK_AND_ASSIGN(save_, store_->Begin(spec));
    ASSERT_OK_AND_ASSIGN(staged_,
                         Stage(path(), save_.tickets.at(0), held.state()));
    content_ = after;
  }

  Store::Attempt save_;
  StagedRank staged_;
};

TEST_F(InProgressTest, ParentIsDeletedBeforePublish) {
  Stage40({.step = 40, .parent = versions_[30]});
  ASSERT_OK(store_->Delete(30));
  ASSERT_OK(store_->Sweep());
  EXPECT_THAT(store_->Publish(save_.version, {staged_}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(ToString(versions_[30])),
                             HasSubstr("is not a committed step"))));
  EXPECT_THAT(ListSteps(), ElementsAre(10, 20));
  ASSERT_OK(store_->Abandon(save_.version));
  ASSERT_OK(store_->Sweep());
  ExpectSteps({10, 20});
}

TEST_F(InProgressTest, ParentIsOverwrittenBeforePublish) {
  Stage40({.step = 40, .parent = versions_[30]});
  ASSERT_OK(Overwrite(30, UserContent({5})));
  EXPECT_THAT(store_->Publish(save_.version, {staged_}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr(ToString(versions_[30]))));
}

TEST_F(InProgressTest, ParentIsQuarantinedBeforePublish) {
  Stage40({.step = 40, .parent = versions_[30]});
  ASSERT_OK(store_->Quarantine(30));
  EXPECT_THAT(store_->Publish(save_.version, {staged_}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("is quarantined")));
}

// The second of two saves over one step is on a branch.
TEST_F(InProgressTest, AnotherSaveIsPublishedFirst) {
  Stage40({.step = 40, .parent = versions_[30]});
  const RankContent staged = content_;
  content_ = history_[30];
  ASSERT_OK(Branch(30, 50, SaveSpec::Abandoned::kRefuse));
  EXPECT_THAT(store_->Publish(save_.version, {staged_}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr(ToString(versions_[50]))));
  EXPECT_THAT(ListSteps(), ElementsAre(10, 20, 30, 50));
}

TEST_F(InProgressTest, ParentIsRetiredWithThePublish) {
  Stage40({.step = 40, .parent = versions_[30]});
  ASSERT_OK_AND_ASSIGN(
      const SaveResult saved,
      store_->Publish(save_.version, {staged_}, {.retire = {10, 20, 30}}));
  EXPECT_EQ(saved.deltas, 3u);
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, store_->Sweep());
  EXPECT_THAT(swept.swept_versions, IsEmpty());
  Reopen();
  EXPECT_THAT(ListSteps(), ElementsAre(40));
  ExpectRows(40, content_, {0, 10, 20});
}

// The step that it goes on from is the folded one then, whose attempt is the
// younger of the two.
TEST_F(InProgressTest, ParentIsFoldedBeforePublish) {
  RankContent after = content_;
  after.tables["user"].rows[3] = RowOf(3, 9);
  after.tables["user"].rows.erase(30);
  const HeldChanges held(after, ChangesBetween(content_, after),
                         /*whole=*/false);
  ASSERT_OK_AND_ASSIGN(const Store::Attempt save,
                       store_->Begin({.step = 40, .parent = versions_[30]}));
  ASSERT_OK_AND_ASSIGN(const Store::FoldResult folded, store_->Fold(30));
  ASSERT_LT(save.version.attempt, folded.version.attempt);
  ASSERT_OK_AND_ASSIGN(const StagedRank staged,
                       Stage(path(), save.tickets.at(0), held.state()));
  ASSERT_OK(store_->Publish(save.version, {staged}));
  ASSERT_OK_AND_ASSIGN(const StepRecord record, store_->FindStep(40));
  EXPECT_THAT(record.chain, ElementsAre(folded.version, save.version));
  history_[40] = after;
  ExpectSteps({10, 20, 30, 40});
  LiveRows live(after.tables["user"].slots, history_[20].tables["user"].rows);
  ASSERT_OK_AND_ASSIGN(const auto changes,
                       store_->OpenChanges(versions_[20], 40));
  ASSERT_OK(changes->ScanTable("user", {}, &live));
  EXPECT_TRUE(live.rows() == after.tables["user"].rows);
}

// A failed publish is tried again; the branch goes only with the one that is
// committed.
TEST_F(InProgressTest, PublishedAgainAfterAnError) {
  Stage40({.step = 40,
           .parent = versions_[10],
           .abandoned = SaveSpec::Abandoned::kRemove});
  EXPECT_THAT(store_->Publish(save_.version, {staged_}, {.retire = {99}}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("99")));
  EXPECT_THAT(ListSteps(), ElementsAre(10, 20, 30));
  ASSERT_OK(store_->Publish(save_.version, {staged_}, {.retire = {20}}));
  EXPECT_THAT(ListSteps(), ElementsAre(10, 40));
}

}  // namespace
}  // namespace ckptdb::testing
