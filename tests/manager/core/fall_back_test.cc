// SPDX-License-Identifier: Apache-2.0
// Which errors RestoreRequest::fall_back takes for damage of the step.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

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
  // Expects that `error` of the model's code is returned and quarantines
  // nothing, and that step 4 is restored once `mend` was called.
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

const absl::Status& Refusal() {
  static const absl::Status refusal =
      absl::DataLossError("position of an unknown version");
  return refusal;
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

// The second rank's error is one of its own code, or there is real damage.
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

}  // namespace
}  // namespace ckptdb::testing
