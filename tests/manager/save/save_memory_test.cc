// SPDX-License-Identifier: Apache-2.0
// The memory that a manager allocates for small saves.
#include <iostream>

#include "schema/bytes/limits.h"
#include "schema/types.h"
#include "tests/manager/run_ranks.h"
#include "tests/manager/test_options.h"
#include "tests/support/allocated_bytes.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

// The first saves allocate memory that later ones reuse.
constexpr uint64_t kFirstSaves = 8;
constexpr uint64_t kSaves = 40;
// Into separate files, and into the write batch.
constexpr uint64_t kSavedBytes = 5'000'000;
static_assert(kSavedBytes > kInlineBytes);
constexpr uint64_t kInBatchBytes = kInlineBytes / 8 * 5;

// A rank's shard of a tensor, changed before each save.
class SmallTrainer {
 public:
  SmallTrainer(uint64_t bytes, const Coordinator& ranks)
      : shard_(bytes / sizeof(float)) {
    const auto elements = static_cast<int64_t>(shard_.size());
    EXPECT_OK(model_.AddTensor(
        "weights",
        ShardOf(shard_.data(), {elements}, {elements * ranks.world_size()},
                {elements * ranks.rank()})));
  }

  ModelState* model() { return &model_; }
  void Train() { shard_[0] += 1; }

 private:
  std::vector<float> shard_;
  ModelState model_;
};

class SaveMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kCountsAllocations) GTEST_SKIP() << "not in sanitizer builds";
    options_.path = dir_.path() + "/store";
    options_.retention.keep = LatestN(2);
  }

  // Repeatedly saves that many bytes of all ranks. Returns the bytes allocated
  // for each saved byte, after warming up.
  double AllocatedForEachByte(uint64_t bytes, uint32_t world_size) {
    OnRanks(world_size, [&](uint32_t, auto ranks) {
      RunRank(bytes / world_size, std::move(ranks));
      return absl::OkStatus();
    });
    const double times = static_cast<double>(allocated_bytes_) /
                         static_cast<double>(kSaves * bytes);
    std::cout << "allocated " << times << " times what was saved" << std::endl;
    return times;
  }

  void RunRank(uint64_t bytes, std::unique_ptr<Coordinator> ranks) {
    const uint32_t rank = ranks->rank();
    SmallTrainer trainer(bytes, *ranks);
    ASSERT_OK_AND_ASSIGN(
        const auto manager,
        CheckpointManager::Open(options_, trainer.model(), std::move(ranks)));
    uint64_t before = 0;
    for (uint64_t i = 0; i < kFirstSaves + kSaves; ++i) {
      if (i == kFirstSaves) before = AllocatedBytes();
      trainer.Train();
      ASSERT_OK(StepAndSave(manager.get()));
    }
    if (rank == kOwnerRank) allocated_bytes_ = AllocatedBytes() - before;
  }

  TempDir dir_;
  ManagerOptions options_;
  uint64_t allocated_bytes_ = 0;
};

struct SaveCost {
  const char* name;
  uint64_t bytes;
  uint32_t ranks;
  double most;  // times the saved bytes
};

class SaveCostTest : public SaveMemoryTest,
                     public ::testing::WithParamInterface<SaveCost> {};

TEST_P(SaveCostTest, IsBounded) {
  const double allocated =
      AllocatedForEachByte(GetParam().bytes, GetParam().ranks);
  EXPECT_GT(allocated, 1);
  EXPECT_LE(allocated, GetParam().most);
}

// A single rank encodes nothing for others; each of several has the buffers of
// a separate file. For a write batch: the staged part, the batch, the log's
// buffer, the memtable, the table that it is flushed to, and the compactions of
// earlier tables; several ranks also allocate the messages, and the entries
// copied out of them.
INSTANTIATE_TEST_SUITE_P(
    Saves, SaveCostTest,
    ::testing::Values(SaveCost{"OneRank", kSavedBytes, 1, 2},
                      SaveCost{"SeveralRanks", kSavedBytes, 4, 3},
                      SaveCost{"WriteBatch", kInBatchBytes, 1, 14},
                      SaveCost{"WriteBatchOfSeveralRanks", kInBatchBytes, 4,
                               16}),
    [](const auto& cost) { return cost.param.name; });

}  // namespace
}  // namespace ckptdb::testing
