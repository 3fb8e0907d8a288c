// SPDX-License-Identifier: Apache-2.0
// ManagerOptions::save.audit_replicas: a save detects replicated tensors and
// tables in device memory that differ between ranks, with the stand-in.
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "manager/checkpoint_manager.h"
#include "tests/cuda/device_fixture.h"
#include "tests/cuda/tables/device_trainer.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using Order = CudaStandin::Order;

// A rank's replicas on the device, equal on all ranks unless a test changes
// them.
struct DeviceReplica {
  OnDevice weights;
  OnDevice apart;  // with gaps between its rows
  std::unique_ptr<DeviceTrainer> trainer;
};

class DeviceReplicasTest : public ::testing::TestWithParam<Order> {
 protected:
  static constexpr uint32_t kWorld = 2;

  void SetUp() override {
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      DeviceReplica& replica = replicas_[rank];
      replica.weights = Garbage(fixture_.Make(3, kMiB + 8), rank);
      replica.apart = Garbage(fixture_.Make(100, 48, 16), rank);
      fixture_.Train(replica.weights, 1);
      fixture_.Train(replica.apart, 1);
      replica.trainer = std::make_unique<DeviceTrainer>(fixture_.device(),
                                                        DeviceTrainerOptions());
      // The ranks hold their rows in different places.
      std::vector<int64_t> ids = {3, 7, 250, 40};
      if (rank == 1) std::swap(ids.front(), ids.back());
      ASSERT_OK(replica.trainer->Upsert(ids, 1));
    }
  }

  // Fills the memory, gaps included, with bytes that differ between ranks.
  static OnDevice Garbage(const OnDevice& tensor, uint32_t rank) {
    std::memset(tensor.memory, static_cast<int>(rank + 1),
                tensor.rows * tensor.stride_bytes);
    return tensor;
  }
  // Queues a change of the last byte.
  void Flip(const OnDevice& tensor) const {
    const uint64_t last =
        (tensor.rows - 1) * tensor.stride_bytes + tensor.row_bytes - 1;
    ASSERT_EQ(CudaStandin::Queue(
                  fixture_.stream(), "flip", [=] { tensor.memory[last] ^= 1; },
                  {{tensor.memory, tensor.rows * tensor.stride_bytes}}),
              cudaSuccess);
  }
  // Saves a step on all ranks. Returns the results by rank.
  std::vector<absl::Status> Save(bool audit) {
    ThreadGroup group(kWorld);
    std::vector<absl::Status> statuses(kWorld);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      threads.emplace_back([&, rank] {
        statuses[rank] = SaveOn(rank, audit, group.Join(rank));
      });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }
  static auto Differs(const std::string& what) {
    return Each(StatusIs(
        absl::StatusCode::kFailedPrecondition,
        HasSubstr(absl::StrCat("audit_replicas: replicas differ from those of "
                               "rank 0: ",
                               what, " on rank 1; apply"))));
  }

  const TempDir dir_;
  DeviceFixture fixture_{GetParam()};
  DeviceReplica replicas_[kWorld];

 private:
  absl::Status SaveOn(uint32_t rank, bool audit,
                      std::unique_ptr<Coordinator> ranks) {
    const DeviceReplica& replica = replicas_[rank];
    ModelState model;
    EXPECT_OK(model.AddTensor("weights", fixture_.StateOf(replica.weights)));
    EXPECT_OK(model.AddTensor("apart", fixture_.StateOf(replica.apart)));
    EXPECT_OK(model.AddTable("user", replica.trainer->table(),
                             TableSharding::Replicated()));
    ManagerOptions options{.path = dir_.path() + "/store"};
    options.schedule.permanent = SaveAtSteps({});
    options.save.audit_replicas = audit;
    options.ranks.deadline = absl::Seconds(60);
    const auto manager =
        CheckpointManager::Open(options, &model, std::move(ranks));
    if (!manager.ok()) return manager.status();
    EXPECT_OK((*manager)->Step());
    const auto save = (*manager)->Save();
    return save.ok() ? save->WaitCommitted().status() : save.status();
  }
};

TEST_P(DeviceReplicasTest, PassesEqualValuesInDifferentMemory) {
  EXPECT_THAT(Save(/*audit=*/true), Each(IsOk()));
}

TEST_P(DeviceReplicasTest, NamesATensorThatDiffersInOneByte) {
  ASSERT_NO_FATAL_FAILURE(Flip(replicas_[1].weights));
  EXPECT_THAT(Save(/*audit=*/true), Differs("tensor \"weights\""));
}

TEST_P(DeviceReplicasTest, NamesATensorWithGapsThatDiffersInOneByte) {
  ASSERT_NO_FATAL_FAILURE(Flip(replicas_[1].apart));
  EXPECT_THAT(Save(/*audit=*/true), Differs("tensor \"apart\""));
}

TEST_P(DeviceReplicasTest, NamesATableThatDiffersInOneRow) {
  ASSERT_OK(replicas_[1].trainer->Upsert({250}, 2));
  EXPECT_THAT(Save(/*audit=*/true), Differs("table \"user\""));
}

TEST_P(DeviceReplicasTest, NamesATableWithAnotherRow) {
  ASSERT_OK(replicas_[1].trainer->Upsert({8}, 1));
  EXPECT_THAT(Save(/*audit=*/true), Differs("table \"user\""));
}

TEST_P(DeviceReplicasTest, IsNotAuditedUnlessEnabled) {
  ASSERT_NO_FATAL_FAILURE(Flip(replicas_[1].weights));
  ASSERT_OK(replicas_[1].trainer->Upsert({250}, 2));
  EXPECT_THAT(Save(/*audit=*/false), Each(IsOk()));
}

std::string NameOfOrder(const ::testing::TestParamInfo<Order>& given) {
  if (given.param == Order::kLazy) return "Lazy";
  return given.param == Order::kEager ? "Eager" : "Random";
}

INSTANTIATE_TEST_SUITE_P(Orders, DeviceReplicasTest,
                         ::testing::Values(Order::kLazy, Order::kEager,
                                           Order::kRandom),
                         NameOfOrder);

}  // namespace
}  // namespace ckptdb::testing
