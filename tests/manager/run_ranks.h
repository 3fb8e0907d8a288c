// SPDX-License-Identifier: Apache-2.0
// Managers of several ranks, each in a thread.
#ifndef CKPTDB_TESTS_MANAGER_RUN_RANKS_H_
#define CKPTDB_TESTS_MANAGER_RUN_RANKS_H_

#include "manager/checkpoint_manager.h"
#include "schema/status.h"
#include "tests/manager/test_model.h"
#include "tests/support/on_threads.h"

namespace ckptdb::testing {

// Wraps the coordinator of each rank; the identity by default.
using WrapRanks = std::function<std::unique_ptr<Coordinator>(
    std::unique_ptr<Coordinator> ranks)>;

// Calls `body` as each of so many ranks, and returns how each has ended.
inline std::vector<absl::Status> OnRanks(
    uint32_t world,
    const std::function<absl::Status(
        uint32_t rank, std::unique_ptr<Coordinator> ranks)>& body) {
  ThreadGroup group(world);
  std::vector<absl::Status> statuses(world);
  RunOnThreads(world, [&](uint32_t rank) {
    statuses[rank] = body(rank, group.Join(rank));
  });
  return statuses;
}

// Opens a manager on each rank, with the state that `add` registers, and calls
// `body`.
inline std::vector<absl::Status> RunManagers(
    uint32_t world, const ManagerOptions& options,
    const std::function<absl::Status(uint32_t rank, ModelState*)>& add,
    const std::function<absl::Status(uint32_t rank, CheckpointManager*)>&
        body) {
  return OnRanks(world, [&](uint32_t rank, auto ranks) -> absl::Status {
    ModelState model;
    CKPTDB_RETURN_IF_ERROR(add(rank, &model));
    CKPTDB_ASSIGN_OR_RETURN(
        const auto manager,
        CheckpointManager::Open(options, &model, std::move(ranks)));
    return body(rank, manager.get());
  });
}

// Opens a manager of a TestModel on each rank, sharded by modulo unless the
// options say otherwise, and calls `body`. `adjust` changes a rank's
// options.
inline void RunModels(
    uint32_t world, ManagerOptions options,
    const std::function<void(uint32_t rank, CheckpointManager*, TestModel*)>&
        body,
    const std::function<void(uint32_t rank, ManagerOptions*)>& adjust =
        nullptr) {
  if (options.ranks.sharding.kind() == Item::Sharding::kUndeclared) {
    options.ranks.sharding = TableSharding::ByModulo();
  }
  OnRanks(world, [&](uint32_t rank, auto ranks) {
    TestModel model;
    model.owns = [=](int64_t id) { return id % world == rank; };
    ManagerOptions own = options;
    if (adjust != nullptr) adjust(rank, &own);
    const auto manager =
        CheckpointManager::Open(own, &model.state, std::move(ranks));
    EXPECT_OK(manager);
    if (manager.ok()) body(rank, manager->get(), &model);
    return absl::OkStatus();
  });
}

// Runs `body` as each of so many ranks, and returns how each has ended. `make`
// returns a Rank with a model, whose manager is then opened.
template <typename Rank>
std::vector<absl::Status> RunRanks(
    uint32_t world, const ManagerOptions& options,
    const std::function<Rank(uint32_t rank)>& make,
    const std::function<absl::Status(Rank*)>& body,
    const WrapRanks& wrap = nullptr) {
  return OnRanks(world, [&](uint32_t r, auto ranks) -> absl::Status {
    Rank rank = make(r);
    if (wrap != nullptr) ranks = wrap(std::move(ranks));
    CKPTDB_ASSIGN_OR_RETURN(
        rank.manager,
        CheckpointManager::Open(options, &rank.model->state, std::move(ranks)));
    return body(&rank);
  });
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_MANAGER_RUN_RANKS_H_
