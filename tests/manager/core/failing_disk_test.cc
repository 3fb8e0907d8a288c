// SPDX-License-Identifier: Apache-2.0
// A manager whose disk fails while it saves.
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"

#include "db/options.h"
#include "tests/manager/sim_manager_fixture.h"

namespace ckptdb::testing {
namespace {

using rocksdb::IOStatus;

// At the last point everything is staged, and the write batch is written next.
std::vector<std::string> PointsBeforeTheCommit() {
  std::vector<std::string> points;
  for (const absl::string_view point :
       {point::kBegun, point::kStaging, point::kStaged, point::kChecked,
        point::kIngested}) {
    points.emplace_back(point);
  }
  return points;
}

class FailingDiskTest : public SimManagerTest,
                        public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    SimManagerTest::SetUp();
    const auto fail = [this](absl::string_view point) {
      if (point != fails_at_) return;
      fails_at_.clear();
      // Before it changes the database, the store opens OWNER and reads it to
      // the end.
      constexpr uint64_t kOwnerCalls = 3;
      // Before that it lists the folder of posts twice, which cannot fail a
      // save.
      constexpr uint64_t kPostsCalls = 2;
      // Before that the stager looks up its folder, and once more if that
      // fails.
      constexpr uint64_t kFolderCalls = 1;
      uint64_t calls = disk_.files()->calls();
      if (absl::StartsWith(point, "publish:")) calls += kOwnerCalls;
      if (absl::StartsWith(point, "stage:")) calls += kPostsCalls;
      if (absl::StartsWith(point, "begin:"))
        calls += kFolderCalls + kPostsCalls;
      disk_.files()->FailOperation(calls, IOStatus::IOError("injected"),
                                   sticky_);
    };
    options_.store.on_point = fail;
  }

  // Saving step 4 fails.
  void FailFourthStep(bool sticky) {
    TrainAndWait(2);
    // No save is in progress between the steps.
    fails_at_ = GetParam();
    sticky_ = sticky;
    TrainTo(3);
    absl::Status status = TrainStep().status();
    if (status.ok()) status = manager_->WaitUntilFinished();
    EXPECT_THAT(std::string(status.message()), HasSubstr("injected"));
    EXPECT_TRUE(fails_at_.empty()) << "the point was not reached";
    // Returned once.
    EXPECT_OK(manager_->CheckForErrors());
    EXPECT_OK(manager_->WaitUntilFinished());
  }
  void Mend() { disk_.files()->ClearFault(); }

  std::string fails_at_;
  bool sticky_ = false;
};

INSTANTIATE_TEST_SUITE_P(
    Points, FailingDiskTest, ::testing::ValuesIn(PointsBeforeTheCommit()),
    [](const auto& point) {
      return absl::StrReplaceAll(point.param, {{":", "_"}});
    });

// Retired steps are deleted in the same batch, or not at all.
TEST_P(FailingDiskTest, OnlyStepIsKept) {
  options_.retention.keep = LatestN(1);
  Start();
  FailFourthStep(/*sticky=*/true);
  EXPECT_THAT(Steps(), ElementsAre(2));
  Mend();
  ExpectRestores(2);
  TrainAndClose(6);
  EXPECT_THAT(Steps(), ElementsAre(6));
  ExpectRestores(6);
}

TEST_P(FailingDiskTest, OnlyEphemeralStepIsKept) {
  std::swap(options_.schedule.ephemeral, options_.schedule.permanent);
  options_.retention.keep_ephemeral = 1;
  Start();
  FailFourthStep(/*sticky=*/true);
  EXPECT_THAT(Steps(), ElementsAre(2));
  Mend();
  ExpectRestores(2);
  TrainAndClose(8);
  EXPECT_THAT(Steps(), ElementsAre(8));
  ExpectRestores(8);
}

// After its write batch has failed, the database refuses writes until it is
// reopened.
TEST_P(FailingDiskTest, StoreIsUnusable_WhenTheDiskFailsForGood) {
  Start();
  FailFourthStep(/*sticky=*/true);
  const auto next = manager_->Save();
  absl::Status status = next.status();
  if (next.ok()) {
    status = next->WaitCommitted().status();
    EXPECT_OK(manager_->WaitUntilFinished()) << "it was returned already";
  }
  EXPECT_THAT(std::string(status.message()), HasSubstr("injected"));
  Mend();
  ExpectRestores(2);
  TrainAndClose(6);
  EXPECT_THAT(Steps(), ElementsAre(2, 4, 6));
  EXPECT_EQ(reports_.back().result.kind, StepRecord::Kind::kDelta);
  ExpectRestores(6);
}

// The model is still in memory: another manager, which knows of no step, saves
// it in full.
TEST_P(FailingDiskTest, AnotherManagerSavesTheModelOfAFailedSave) {
  Start();
  FailFourthStep(/*sticky=*/true);
  Mend();
  Reopen();
  model_->Train(5);
  model_->Train(6);
  ASSERT_OK(manager_->StepTo(6));
  ASSERT_OK(manager_->Close());
  EXPECT_EQ(reports_.back().result.kind, StepRecord::Kind::kFull);
  ExpectRestores(6);
}

// Fails once. Before the write batch the manager continues, and the marks of
// step 4 are in the next save. After it the store must be reopened.
TEST_P(FailingDiskTest, NextSaveContainsTheChangesOfAFailedSave) {
  Start();
  FailFourthStep(/*sticky=*/false);
  TrainTo(5);
  const auto save = manager_->Save();
  const absl::Status status =
      save.ok() ? save->WaitCommitted().status() : save.status();
  if (absl::StartsWith(GetParam(), "publish:")) {
    EXPECT_THAT(status, FailedPrecondition("until it is reopened"));
    return ExpectRestores(2);
  }
  ASSERT_OK(status);
  ASSERT_OK(manager_->WaitUntilFinished());
  EXPECT_EQ(reports_.back().result.kind, StepRecord::Kind::kDelta);
  EXPECT_THAT(Steps(), ElementsAre(2, 5));
  ExpectRestores(5);
}

}  // namespace
}  // namespace ckptdb::testing
