// SPDX-License-Identifier: Apache-2.0
// The memory that a manager allocates for small saves.
#include <gmock/gmock.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "manager/checkpoint_manager.h"
#include "schema/bytes/limits.h"
#include "schema/types.h"
#include "tests/support/allocated_bytes.h"
#include "tests/support/status_matchers.h"
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
    TensorState tensor = TensorState::Of(shard_.data(), {elements});
    tensor.global_shape = {elements * ranks.world_size()};
    tensor.offset = {elements * ranks.rank()};
    EXPECT_OK(model_.AddTensor("weights", tensor));
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
    ThreadGroup group(world_size);
    std::vector<std::thread> ranks;
    for (uint32_t rank = 0; rank < world_size; ++rank) {
      ranks.emplace_back(
          [&, rank] { RunRank(bytes / world_size, group.Join(rank)); });
    }
    for (std::thread& rank : ranks) rank.join();
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
      ASSERT_OK(manager->Step());
      ASSERT_OK(manager->Save());
      ASSERT_OK(manager->WaitUntilFinished());
    }
    if (rank == kOwnerRank) allocated_bytes_ = AllocatedBytes() - before;
  }

  TempDir dir_;
  ManagerOptions options_;
  uint64_t allocated_bytes_ = 0;
};

// A single rank encodes nothing for others.
TEST_F(SaveMemoryTest, OneRankAllocatesAtMostTwiceItsBytes) {
  constexpr double kMost = 2;
  const double allocated = AllocatedForEachByte(kSavedBytes, 1);
  EXPECT_GT(allocated, 1);
  EXPECT_LE(allocated, kMost);
}

// Each rank has the buffers of a separate file.
TEST_F(SaveMemoryTest, SeveralRanksAllocateAtMostThriceTheirBytes) {
  constexpr double kMost = 3;
  const double allocated = AllocatedForEachByte(kSavedBytes, 4);
  EXPECT_GT(allocated, 1);
  EXPECT_LE(allocated, kMost);
}

// The staged part, the batch, the log's buffer, the memtable, the table that it
// is flushed to, and the compactions of earlier tables.
TEST_F(SaveMemoryTest, WriteBatchAllocatesAtMostFourteenTimesItsBytes) {
  constexpr double kMost = 14;
  const double allocated = AllocatedForEachByte(kInBatchBytes, 1);
  EXPECT_GT(allocated, 1);
  EXPECT_LE(allocated, kMost);
}

// Several ranks also allocate the messages, and the entries copied out of them.
TEST_F(SaveMemoryTest, WriteBatchOfSeveralRanksAllocatesTheirMessagesToo) {
  constexpr double kMost = 16;
  const double allocated = AllocatedForEachByte(kInBatchBytes, 4);
  EXPECT_GT(allocated, 1);
  EXPECT_LE(allocated, kMost);
}

}  // namespace
}  // namespace ckptdb::testing
