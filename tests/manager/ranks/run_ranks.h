// SPDX-License-Identifier: Apache-2.0
// Runs a test's ranks on threads, each with its own coordinator.
#ifndef CKPTDB_TESTS_MANAGER_RANKS_RUN_RANKS_H_
#define CKPTDB_TESTS_MANAGER_RANKS_RUN_RANKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "manager/coordinator.h"
#include "tests/manager/ranks/all_calls.h"
#include "tests/manager/ranks/rank_network.h"
#include "tests/support/on_threads.h"

namespace ckptdb::testing {

inline constexpr absl::Duration kShort = absl::Milliseconds(200);

using Statuses = std::vector<absl::Status>;
using Rank = std::function<absl::Status(Coordinator*)>;
using Join = std::function<std::unique_ptr<Coordinator>(uint32_t rank)>;

// Runs each rank on a separate thread, and returns their results.
inline Statuses RunRanks(uint32_t world_size, const Join& join,
                         const Rank& rank) {
  Statuses statuses(world_size);
  RunOnThreads(world_size, [&](uint32_t r) {
    const std::unique_ptr<Coordinator> ranks = join(r);
    statuses[r] = rank(ranks.get());
  });
  return statuses;
}

inline Join Over(RankNetwork* network) {
  return [=](uint32_t rank) { return MessageCoordinator(network->Join(rank)); };
}
inline Join Over(CollectiveGroup* group) {
  return
      [=](uint32_t rank) { return *CollectiveCoordinator(group->Join(rank)); };
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_MANAGER_RANKS_RUN_RANKS_H_
