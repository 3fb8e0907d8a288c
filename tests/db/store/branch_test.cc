// SPDX-License-Identifier: Apache-2.0
// The step that a save goes on from, and what becomes of those after it.

#include "tests/db/delta_fixture.h"

namespace ckptdb::testing {
namespace {

using Abandoned = SaveSpec::Abandoned;

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
                                    Abandoned abandoned,
                                    bool overwrite = false) {
    content_ = history_.at(from);
    rows()[step] = RowOf(step, 7);
    const HeldChanges held(content_,
                           ChangesBetween(history_.at(from), content_),
                           /*whole=*/false);
    absl::StatusOr<SaveResult> result =
        store_->Save({.step = step,
                      .overwrite = overwrite,
                      .parent = versions_.at(from),
                      .abandoned = abandoned},
                     held.state());
    if (result.ok()) {
      versions_[step] = result->version;
      history_[step] = content_;
    }
    return result;
  }
  template <typename Refused>
  void ExpectParentRefused(const SaveSpec& spec, const Refused& refused) {
    EXPECT_THAT(store_->Begin(spec), refused);
    EXPECT_THAT(ListSteps(), ElementsAre(10, 20, 30));
  }
  void ExpectSteps(const std::vector<int64_t>& steps) {
    EXPECT_EQ(ListSteps(), steps);
    for (const int64_t step : steps)
      ExpectRows(step, history_.at(step), {0, 10, 20, 30, 40, 50});
  }
  void SweepAndReopen() {
    ASSERT_OK(store_->Sweep());
    Reopen();
  }
  std::map<int64_t, Version> versions_;
};

TEST_F(BranchTest, RefusesOtherParents) {
  for (const Version& unknown : {Version{25, 2}, Version{30, 77}}) {
    ExpectParentRefused({.step = 40, .parent = unknown},
                        FailedPrecondition("parent " + ToString(unknown) +
                                               " is not a committed step",
                                           "/store"));
  }
  ExpectParentRefused(
      {.step = 25, .parent = versions_[30]},
      InvalidArgument("step 25 is before its parent, step 30", "/store"));
  ExpectParentRefused(
      {.step = 40, .parent = versions_[20]},
      FailedPrecondition("is not the newest: " + ToString(versions_[30]),
                         "/store"));
  ExpectParentRefused({.step = 40, .parent = versions_[10]},
                      FailedPrecondition("set SaveSpec::abandoned", "/store"));
  const Version old = versions_[30];
  ASSERT_OK(store_->Delete(30));
  ASSERT_OK(Branch(20, 30, Abandoned::kRefuse));
  ExpectParentRefused({.step = 40, .parent = old},
                      FailedPrecondition(ToString(old), "/store"));
  ASSERT_OK(store_->Quarantine(30));
  ExpectParentRefused({.step = 40, .parent = versions_[30]},
                      FailedPrecondition("is quarantined", "/store"));
  // A trainer that falls back to the step before it need not say a word.
  ASSERT_OK(Branch(20, 40, Abandoned::kRefuse));
  ExpectSteps({10, 20, 30, 40});
}

TEST_F(BranchTest, KeptBranchesCanBeRead) {
  ASSERT_OK(Branch(20, 40, Abandoned::kKeep));
  ASSERT_OK(Branch(10, 50, Abandoned::kKeep));
  SweepAndReopen();
  ExpectSteps({10, 20, 30, 40, 50});
  EXPECT_THAT(Record(50).chain, ElementsAre(versions_[10], versions_[50]));
  DeleteSteps({10, 20, 30});
  SweepAndReopen();
  ExpectSteps({40, 50});
}

TEST_F(BranchTest, RemovedBranchGoesWithTheCommit) {
  ASSERT_OK(store_->Pin(10));  // which is gone on from
  ASSERT_OK(Branch(10, 40, Abandoned::kRemove));
  ExpectSteps({10, 40});
  EXPECT_THAT(Swept(), ElementsAre(versions_[20], versions_[30]));
  Reopen();
  ExpectSteps({10, 40});
}

// Also those whose way to it leads over steps that are gone.
TEST_F(BranchTest, DescendantsOverRetiredSteps) {
  ASSERT_OK(store_->Delete(20));
  SweepAndReopen();
  ASSERT_OK(Branch(10, 40, Abandoned::kRemove));
  ExpectSteps({10, 40});
}

// However many versions lie between, and whatever is known of them.
TEST_F(BranchTest, DescendantsOverSweptVersions) {
  ASSERT_OK(Branch(30, 40, Abandoned::kRefuse));
  DeleteSteps({20, 30});
  EXPECT_TRUE(store_->Fold(40).value().folded);
  SweepAndReopen();
  ASSERT_OK(Branch(10, 50, Abandoned::kKeep));
  ASSERT_OK(Branch(50, 60, Abandoned::kRefuse));
  ASSERT_OK(store_->Delete(50));
  SweepAndReopen();
  ExpectSteps({10, 40, 60});
  ASSERT_OK(Branch(40, 70, Abandoned::kRemove));
  ExpectSteps({10, 40, 60, 70});
  ASSERT_OK(Branch(10, 80, Abandoned::kRemove));
  ExpectSteps({10, 80});
}

// A quarantined step cannot be restored, so the promise of the pin is kept by
// the step that replaces it.
TEST_F(BranchTest, OnlyAQuarantinedStepThatIsPinnedIsReplaced) {
  ASSERT_OK(store_->Pin(30));
  const auto is_pinned = FailedPrecondition("step 30 is pinned", path());
  EXPECT_THAT(store_->Begin({.step = 30,
                             .overwrite = true,
                             .parent = versions_[20],
                             .abandoned = Abandoned::kRemove}),
              is_pinned);
  EXPECT_THAT(Branch(20, 30, Abandoned::kRemove, /*overwrite=*/true),
              is_pinned);
  ExpectSteps({10, 20, 30});
  ASSERT_OK(store_->Quarantine(30));
  ASSERT_OK(Branch(20, 30, Abandoned::kRefuse, /*overwrite=*/true));
  EXPECT_TRUE(Record(30).pinned);
  EXPECT_FALSE(Record(30).quarantined);
  ExpectSteps({10, 20, 30});
}

class InProgressTest : public BranchTest {
 protected:
  void Stage40(const SaveSpec& spec) {
    RankContent after = content_;
    Rows& changed = after.tables["user"].rows;
    changed[3] = RowOf(3, 9);
    changed[40] = RowOf(40, 0);
    changed.erase(30);
    const HeldChanges held(after, ChangesBetween(content_, after),
                           /*whole=*/false);
    save_ = Begin(spec);
    ASSERT_OK_AND_ASSIGN(staged_,
                         Stage(path(), save_.tickets.at(0), held.state()));
    content_ = after;
  }
  absl::StatusOr<SaveResult> Publish(const SaveSpec& publish = {}) {
    return store_->Publish(save_.version, {staged_}, publish);
  }
  Store::Attempt save_;
  StagedRank staged_;
};

TEST_F(InProgressTest, ParentIsChangedBeforePublish) {
  const std::string parent = ToString(versions_[30]);
  Stage40({.step = 40, .parent = versions_[30]});
  ASSERT_OK(store_->Quarantine(30));
  EXPECT_THAT(Publish(), FailedPrecondition("is quarantined"));
  ASSERT_OK(Overwrite(30, UserContent({5})));
  EXPECT_THAT(Publish(), FailedPrecondition(parent));
  ASSERT_OK(store_->Delete(30));
  ASSERT_OK(store_->Sweep());
  EXPECT_THAT(Publish(), FailedPrecondition(parent, "is not a committed step"));
  EXPECT_THAT(ListSteps(), ElementsAre(10, 20));
  ASSERT_OK(store_->Abandon(save_.version));
  ASSERT_OK(store_->Sweep());
  ExpectSteps({10, 20});
}

// The second of two saves over one step is on a branch.
TEST_F(InProgressTest, AnotherSaveIsPublishedFirst) {
  Stage40({.step = 40, .parent = versions_[30]});
  ASSERT_OK(Branch(30, 50, Abandoned::kRefuse));
  EXPECT_THAT(Publish(), FailedPrecondition(ToString(versions_[50])));
  EXPECT_THAT(ListSteps(), ElementsAre(10, 20, 30, 50));
}

TEST_F(InProgressTest, ParentIsRetiredWithThePublish) {
  Stage40({.step = 40, .parent = versions_[30]});
  EXPECT_EQ(Publish({.retire = {10, 20, 30}}).value().deltas, 3u);
  EXPECT_THAT(Swept(), IsEmpty());
  Reopen();
  EXPECT_THAT(ListSteps(), ElementsAre(40));
  ExpectRows(40, content_, {0, 10, 20});
}

// A failed publish is tried again; the branch goes only with the one that is
// committed.
TEST_F(InProgressTest, PublishedAgainAfterAnError) {
  Stage40(
      {.step = 40, .parent = versions_[10], .abandoned = Abandoned::kRemove});
  EXPECT_THAT(Publish({.retire = {99}}), NotFound("99"));
  EXPECT_THAT(ListSteps(), ElementsAre(10, 20, 30));
  ASSERT_OK(Publish({.retire = {20}}));
  EXPECT_THAT(ListSteps(), ElementsAre(10, 40));
}

}  // namespace
}  // namespace ckptdb::testing
