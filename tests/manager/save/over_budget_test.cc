// SPDX-License-Identifier: Apache-2.0
// Saves of more bytes than the budget for copies: the last part is copied.
#include <algorithm>

#include "tests/manager/manager_fixture.h"
#include "tests/support/long_run.h"

namespace ckptdb::testing {
namespace {

class OverBudgetTest : public ManagerTest {
 protected:
  // Saves a tensor of that many bytes as step 0, and overwrites it at once.
  void SaveAndChange(size_t bytes) {
    weights_.resize(bytes / sizeof(uint32_t));
    for (size_t i = 0; i < weights_.size(); ++i) weights_[i] = Value(i);
    ModelState model;
    ASSERT_OK(model.AddTensor(
        "w", TensorState::Of(reinterpret_cast<int32_t*>(weights_.data()),
                             {static_cast<int64_t>(weights_.size())})));
    ASSERT_OK_AND_ASSIGN(const auto manager,
                         CheckpointManager::Open(options_, &model));
    ASSERT_OK_AND_ASSIGN(const PendingSave save, manager->Save());
    ASSERT_OK(save.WaitStaged());
    std::fill(weights_.begin(), weights_.end(), 0U);
    ASSERT_OK(manager->WaitUntilFinished());
    ASSERT_OK(manager->Restore());
    for (size_t i = 0; i < weights_.size(); ++i) {
      ASSERT_EQ(weights_[i], Value(i)) << i;
    }
  }

  static uint32_t Value(size_t i) {
    return static_cast<uint32_t>(i * 2654435761U + 1);
  }

  std::vector<uint32_t> weights_;
};

// All values are copied, although not with their ids: the model may change
// while nothing is on disk.
TEST_F(OverBudgetTest, ModelMayChangeOnceTheRestIsRead) {
  options_.save.arena_bytes = 200;
  Start();
  gate_.Close();
  TrainTo(2);
  EXPECT_TRUE(manager_->IsSavingInProgress());
  model_->Train(3);
  gate_.Open();
  ASSERT_OK(manager_->WaitUntilFinished());
  ASSERT_EQ(reports_.size(), 1U);
  EXPECT_GT(reports_[0].copied_bytes, 0U);
  EXPECT_LE(reports_[0].copied_bytes, options_.save.arena_bytes);
  ExpectStepHolds(2);
}

TEST_F(OverBudgetTest, CopiesAsMuchAsFits) {
  constexpr size_t kBytes = size_t{24} << 20;
  constexpr size_t kChunk = size_t{256} << 10;
  options_.save.arena_bytes = kBytes / 3 + kChunk / 2;
  ASSERT_NO_FATAL_FAILURE(SaveAndChange(kBytes));
  ASSERT_EQ(reports_.size(), 1U);
  EXPECT_EQ(reports_[0].copied_bytes, kBytes / 3);
}

TEST_F(OverBudgetTest, PeakMemoryIsBoundedByTheBudget) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer allocates memory itself";
  const auto kibibytes = [](const std::string& name) {
    std::ifstream lines("/proc/self/status");
    std::string word;
    uint64_t number = 0;
    while (lines >> word) {
      if (word == name && lines >> number) return number;
    }
    return uint64_t{0};
  };
  constexpr size_t kBytes = size_t{320} << 20;
  options_.save.arena_bytes = uint64_t{16} << 20;
  options_.store.stage_threads = 2;
  options_.restore.read.threads = 2;
  weights_.resize(kBytes / sizeof(uint32_t), 1);
  const uint64_t before = kibibytes("VmRSS:");
  ASSERT_NO_FATAL_FAILURE(SaveAndChange(kBytes));
  // Twice the bound in docs/design.md, for two workers and kept pages.
  constexpr uint64_t kStagingKib = uint64_t{128} << 10;
  EXPECT_LE(kibibytes("VmHWM:"),
            before + (options_.save.arena_bytes >> 10) + kStagingKib);
}

}  // namespace
}  // namespace ckptdb::testing
