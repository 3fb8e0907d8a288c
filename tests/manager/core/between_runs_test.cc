// SPDX-License-Identifier: Apache-2.0
// How the next run of a trainer starts, and which saves are refused so that no
// trained step is lost.
#include "tests/manager/manager_fixture.h"
#include "tests/support/row_files.h"

namespace ckptdb::testing {
namespace {

class BetweenRuns : public ManagerTest {
 protected:
  // Trains another run up to `step`, in the folder `name`.
  std::string TrainRun(const std::string& name, int64_t step) {
    const std::string own = options_.path;
    options_.path = dir_.path() + "/" + name;
    std::string path = options_.path;
    Start();
    TrainTo(step);
    EXPECT_OK(manager_->Close());
    options_.path = own;
    return path;
  }
  // The error of a run that trains behind the newest step in its store.
  static auto IsBehind(int64_t newest) {
    return FailedPrecondition(absl::StrCat("has step ", newest),
                              "RestoreOrStart", "another folder",
                              "AbandonSteps");
  }
  void QuarantineAll() {
    for (const int64_t step : Steps()) {
      ASSERT_OK(manager_->store()->Quarantine(step));
    }
  }
};

TEST_F(BetweenRuns, StartsFreshInAnEmptyStore) {
  Start();
  ASSERT_OK_AND_ASSIGN(const auto start, manager_->RestoreOrStart());
  EXPECT_TRUE(start.fresh);
  EXPECT_EQ(start.ToString(), absl::StrCat("fresh start: store \"",
                                           options_.path, "\" has no step"));
  TrainAndClose(2);
  ExpectStepHolds(2);
}

TEST_F(BetweenRuns, RestoresTheNewestStep) {
  Start();
  TrainTo(4);
  Start();
  ASSERT_OK_AND_ASSIGN(const auto start, manager_->RestoreOrStart());
  ASSERT_FALSE(start.fresh);
  EXPECT_EQ(start.version.step, 4);
  EXPECT_EQ(start.ToString(),
            absl::StrCat("restored step 4 from \"", options_.path, "\""));
  EXPECT_EQ(manager_->global_step(), 4);
}

TEST_F(BetweenRuns, RestoreOrStartFails_WhenTheNamedStepIsMissing) {
  Start();
  EXPECT_THAT(manager_->RestoreOrStart({.step = 7}),
              FailedPrecondition("has no step", "step 7"));
  TrainTo(4);
  Start();
  const auto named = FailedPrecondition("no step 7", "the step before it is 4");
  EXPECT_THAT(manager_->RestoreOrStart({.step = 7}), named);
  EXPECT_THAT(manager_->Restore({.step = 7}), named);
}

TEST_F(BetweenRuns, RestoreOfTheBestFails_WhenNoStepHasTheMetric) {
  options_.restore.best = KeepPolicy::BestOptions{.metric = "auc"};
  Start();
  ASSERT_OK_AND_ASSIGN(const auto start,
                       manager_->RestoreOrStart({.best = true}));
  EXPECT_TRUE(start.fresh);
  TrainTo(2);
  Start();
  EXPECT_THAT(manager_->RestoreOrStart({.best = true}),
              FailedPrecondition("\"auc\""));
}

TEST_F(BetweenRuns, RestoresFromAnotherStoreOnlyInTheFirstRun) {
  const std::string base = TrainRun("base", 6);
  const RestoreRequest request = {.step = 4, .path = base};
  Start();
  ASSERT_OK_AND_ASSIGN(auto start, manager_->RestoreOrStart(request));
  ASSERT_FALSE(start.fresh);
  EXPECT_EQ(start.store, base);
  EXPECT_EQ(start.version.step, 4);
  EXPECT_EQ(manager_->global_step(), 0);
  TrainTo(2);
  Start();
  ASSERT_OK_AND_ASSIGN(start, manager_->RestoreOrStart(request));
  EXPECT_EQ(start.store, options_.path);
  EXPECT_EQ(start.version.step, 2);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(BetweenRuns, RestoreFails_WhenTheOtherStoreIsEmpty) {
  const std::string empty = TrainRun("empty", 0);
  Start();
  for (const std::string& path : {empty, dir_.path() + "/missing"}) {
    SCOPED_TRACE(path);
    const auto error = FailedPrecondition(path);
    EXPECT_THAT(manager_->RestoreOrStart({.path = path}), error);
    EXPECT_THAT(manager_->Restore({.path = path}), error);
    EXPECT_THAT(manager_->Load({{.path = path}}), error);
  }
}

TEST_F(BetweenRuns, ARunOverQuarantinedStepsIsRefusedUntilItAbandonsThem) {
  Start();
  TrainAndWait(6);
  ASSERT_NO_FATAL_FAILURE(QuarantineAll());
  ASSERT_OK(manager_->Close());
  Start();
  EXPECT_THAT(manager_->Step(),
              FailedPrecondition("are quarantined", "call AbandonSteps"));
  ASSERT_OK(manager_->AbandonSteps());
  TrainTo(6);
  ASSERT_OK(manager_->FinishTraining());
  EXPECT_EQ(manager_->store()->Latest().value().version.step, 6);
}

TEST_F(BetweenRuns, AStoreOfQuarantinedStepsIsNotEmpty) {
  Start();
  TrainAndWait(4);
  ASSERT_NO_FATAL_FAILURE(QuarantineAll());
  Start();
  const auto error = DataLoss("all 2 steps are quarantined", "verify");
  EXPECT_THAT(manager_->Restore(), error);
  EXPECT_THAT(manager_->Restore({.fall_back = true}), error);
  EXPECT_THAT(manager_->RestoreOrStart(), error);
  // A rule for the first start does not apply either.
  EXPECT_THAT(manager_->Load({{.path = options_.path, .only_if_empty = true}}),
              error);
}

TEST_F(BetweenRuns, FallBackReturnsTheFirstDamage_WhenAllStepsAreDamaged) {
  Start();
  TrainAndClose(2);
  ASSERT_NO_FATAL_FAILURE(DamageFile(*RowFiles(options_.path).begin()));
  Start();
  EXPECT_THAT(manager_->RestoreOrStart({.fall_back = true}),
              DataLoss("step 2", "no undamaged step is left"));
}

TEST_F(BetweenRuns, RestoreOfADeltaFails_WhenItsBaseIsDamaged) {
  Start();
  TrainAndClose(2);
  const auto base = *RowFiles(options_.path).begin();
  Start();
  ASSERT_OK(manager_->RestoreOrStart());
  TrainAndClose(4);
  EXPECT_EQ(reports_.back().result.kind, StepRecord::Kind::kDelta);
  ASSERT_NO_FATAL_FAILURE(DamageFile(base));
  Start();
  EXPECT_THAT(manager_->RestoreOrStart(), DataLoss("step 4"));
}

TEST_F(BetweenRuns, FirstStepFails_WhenTheRunDidNotRestore) {
  Start();
  TrainTo(4);
  Start();
  EXPECT_THAT(manager_->StartTraining(), IsBehind(4));
  EXPECT_THAT(TrainStep(), IsBehind(4));
  EXPECT_THAT(manager_->ShouldSave(2), IsBehind(4));
  EXPECT_THAT(manager_->Save(), IsBehind(4));
  EXPECT_THAT(manager_->FinishTraining(), IsBehind(4));
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
  // Its own step number shows that it is ahead.
  ASSERT_OK(manager_->StepTo(6));
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 6));
}

TEST_F(BetweenRuns, RestoreFromAnotherStoreWarnsOfNewerSteps) {
  const std::string base = TrainRun("base", 2);
  Start();
  TrainTo(4);
  Start();
  ASSERT_OK(manager_->Restore({.path = base}));
  EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr("\"" + base + "\""),
                                           HasSubstr("has step 4"))));
  EXPECT_THAT(TrainStep(), IsBehind(4));
  // Abandons the steps that block the save.
  ASSERT_OK(manager_->AbandonSteps());
  EXPECT_THAT(warnings_.back(),
              AllOf(HasSubstr("2 steps, 2 to 4, are abandoned: the next save "
                              "removes those that are not pinned"),
                    HasSubstr(options_.path)));
  TrainAndClose(2);
  EXPECT_THAT(Steps(), ElementsAre(2));
  EXPECT_EQ(reports_.back().result.kind, StepRecord::Kind::kFull);
  EXPECT_THAT(reports_.back().retired_steps, ElementsAre(4));
}

// The steps after a restored one are abandoned only for a model that continues
// from it.
TEST_F(BetweenRuns, RestoreFromAnotherStoreKeepsStepsAfterARestoredOne) {
  const std::string base = TrainRun("base", 2);
  Start();
  TrainTo(6);
  Start();
  ASSERT_OK(manager_->Restore({.step = 2}));
  ASSERT_OK(manager_->Restore({.path = base}));
  EXPECT_THAT(warnings_, Contains(HasSubstr("has step 6")));
  EXPECT_THAT(TrainStep(), IsBehind(6));
  EXPECT_THAT(manager_->FinishTraining(), IsBehind(6));
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 6));
  ASSERT_OK(manager_->AbandonSteps());
  TrainAndClose(4);
  EXPECT_THAT(Steps(), ElementsAre(4));
}

TEST_F(BetweenRuns, StepsStayAbandoned_WhenAnotherStoreIsRestoredNext) {
  const std::string base = TrainRun("base", 2);
  Start();
  TrainTo(6);
  Start();
  ASSERT_OK(manager_->AbandonSteps());
  ASSERT_OK(manager_->Restore({.path = base}));
  TrainAndClose(2);
  EXPECT_THAT(Steps(), ElementsAre(2));
}

TEST_F(BetweenRuns, AbandonedStepsAreKeptUntilTheNextSave) {
  Start();
  TrainTo(4);
  Start();
  ASSERT_OK(manager_->AbandonSteps());
  TrainAndClose(1);
  EXPECT_THAT(Steps(), ElementsAre(2, 4));
  Start();
  ASSERT_OK_AND_ASSIGN(const auto start, manager_->RestoreOrStart());
  EXPECT_EQ(start.version.step, 4);
}

TEST_F(BetweenRuns, AbandonedStepsAreKept_WhenOptionIsKeep) {
  options_.restore.abandoned = SaveSpec::Abandoned::kKeep;
  Start();
  TrainTo(6);
  Start();
  ASSERT_OK(manager_->AbandonSteps());
  EXPECT_THAT(warnings_,
              Contains(HasSubstr("kept by ManagerOptions::restore.abandoned")));
  TrainAndClose(4);
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 6));
  Start();
  ASSERT_OK_AND_ASSIGN(const auto start, manager_->RestoreOrStart());
  EXPECT_EQ(start.version.step, 4);
}

TEST_F(BetweenRuns, ReadOnlyManagerNeitherStartsNorAbandons) {
  Start();
  TrainAndClose(2);
  options_.read_only = true;
  Start();
  const auto error = FailedPrecondition("read-only");
  EXPECT_THAT(manager_->RestoreOrStart(), error);
  EXPECT_THAT(manager_->AbandonSteps(), error);
}

TEST_F(BetweenRuns, TrainingContinues_WhenItsRestoredStepIsDeleted) {
  Start();
  TrainTo(8);
  Start();
  ASSERT_OK(manager_->Restore({.step = 2}));
  ASSERT_OK(manager_->Delete(2));
  TrainAndClose(6);
  EXPECT_THAT(Steps(), ElementsAre(4, 6));
  ExpectStepHolds(6);
}

TEST_F(BetweenRuns, PartlyRestoredModelIsNeverSaved) {
  Start();
  TrainTo(2);
  Start();
  model_->users.FailLoads(absl::DataLossError("the disk is dying"));
  ASSERT_THAT(manager_->Restore(), DataLoss("the disk is dying"));
  const auto error = FailedPrecondition("partly written", "restore of step 2");
  EXPECT_THAT(manager_->StepTo(3), error);
  EXPECT_THAT(manager_->StepTo(4), error);
  EXPECT_THAT(manager_->Save(), error);
  EXPECT_THAT(manager_->FinishTraining(), error);
  EXPECT_THAT(Steps(), ElementsAre(2));
  // Abandoning the steps does not repair the model; a restore does.
  ASSERT_OK(manager_->AbandonSteps());
  EXPECT_THAT(manager_->StepTo(6), error);
  model_->users.FailLoads(absl::OkStatus());
  ASSERT_OK(manager_->Restore());
  TrainAndClose(4);
  ExpectStepHolds(4);
}

TEST_F(BetweenRuns, CancelledRestoreLeavesTheModelPartlyWritten) {
  Start();
  TrainAndClose(2);
  std::atomic<uint64_t> polls = 0;
  std::atomic<uint64_t> last = 1;
  options_.restore.read.cancelled = [&] { return ++polls >= last; };
  Start();
  // Each poll in turn ends the restore, until there are no more.
  absl::Status restored = manager_->Restore().status();
  for (; last < 100 && !restored.ok(); ++last) {
    EXPECT_THAT(restored,
                Cancelled("the restore of step 2", "ReadOptions::cancelled"));
    EXPECT_THAT(manager_->StepTo(2 + static_cast<int64_t>(last)),
                FailedPrecondition("partly written", "restore of step 2"));
    polls = 0;
    restored = manager_->Restore().status();
  }
  ASSERT_OK(restored);
  EXPECT_GE(last, 4u);
  TrainAndClose(4);
  ExpectStepHolds(4);
}

TEST_F(BetweenRuns, PartlyLoadedModelIsSavedOnlyIfTheErrorWasIgnored) {
  const std::string base = TrainRun("base", 2);
  Start();
  model_->users.FailLoads(absl::DataLossError("the disk is dying"));
  LoadRule rule = {.path = base};
  ASSERT_THAT(manager_->Load({rule}), DataLoss("dying"));
  EXPECT_THAT(manager_->StepTo(2),
              FailedPrecondition("a load from step 2", base));
  // A rule that writes nothing does not change that.
  ASSERT_OK(manager_->Load(
      {{.path = dir_.path() + "/missing", .ignore_error = true}}));
  ASSERT_OK(manager_->Load({rule}, /*dry_run=*/true));
  EXPECT_THAT(manager_->StepTo(4), FailedPrecondition("partly written"));
  rule.ignore_error = true;
  ASSERT_OK(manager_->Load({rule}));
  ASSERT_OK(manager_->StepTo(6));
  ASSERT_OK(manager_->Close());
  EXPECT_THAT(Steps(), ElementsAre(6));
}

}  // namespace
}  // namespace ckptdb::testing
