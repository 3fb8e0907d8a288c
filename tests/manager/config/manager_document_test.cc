// SPDX-License-Identifier: Apache-2.0
// The loop of docs/manager.md, "Preemption": the code between the marks. That
// the document shows it is checked by tests/docs/samples_test.cc.
#include <atomic>
#include <csignal>

#include "tests/manager/run_ranks.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

// [preemption]
std::atomic<bool> sigterm = false;
void OnSigterm(int /*signal*/) { sigterm = true; }

absl::Status TrainUntilPreempted(CheckpointManager* manager, int64_t steps,
                                 const std::function<void()>& train) {
  while (manager->global_step() < steps) {
    train();
    if (sigterm.exchange(false)) manager->SetPreempted();
    CKPTDB_ASSIGN_OR_RETURN(const StepOutcome outcome, manager->Step());
    if (outcome.preempted) break;
  }
  CKPTDB_RETURN_IF_ERROR(manager->FinishTraining());
  return manager->Close();
}
// [preemption end]

absl::Status TrainAlone(const ManagerOptions& options, ModelState* model,
                        int64_t steps, const std::function<void()>& train) {
  std::signal(SIGTERM, OnSigterm);
  CKPTDB_ASSIGN_OR_RETURN(auto manager,
                          CheckpointManager::Open(options, model));
  return TrainUntilPreempted(manager.get(), steps, train);
}

absl::Status TrainAsRank(const ManagerOptions& options, ModelState* model,
                         std::unique_ptr<Coordinator> ranks, int64_t steps,
                         const std::function<void()>& train) {
  CKPTDB_ASSIGN_OR_RETURN(
      auto manager, CheckpointManager::Open(options, model, std::move(ranks)));
  return TrainUntilPreempted(manager.get(), steps, train);
}

class DocumentedLoopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.path = dir_.path() + "/store";
    options_.schedule.permanent = SaveOnPreemption();
  }
  void TearDown() override { std::signal(SIGTERM, SIG_DFL); }

  void ExpectSavedIsOnly(int64_t step) {
    ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(options_.path));
    ASSERT_EQ(reader->Steps().size(), 1U);
    EXPECT_EQ(reader->Steps()[0].version.step, step);
  }

  TempDir dir_;
  ManagerOptions options_;
};

TEST_F(DocumentedLoopTest, SavesOneRankOnSigterm) {
  int64_t trained = 0;
  ModelState model;
  ASSERT_OK(model.AddValue("trained", &trained));
  ASSERT_OK(TrainAlone(options_, &model, 1000, [&] {
    if (++trained == 5) std::raise(SIGTERM);
  }));
  EXPECT_EQ(trained, 5);
  ExpectSavedIsOnly(5);
}

TEST_F(DocumentedLoopTest, SavesSeveralRanksOnSigterm) {
  std::signal(SIGTERM, OnSigterm);
  constexpr uint32_t kRanks = 3;
  std::vector<int64_t> trained(kRanks);
  const auto run = [&](uint32_t rank, auto ranks) -> absl::Status {
    ModelState model;
    CKPTDB_RETURN_IF_ERROR(model.AddValue("trained", &trained[rank]));
    return TrainAsRank(options_, &model, std::move(ranks), 1'000'000,
                       [&, rank] {
                         if (++trained[rank] == 5 && rank == 1)
                           std::raise(SIGTERM);
                       });
  };
  EXPECT_THAT(OnRanks(kRanks, run), Each(IsOk()));
  EXPECT_LT(trained[0], 1'000'000);
  EXPECT_EQ(trained[1], trained[0]);
  EXPECT_EQ(trained[2], trained[0]);
  ExpectSavedIsOnly(trained[0]);
}

}  // namespace
}  // namespace ckptdb::testing
