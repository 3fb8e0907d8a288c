// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a trainer, read beside it: each step is its state.
#include "train_ctr/checkpoint.h"

#include <ckptdb/db/reader.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/examples/train_ctr/saved_digest.h"
#include "tests/examples/train_ctr/state_copy.h"
#include "tests/support/temp_dir.h"
#include "train_ctr/trainer.h"

namespace train_ctr {
namespace {

using ::ckptdb::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A trainer with its store, which are there once at a time.
struct TrainingRun {
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<Checkpoints> checkpoints;

  void Stop() {
    checkpoints.reset();
    trainer.reset();
  }
};

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.store = store_;
    options_.keep_steps = 100;
    options_.delta = true;
    options_.base_every = 0;
    options_.crash_drill = std::make_shared<CrashDrill>(std::nullopt);
  }

  TrainingRun Start() {
    TrainingRun run;
    run.trainer = MakeTrainer(SmallTrainer());
    auto checkpoints = Checkpoints::Open(options_, run.trainer.get());
    EXPECT_OK(checkpoints);
    if (checkpoints.ok()) run.checkpoints = *std::move(checkpoints);
    return run;
  }

  // Trains up to `step` and saves it.
  static SaveReport Save(const TrainingRun& run, int64_t step) {
    TrainTo(run, step);
    EXPECT_OK(run.checkpoints->Save(0.5));
    EXPECT_OK(run.checkpoints->Finish());
    const std::vector<SaveReport> reports = run.checkpoints->TakeReports();
    EXPECT_EQ(reports.size(), 1U);
    return reports.empty() ? SaveReport{} : reports.front();
  }

  static absl::Status SaveError(const TrainingRun& run) {
    const absl::Status begun = run.checkpoints->Save(0.5);
    return begun.ok() ? run.checkpoints->Finish() : begun;
  }

  static void TrainTo(const TrainingRun& run, int64_t step) {
    while (run.trainer->step() < step) ASSERT_OK(run.trainer->Step());
  }

  std::string DigestOf(int64_t step) const {
    return DigestOfSavedStep(store_, step);
  }

  std::vector<int64_t> Steps() {
    const auto reader = ckptdb::Reader::Open(store_);
    EXPECT_OK(reader);
    std::vector<int64_t> steps;
    for (const auto& record : (*reader)->Steps()) {
      steps.push_back(record.version.step);
    }
    return steps;
  }

  const ckptdb::testing::TempDir dir_;
  const std::string store_ = dir_.path() + "/store";
  CheckpointOptions options_;
};

TEST_F(CheckpointTest, DeltaStepsRestoreTheState) {
  const TrainingRun run = Start();
  const SaveReport first = Save(run, 40);
  EXPECT_EQ(first.kind, "full");
  EXPECT_THAT(first.base_reason,
              HasSubstr("is new and has not seen earlier changes"));
  EXPECT_EQ(first.rows_upserted, run.trainer->rows());
  EXPECT_EQ(first.rows_erased, 0u);
  for (int64_t step = 42; step <= 50; step += 2) {
    const SaveReport report = Save(run, step);
    EXPECT_EQ(report.kind, "delta");
    EXPECT_EQ(report.base_reason, "");
    EXPECT_LT(report.rows_upserted, run.trainer->rows() / 2);
    EXPECT_GT(report.rows_upserted, 0u);
    EXPECT_GT(report.rows_erased, 0u);
    EXPECT_LT(report.bytes, first.bytes);
    EXPECT_EQ(DigestOf(step), StateDigest(*run.trainer)) << step;
  }
}

TEST_F(CheckpointTest, WithoutDeltaEachStepIsFull) {
  options_.delta = false;
  const TrainingRun run = Start();
  for (int64_t step = 40; step <= 44; step += 2) {
    const SaveReport report = Save(run, step);
    EXPECT_EQ(report.kind, "full");
    EXPECT_EQ(report.base_reason, "");
    EXPECT_EQ(report.rows_upserted, run.trainer->rows());
    EXPECT_EQ(DigestOf(step), StateDigest(*run.trainer));
  }
}

// The first steps change most of the rows that there are.
TEST_F(CheckpointTest, SavesInFullWhenTheStoreRequiresIt) {
  const TrainingRun run = Start();
  EXPECT_EQ(Save(run, 2).kind, "full");
  EXPECT_EQ(Save(run, 10).kind, "delta");
  const SaveReport report = Save(run, 12);
  EXPECT_EQ(report.kind, "full");
  EXPECT_THAT(report.base_reason, AllOf(HasSubstr("deltas have"),
                                        HasSubstr("the limit is 1 times")));
  EXPECT_EQ(Save(run, 14).kind, "delta");
  EXPECT_EQ(DigestOf(14), StateDigest(*run.trainer));
}

// A file stands where staging wants its folder.
TEST_F(CheckpointTest, AFailedSaveLosesNoChange) {
  const TrainingRun run = Start();
  Save(run, 40);
  TrainTo(run, 44);
  const std::string staging = store_ + "/staging";
  std::filesystem::remove_all(staging);
  std::ofstream(staging) << "in the way";
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(SaveError(run), StatusIs(absl::StatusCode::kFailedPrecondition,
                                         HasSubstr("staging")));
    TrainTo(run, 46);
  }
  std::filesystem::remove(staging);
  const SaveReport report = Save(run, 48);
  EXPECT_EQ(report.kind, "delta");
  EXPECT_EQ(DigestOf(48), StateDigest(*run.trainer));
  EXPECT_THAT(Steps(), ElementsAre(40, 48));
}

// So does one whose set is that of a new consumer, which is not complete.
TEST_F(CheckpointTest, SavesInFullAfterAFailedFirstSave) {
  const TrainingRun run = Start();
  TrainTo(run, 3);
  const std::string staging = store_ + "/staging";
  std::filesystem::remove_all(staging);
  std::ofstream(staging) << "in the way";
  EXPECT_THAT(SaveError(run), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("staging")));
  std::filesystem::remove(staging);
  EXPECT_EQ(Save(run, 4).kind, "full");
  EXPECT_EQ(DigestOf(4), StateDigest(*run.trainer));
}

TEST_F(CheckpointTest, SavesADeltaAfterARestore) {
  TrainingRun run = Start();
  Save(run, 40);
  Save(run, 42);
  const std::string digest = StateDigest(*run.trainer);
  run.Stop();
  run = Start();
  ASSERT_OK(run.checkpoints->RestoreOrStart(42));
  EXPECT_EQ(StateDigest(*run.trainer), digest);
  const SaveReport report = Save(run, 44);
  EXPECT_EQ(report.kind, "delta");
  EXPECT_LT(report.rows_upserted, run.trainer->rows());
  EXPECT_EQ(DigestOf(44), StateDigest(*run.trainer));
}

// The place of the restored step in its chain counts.
TEST_F(CheckpointTest, CountsFullSavesAcrossRestores) {
  options_.base_every = 3;
  std::vector<std::string> kinds;
  TrainingRun run = Start();
  for (int64_t step = 40; step <= 50; step += 2) {
    kinds.push_back(Save(run, step).kind);
    run.Stop();
    run = Start();
    ASSERT_OK(run.checkpoints->RestoreOrStart(step));
  }
  EXPECT_THAT(kinds,
              ElementsAre("full", "delta", "delta", "full", "delta", "delta"));
}

}  // namespace
}  // namespace train_ctr
