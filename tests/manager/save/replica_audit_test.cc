// SPDX-License-Identifier: Apache-2.0
// ManagerOptions::save.audit_replicas: a save detects tensors and tables that
// should be equal on all ranks and are not.
#include "manager/tables.h"
#include "tests/manager/run_ranks.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

class ReplicaAuditTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kWorld = 3;

  // A rank's state: equal on all ranks, unless a test changes it.
  struct Replica {
    std::vector<float> weights = std::vector<float>(1000, 1.5F);
    std::vector<float> bias = std::vector<float>(10, 0.5F);
    std::vector<float> shard = std::vector<float>(4);
    std::vector<float> rows = std::vector<float>(200, 2.5F);
  };
  using Change = std::function<void(uint32_t rank, Replica* replica)>;

  // Saves one step on all ranks. Returns the results by rank.
  std::vector<absl::Status> Save(const Change& change) {
    return OnRanks(kWorld, [&](uint32_t rank, auto ranks) {
      Replica replica;
      replica.shard.assign(4, static_cast<float>(rank));
      change(rank, &replica);
      return SaveOn(rank, &replica, std::move(ranks));
    });
  }

  TempDir dir_;
  bool audit_ = true;

 private:
  absl::Status SaveOn(uint32_t rank, Replica* replica,
                      std::unique_ptr<Coordinator> ranks) const {
    ModelState model;
    EXPECT_OK(model.AddTensor(
        "weights", TensorState::Of(replica->weights.data(), {1000})));
    EXPECT_OK(
        model.AddTensor("bias", TensorState::Of(replica->bias.data(), {10})));
    EXPECT_OK(model.AddTensor("shard", ShardOf(replica->shard.data(), {4},
                                               {4 * kWorld}, {4 * rank})));
    VectorTable table(100, {Array("embedding", replica->rows.data(), 2)});
    EXPECT_OK(model.AddTable("items", &table, TableSharding::Replicated()));
    ManagerOptions options{.path = dir_.path() + "/store"};
    options.schedule.permanent = SaveAtSteps({});
    options.save.audit_replicas = audit_;
    options.ranks.deadline = absl::Seconds(60);
    auto manager = CheckpointManager::Open(options, &model, std::move(ranks));
    if (!manager.ok()) return manager.status();
    EXPECT_OK((*manager)->Step());
    const auto save = (*manager)->Save();
    return save.ok() ? save->WaitCommitted().status() : save.status();
  }
};

TEST_F(ReplicaAuditTest, PassesEqualReplicas) {
  EXPECT_THAT(Save([](uint32_t, Replica*) {}), Each(IsOk()));
}

TEST_F(ReplicaAuditTest, NamesTheTensorAndTheRanksThatDiffer) {
  EXPECT_THAT(
      Save([](uint32_t rank, Replica* replica) {
        if (rank > 0) replica->bias[9] += 0.25F;
      }),
      Each(FailedPrecondition("audit_replicas: replicas differ from "
                              "those of rank 0: tensor \"bias\" on ranks "
                              "1, 2; apply",
                              Not(HasSubstr("weights")))));
}

TEST_F(ReplicaAuditTest, NamesTheTableThatDiffersInOneRow) {
  EXPECT_THAT(Save([](uint32_t rank, Replica* replica) {
                if (rank == 2) replica->rows[150] = 0;
              }),
              Each(FailedPrecondition("table \"items\" on rank 2;")));
}

TEST_F(ReplicaAuditTest, RunsOnlyWhenEnabled) {
  audit_ = false;
  EXPECT_THAT(Save([](uint32_t rank, Replica* replica) {
                replica->bias[0] = static_cast<float>(rank);
              }),
              Each(IsOk()));
}

}  // namespace
}  // namespace ckptdb::testing
