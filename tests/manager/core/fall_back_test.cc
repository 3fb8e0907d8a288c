// SPDX-License-Identifier: Apache-2.0
// Which errors make RestoreRequest::fall_back quarantine a step.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/manager/manager_fixture.h"
#include "tests/manager/run_ranks.h"
#include "tests/manager/test_options.h"
#include "tests/support/row_files.h"

namespace ckptdb::testing {
namespace {

class FallBackTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    Start();
    TrainAndClose(4);
    Start();
  }
  std::vector<int64_t> Quarantined() {
    std::vector<int64_t> steps;
    for (const StepRecord& record : Records()) {
      if (record.quarantined) steps.push_back(record.version.step);
    }
    return steps;
  }
  // Expects that restores return the model's `error` without a quarantine, and
  // that step 4 can be restored after `mend`.
  void ExpectKept(absl::string_view error, const std::function<void()>& mend) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(manager_->RestoreOrStart({.fall_back = true}),
                  DataLoss(error, "step 4 has been verified and is undamaged"));
    }
    EXPECT_THAT(Quarantined(), ElementsAre());
    mend();
    EXPECT_EQ(Restored({.fall_back = true}), 4);
    ExpectTrained(*model_, 4);
  }
};

TEST_F(FallBackTest, RestoresAStep_OnceItsQuarantineIsUndone) {
  ASSERT_OK(manager_->store()->Quarantine(4));
  EXPECT_EQ(Restored(), 2);
  EXPECT_THAT(manager_->Restore({.step = 4}),
              FailedPrecondition("\"ckptdb quarantine --undo 4\""));
  ASSERT_OK(manager_->store()->Unquarantine(4));
  ASSERT_OK(manager_->store()->Unquarantine(4));
  EXPECT_EQ(Restored(), 4);
  manager_.reset();
  ASSERT_NO_FATAL_FAILURE(DamageStep(options_.path, 4));
  Start();
  EXPECT_EQ(Restored({.fall_back = true}), 2);
  EXPECT_THAT(manager_->store()->Unquarantine(4), DataLoss("step 4"));
  EXPECT_THAT(Quarantined(), ElementsAre(4));
}

const absl::Status& Refusal() {
  static const absl::Status kRefusal =
      absl::DataLossError("position of an unknown version");
  return kRefusal;
}

TEST_F(FallBackTest, KeepsSteps_WhenAnIoStateReturnsDataLoss) {
  model_->reader.refuses = Refusal();
  ExpectKept("unknown version", [&] { model_->reader.refuses = {}; });
}

TEST_F(FallBackTest, KeepsSteps_WhenATableReturnsDataLoss) {
  model_->users.FailLoads(Refusal());
  ExpectKept("unknown version",
             [&] { model_->users.FailLoads(absl::OkStatus()); });
}

TEST_F(FallBackTest, KeepsSteps_WhenTheProviderReturnsDataLoss) {
  absl::Status status = Refusal();
  model_->state.SetProvider([&](const StepReader*) { return status; });
  ExpectKept("unknown version", [&] { status = absl::OkStatus(); });
}

// First an error in rank 1's own code, and then real damage.
TEST(FallBackOfRanksTest, QuarantinesOnAllRanksOnlyDamage) {
  const TempDir dir;
  const ManagerOptions options = TestOptions(dir.path() + "/store", 2);
  RunModels(2, options, [](uint32_t, CheckpointManager* manager, TestModel* m) {
    while (manager->global_step() < 4) {
      m->Train(manager->global_step() + 1);
      ASSERT_OK(manager->Step());
    }
    ASSERT_OK(manager->FinishTraining());
  });
  RunModels(2, options,
            [](uint32_t rank, CheckpointManager* manager, TestModel* m) {
              if (rank == 1) m->reader.refuses = Refusal();
              EXPECT_THAT(manager->Restore({.fall_back = true}),
                          DataLoss("unknown version", "undamaged"));
              m->reader.refuses = {};
              ASSERT_OK_AND_ASSIGN(const RestoreReport report,
                                   manager->Restore({.fall_back = true}));
              EXPECT_EQ(report.version.step, 4);
            });
  ASSERT_NO_FATAL_FAILURE(DamageStep(options.path, 4));
  RunModels(2, options,
            [](uint32_t rank, CheckpointManager* manager, TestModel*) {
              ASSERT_OK_AND_ASSIGN(const RestoreReport report,
                                   manager->Restore({.fall_back = true}));
              EXPECT_EQ(report.version.step, 2);
              EXPECT_THAT(report.damaged_steps, ElementsAre(4));
              if (rank != 0) return;
              EXPECT_TRUE(manager->store()->FindStep(4).value().quarantined);
            });
}

// Saves steps with data files of their own, whose numbers precede a damaged
// step.
class SavesBeforeDamageTest : public ManagerTest {
 protected:
  enum class Damage { kTruncated, kMissing, kFirstBlock };

  void SetUp() override {
    ManagerTest::SetUp();
    options_.schedule.permanent = SaveEveryNSteps(5);
    ASSERT_OK(big_.AddTensor(
        "w", TensorState::Of(weights_.data(),
                             {static_cast<int64_t>(weights_.size())})));
  }
  void OpenBig() {
    manager_.reset();
    ASSERT_OK_AND_ASSIGN(manager_, CheckpointManager::Open(options_, &big_));
  }
  // Trains up to a step. All values of the tensor then equal the step's number.
  void TrainBigTo(int64_t step) {
    while (manager_->global_step() < step) {
      std::fill(weights_.begin(), weights_.end(),
                static_cast<int32_t>(manager_->global_step() + 1));
      ASSERT_OK(manager_->Step());
    }
    ASSERT_OK(manager_->WaitUntilFinished());
  }
  void SaveAt(int64_t step) {
    ASSERT_NO_FATAL_FAILURE(TrainBigTo(step));
    ASSERT_OK(manager_->Save());
    ASSERT_OK(manager_->WaitUntilFinished());
  }
  std::set<std::filesystem::path> BigTables() const {
    std::set<std::filesystem::path> tables;
    for (const auto& each :
         std::filesystem::directory_iterator(options_.path + "/db")) {
      if (each.path().extension() == ".sst" && each.file_size() > 8 << 20) {
        tables.insert(each.path());
      }
    }
    return tables;
  }
  // Saves steps 5 to 20 and damages step 20.
  void SaveAndDamage(Damage damage) {
    ASSERT_NO_FATAL_FAILURE(OpenBig());
    ASSERT_NO_FATAL_FAILURE(TrainBigTo(20));
    ASSERT_OK(manager_->Close());
    const std::filesystem::path last = *BigTables().rbegin();
    if (damage == Damage::kTruncated) std::filesystem::resize_file(last, 1000);
    if (damage == Damage::kMissing) std::filesystem::remove(last);
    if (damage == Damage::kFirstBlock) DamageFile(last);
  }
  void ExpectRestores(int64_t step) {
    std::fill(weights_.begin(), weights_.end(), -1);
    ASSERT_NO_FATAL_FAILURE(OpenBig());
    EXPECT_EQ(Restored(), step);
    EXPECT_THAT(weights_, Each(step));
  }

  std::vector<int32_t> weights_ = std::vector<int32_t>(size_t{3} << 20);
  ModelState big_;
};

TEST_F(SavesBeforeDamageTest, TrainingContinues) {
  for (const Damage damage :
       {Damage::kTruncated, Damage::kMissing, Damage::kFirstBlock}) {
    SCOPED_TRACE(static_cast<int>(damage));
    std::filesystem::remove_all(options_.path);
    ASSERT_NO_FATAL_FAILURE(SaveAndDamage(damage));
    ASSERT_NO_FATAL_FAILURE(OpenBig());
    EXPECT_EQ(Restored({.fall_back = true}), 15);
    ASSERT_NO_FATAL_FAILURE(SaveAt(17));
    ASSERT_NO_FATAL_FAILURE(ExpectRestores(17));
    EXPECT_EQ(Restored({.step = 10}), 10);
    ASSERT_NO_FATAL_FAILURE(SaveAt(12));
    ASSERT_NO_FATAL_FAILURE(ExpectRestores(12));
    // The damaged step's number is saved again, and its data is removed.
    ASSERT_NO_FATAL_FAILURE(TrainBigTo(25));
    ASSERT_OK_AND_ASSIGN(const auto swept, manager_->store()->Sweep());
    EXPECT_THAT(swept.quarantined_versions, ElementsAre());
    EXPECT_THAT(Steps(), ElementsAre(5, 10, 12, 15, 20, 25));
    ASSERT_OK_AND_ASSIGN(const Usage usage, manager_->store()->GetUsage());
    EXPECT_THAT(usage.held_versions, ElementsAre());
    ASSERT_NO_FATAL_FAILURE(ExpectRestores(25));
    EXPECT_EQ(Restored({.step = 20}), 20);
    EXPECT_THAT(weights_, Each(20));
  }
}

}  // namespace
}  // namespace ckptdb::testing
