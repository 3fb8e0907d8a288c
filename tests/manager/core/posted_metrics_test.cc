// SPDX-License-Identifier: Apache-2.0
// An evaluator posts metrics while the trainer runs, and the trainer keeps the
// best steps accordingly.
#include "tests/manager/manager_fixture.h"

namespace ckptdb::testing {
namespace {

class PostedMetricsTest : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    options_.restore.best = KeepPolicy::BestOptions{.metric = "auc"};
    options_.retention.keep =
        BestN({.metric = "auc", .keep_without_metric = false}) | LatestN(1);
  }
  // A read-only manager with a separate model.
  void Evaluate() {
    ManagerOptions options;
    options.path = options_.path;
    options.read_only = true;
    copy_ = std::make_unique<TestModel>();
    ASSERT_OK_AND_ASSIGN(evaluator_,
                         CheckpointManager::Open(options, &copy_->state));
  }
  void PostOf(int64_t step, double auc) {
    ASSERT_OK(evaluator_->WaitForStep(absl::Minutes(1)));
    ASSERT_EQ(evaluator_->global_step(), step);
    ASSERT_OK(evaluator_->reader()->PostMetrics(step, {{"auc", auc}}));
  }
  std::unique_ptr<TestModel> copy_;
  std::unique_ptr<CheckpointManager> evaluator_;
};

TEST_F(PostedMetricsTest, BestStepIsKeptAccordingToPostedMetrics) {
  Start();
  TrainAndWait(2);
  Evaluate();
  PostOf(2, 0.5);
  TrainAndWait(4);
  PostOf(4, 0.75);
  TrainAndWait(6);
  EXPECT_THAT(Steps(), ElementsAre(4, 6));
  PostOf(6, 0.25);
  TrainAndWait(8);
  EXPECT_THAT(Steps(), ElementsAre(4, 8));
  ASSERT_OK_AND_ASSIGN(const StepRecord best, manager_->BestStep());
  EXPECT_EQ(best.version.step, 4);
  EXPECT_EQ(best.metrics.at("auc"), 0.75);
  EXPECT_THAT(warnings_, IsEmpty());
}

// Pins a step that the next save would have removed.
TEST_F(PostedMetricsTest, RequestedPinKeepsTheStep) {
  Start();
  TrainAndWait(2);
  Evaluate();
  ASSERT_OK(evaluator_->reader()->RequestPin(2));
  TrainAndWait(6);
  EXPECT_THAT(Steps(), ElementsAre(2, 6));
}

// Posts made while no trainer ran apply before its first restore.
TEST_F(PostedMetricsTest, StartingTrainerTakesPostedMetrics) {
  options_.retention.keep = LatestN(3);
  Start();
  TrainAndWait(4);
  ASSERT_OK(manager_->Close());
  Evaluate();
  ASSERT_OK(evaluator_->reader()->PostMetrics(2, {{"auc", 0.75}}));
  ASSERT_OK(evaluator_->reader()->PostMetrics(4, {{"auc", 0.5}}));
  Start();
  EXPECT_EQ(Restored({.best = true}), 2);
}

TEST_F(PostedMetricsTest, WarnsOnceOfASkippedPost) {
  options_.retention.keep = LatestN(1);
  Start();
  TrainAndWait(2);
  const std::string name = "01234567-89ab-cdef-0123-456789abcdef";
  std::ofstream(options_.path + "/posts/" + name) << "not a post";
  TrainAndWait(8);
  EXPECT_THAT(warnings_,
              ElementsAre(AllOf(
                  HasSubstr("posts/" + name),
                  HasSubstr(" was ignored: post: size 10 is too small"))));
  EXPECT_THAT(Steps(), ElementsAre(8));
}

}  // namespace
}  // namespace ckptdb::testing
