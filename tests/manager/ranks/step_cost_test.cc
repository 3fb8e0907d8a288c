// SPDX-License-Identifier: Apache-2.0
// What Step costs four ranks when no step is due: it prints the times of a
// thousand steps over each coordinator. In these the ranks exchange notices
// four times, and wait for them because the steps take no other time.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "tests/manager/ranks/run_ranks.h"
#include "tests/manager/test_options.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

constexpr uint32_t kStepRanks = 4;
constexpr int64_t kCountedSteps = 1000;

// The measurements of one rank.
struct StepTimes {
  std::vector<double> micros;
  int64_t meetings = 0;
};

class StepCostTest : public ::testing::Test {
 protected:
  static absl::Status Train(const ManagerOptions& options,
                            std::unique_ptr<Coordinator> ranks,
                            StepTimes* times) {
    float weight = 0;
    ModelState model;
    CKPTDB_RETURN_IF_ERROR(model.AddTensor("w", TensorState::Of(&weight, {1})));
    CKPTDB_ASSIGN_OR_RETURN(
        const auto manager,
        CheckpointManager::Open(options, &model, std::move(ranks)));
    while (manager->global_step() < kCountedSteps) {
      const auto begin = std::chrono::steady_clock::now();
      CKPTDB_ASSIGN_OR_RETURN(const StepOutcome outcome, manager->Step());
      const std::chrono::duration<double, std::micro> time =
          std::chrono::steady_clock::now() - begin;
      times->micros.push_back(time.count());
      if (!absl::StartsWith(outcome.decision.reason, "the ranks did not")) {
        ++times->meetings;
      }
    }
    return manager->Close();
  }

  // Trains over a coordinator, and returns the number of meetings.
  int64_t TrainAll(const std::string& name, absl::Duration interval,
                   const Join& join) {
    ManagerOptions options =
        TestOptions(absl::StrCat(dir_.path(), "/", stores_++), 10'000);
    options.ranks.notice_interval = interval;
    std::vector<StepTimes> times(kStepRanks);
    Statuses statuses(kStepRanks);
    RunOnThreads(kStepRanks, [&](uint32_t rank) {
      statuses[rank] = Train(options, join(rank), &times[rank]);
    });
    EXPECT_THAT(statuses, Each(IsOk()));
    std::vector<double> all;
    for (const StepTimes& of_rank : times) {
      EXPECT_EQ(of_rank.meetings, times[0].meetings);
      all.insert(all.end(), of_rank.micros.begin(), of_rank.micros.end());
    }
    if (all.empty()) return 0;
    std::sort(all.begin(), all.end());
    std::cout << absl::StreamFormat(
        "%s, interval %s: %d meetings, a step takes %.2f us (median), %.2f us "
        "(99 of 100), %.1f us (mean)\n",
        name, absl::FormatDuration(interval), times[0].meetings,
        all[all.size() / 2], all[all.size() * 99 / 100],
        std::accumulate(all.begin(), all.end(), 0.0) /
            static_cast<double>(all.size()));
    return times[0].meetings;
  }

  void ExpectNoMeeting(const std::string& name,
                       const std::function<Join()>& make) {
    EXPECT_EQ(TrainAll(name, absl::ZeroDuration(), make()), kCountedSteps);
    EXPECT_EQ(TrainAll(name, ManagerOptions().ranks.notice_interval, make()),
              0);
  }

 private:
  TempDir dir_;
  int stores_ = 0;
};

TEST_F(StepCostTest, OverThreads) {
  ExpectNoMeeting("ThreadGroup", [] {
    const auto group = std::make_shared<ThreadGroup>(kStepRanks);
    return [group](uint32_t rank) { return group->Join(rank); };
  });
}

TEST_F(StepCostTest, OverMessages) {
  std::vector<std::unique_ptr<RankNetwork>> networks;
  ExpectNoMeeting("MessageCoordinator", [&] {
    networks.push_back(
        std::make_unique<RankNetwork>(kStepRanks, NetworkFaults()));
    return Over(networks.back().get());
  });
}

TEST_F(StepCostTest, OverCollectives) {
  std::vector<std::unique_ptr<CollectiveGroup>> groups;
  ExpectNoMeeting("CollectiveCoordinator", [&] {
    groups.push_back(std::make_unique<CollectiveGroup>(kStepRanks));
    return Over(groups.back().get());
  });
}

}  // namespace
}  // namespace ckptdb::testing
