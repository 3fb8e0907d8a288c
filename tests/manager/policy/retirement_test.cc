// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/retirement.h"

#include <random>

#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

// Saves with all kinds of events between them. The incremental plan must equal
// a plan made from all steps.
class RetirementTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.keep = LatestN(4) | BestN("auc", 3);
    ASSERT_OK_AND_ASSIGN(store_, Store::Open(dir_.path()));
    retirement_ = std::make_unique<internal::Retirement>(options_);
  }

  bool OneIn(int n) { return random_() % static_cast<uint64_t>(n) == 0; }
  double Auc() { return static_cast<double>(random_() % 1000) / 1000; }

  // Returns an existing step.
  int64_t AnyStep() {
    const std::vector<StepRecord> steps = store_->Steps();
    return steps[random_() % steps.size()].version.step;
  }

  internal::Retirement::Commit NextCommit() {
    internal::Retirement::Commit commit;
    commit.saved.step = ++step_;
    commit.saved.time_micros = step_;
    commit.now_micros = step_;
    commit.saved.ephemeral = OneIn(3);
    if (OneIn(2)) commit.saved.metrics["auc"] = Auc();
    if (OneIn(5)) commit.abandoned.insert(step_ - 1);
    if (OneIn(5)) commit.source = step_ - 5;
    return commit;
  }

  void SaveOne() {
    const internal::Retirement::Commit commit = NextCommit();
    const std::vector<internal::RetentionDecision> removed =
        retirement_->Plan(*store_, commit);
    ASSERT_EQ(removed, internal::Retirement(options_).Plan(*store_, commit));
    if (OneIn(4)) return;  // the save fails
    SaveSpec spec;
    spec.step = commit.saved.step;
    spec.ephemeral = commit.saved.ephemeral;
    spec.metrics = commit.saved.metrics;
    for (const internal::RetentionDecision& decision : removed) {
      spec.retire.push_back(decision.step);
    }
    retired_ += removed.size();
    ASSERT_OK(store_->Save(spec, {}));
  }

  absl::Status Change(int64_t step) {
    switch (random_() % 6) {
      case 0:
        return store_->Pin(step);
      case 1:
        return store_->Unpin(step);
      case 2:
        return store_->AddMetrics(step, {{"auc", Auc()}});
      case 3:
        return store_->SetEphemeral(step, OneIn(2));
      case 4:
        return OneIn(4) ? store_->Quarantine(step) : absl::OkStatus();
      default:
        store_->Delete(step).IgnoreError();  // it may be pinned
        return absl::OkStatus();
    }
  }

  TempDir dir_;
  RetentionOptions options_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<internal::Retirement> retirement_;
  std::mt19937_64 random_{TestSeed()};
  int64_t step_ = 0;
  size_t retired_ = 0;
};

TEST_F(RetirementTest, IncrementalPlanEqualsAFullPlan) {
  for (int i = 0; i < 300; ++i) {
    ASSERT_NO_FATAL_FAILURE(SaveOne());
    while (!store_->Steps().empty() && !OneIn(3)) ASSERT_OK(Change(AnyStep()));
  }
  EXPECT_GT(retired_, 50);
}

TEST_F(RetirementTest, ReadsAllSteps_AfterMoreChangesThanTheStoreRemembers) {
  ASSERT_NO_FATAL_FAILURE(SaveOne());
  ASSERT_OK(store_->Save({.step = ++step_}, {}));
  for (int i = 0; i < 300; ++i) {
    ASSERT_OK(store_->SetEphemeral(step_, i % 2 == 0));
  }
  ASSERT_OK(store_->Save({.step = ++step_}, {}));
  ASSERT_OK(store_->Delete(step_ - 1));
  for (int i = 0; i < 10; ++i) ASSERT_NO_FATAL_FAILURE(SaveOne());
}

}  // namespace
}  // namespace ckptdb::testing
