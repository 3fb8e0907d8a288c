// SPDX-License-Identifier: Apache-2.0
// A restore that fails on one rank after the others have finished it.
#include <gmock/gmock.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "db/row_tracker.h"
#include "manager/checkpoint_manager.h"
#include "schema/status.h"
#include "tests/manager/test_model.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

class FailingTracker : public RowTracker {
 public:
  // The error that Take returns from now on.
  void FailTakes(absl::Status status) { failure_ = std::move(status); }
  absl::StatusOr<Changes> Take(Consumer consumer) override {
    if (!failure_.ok()) return failure_;
    return RowTracker::Take(consumer);
  }

 private:
  absl::Status failure_;
};

// A table whose tracker fails, like one in the memory of a device.
class FailingTable : public TestTable {
 public:
  FailingTracker* tracker() override { return &tracker_; }

 private:
  FailingTracker tracker_;
};

class PartlyRestoredTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kWorld = 2;

  struct Rank {
    uint32_t rank = 0;
    FailingTable table;
    std::unique_ptr<CheckpointManager> manager;
  };

  // Calls `body` on all ranks at once.
  std::vector<absl::Status> OnAll(
      const std::function<absl::Status(Rank*)>& body) {
    std::vector<absl::Status> statuses(kWorld);
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < kWorld; ++r) {
      threads.emplace_back([&, r] { statuses[r] = body(&ranks_[r]); });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }
  // Opens a manager on a rank and saves step 1. Each rank has other rows.
  absl::Status Start(Rank* rank, ModelState* model,
                     std::unique_ptr<Coordinator> ranks) const {
    rank->table.Set(rank->rank, 1);
    CKPTDB_RETURN_IF_ERROR(
        model->AddTable("user", &rank->table, TableSharding::ByModulo()));
    ManagerOptions options{.path = dir_.path() + "/store"};
    options.schedule.permanent = SaveEveryNSteps(1);
    options.save.async = false;
    options.ranks.deadline = absl::Seconds(60);
    CKPTDB_ASSIGN_OR_RETURN(
        rank->manager,
        CheckpointManager::Open(options, model, std::move(ranks)));
    return rank->manager->StepTo(1).status();
  }

  TempDir dir_;
  Rank ranks_[kWorld];
};

TEST_F(PartlyRestoredTest, NoRankSaves_WhenTheRestoreOfAnotherRankFailed) {
  ThreadGroup group(kWorld);
  ModelState models[kWorld];
  const auto all = OnAll([&](Rank* rank) {
    rank->rank = static_cast<uint32_t>(rank - ranks_);
    CKPTDB_RETURN_IF_ERROR(
        Start(rank, &models[rank->rank], group.Join(rank->rank)));
    const auto take_fails = absl::UnavailableError("the device was reset");
    if (rank->rank == 1) rank->table.tracker()->FailTakes(take_fails);
    const absl::Status restored = rank->manager->Restore().status();
    EXPECT_EQ(restored, rank->rank == 1 ? take_fails : absl::OkStatus());
    rank->table.tracker()->FailTakes(absl::OkStatus());
    // Both ranks refuse, the one that failed and the one that learns of it.
    EXPECT_THAT(
        rank->manager->StepTo(2),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 AllOf(HasSubstr("rank 1: "), HasSubstr("partly written"),
                       HasSubstr("the restore of step 1"))));
    CKPTDB_RETURN_IF_ERROR(rank->manager->Restore().status());
    CKPTDB_RETURN_IF_ERROR(rank->manager->StepTo(2).status());
    return rank->manager->Close();
  });
  EXPECT_THAT(all, Each(IsOk()));
  for (Rank& rank : ranks_) rank.manager.reset();
}

}  // namespace
}  // namespace ckptdb::testing
