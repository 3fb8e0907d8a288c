// SPDX-License-Identifier: Apache-2.0
// Managers of several ranks, each in a thread.
#ifndef CKPTDB_TESTS_MANAGER_RUN_RANKS_H_
#define CKPTDB_TESTS_MANAGER_RUN_RANKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "manager/checkpoint_manager.h"

namespace ckptdb::testing {

// Wraps the coordinator of each rank; the identity by default.
using WrapRanks = std::function<std::unique_ptr<Coordinator>(
    std::unique_ptr<Coordinator> ranks)>;

// Runs `body` as each of so many ranks, and returns how each has ended. `make`
// returns a Rank with a model, whose manager is then opened.
template <typename Rank>
std::vector<absl::Status> RunRanks(
    uint32_t world, const ManagerOptions& options,
    const std::function<Rank(uint32_t rank)>& make,
    const std::function<absl::Status(Rank*)>& body,
    const WrapRanks& wrap = nullptr) {
  ThreadGroup group(world);
  std::vector<absl::Status> statuses(world);
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < world; ++r) {
    threads.emplace_back([&, r] {
      Rank rank = make(r);
      std::unique_ptr<Coordinator> ranks = group.Join(r);
      if (wrap != nullptr) ranks = wrap(std::move(ranks));
      auto manager = CheckpointManager::Open(options, &rank.model->state,
                                             std::move(ranks));
      statuses[r] = manager.status();
      if (!manager.ok()) return;
      rank.manager = *std::move(manager);
      statuses[r] = body(&rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_MANAGER_RUN_RANKS_H_
