// SPDX-License-Identifier: Apache-2.0
// Captures of tables in device memory that are dropped, that fail, or whose set
// was modified, with the stand-in: they leave no work and no memory behind.
#include <string>
#include <vector>

#include "cuda/device_table.h"
#include "tests/cuda/tables/device_table_fixture.h"
#include "tests/cuda/tables/device_trainer.h"

namespace ckptdb::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using CapturedRows = DeviceTrainer::Rows;

// A capture that nobody fetches, while its table continues to change.
TEST_P(DeviceTableTest, DroppedCaptureLeavesNothingBehind) {
  Make();
  ASSERT_OK(trainer_->Upsert({1, 2}, 1));
  {
    ASSERT_OK_AND_ASSIGN(const auto captured, table_->Capture(nullptr));
    ASSERT_OK(trainer_->Upsert({1}, 2));
  }
  ASSERT_OK_AND_ASSIGN(const auto rows, table_->AllRows());
  EXPECT_EQ(trainer_->RowsOf(*rows), trainer_->rows());
}

// A dropped capture waits for its gather before it releases its memory: a
// larger capture frees that memory, because there is no room for both.
TEST_P(DeviceTableTest, DroppedCaptureWaitsBeforeItsMemoryIsFreed) {
  for (const bool fetched : {false, true}) {
    Open(SmallRing(/*staging_bytes=*/16 << 10));
    DeviceTrainerOptions options;
    options.with_ids = false;
    Make(options);
    ASSERT_OK(trainer_->Upsert({1, 2}, 1));
    const std::vector<int64_t> two = {1, 2};
    const absl::Span<const int64_t> ids = two;
    {
      ASSERT_OK_AND_ASSIGN(const auto dropped, table_->Capture(&ids));
      if (fetched) {
        ASSERT_OK(dropped->Fetch());
      }
    }
    ASSERT_OK_AND_ASSIGN(const auto captured, table_->Capture(nullptr));
    ASSERT_OK(captured->Fetch());
    EXPECT_EQ(trainer_->RowsOf(*captured), trainer_->rows());
    EXPECT_THAT(CudaStandin::violations(), IsEmpty());
  }
}

// While the capture still exists, its buffers are already reused, by the
// restore of a tensor.
TEST_P(DeviceTableTest, FailedFetchLeavesNoCopyInFlight) {
  DeviceTrainerOptions options;
  options.with_ids = false;
  options.rows = 3000;
  options.dim = 255;
  Make(options);
  const DeviceMemory memory(1 << 20);
  TensorState tensor = TensorState::Of(memory.get<uint8_t>(), {1 << 20});
  tensor.device = device_.get();
  int64_t failed = 0;
  for (int64_t call = 1; call <= 30; ++call) {
    SCOPED_TRACE(call);
    ASSERT_OK(trainer_->Upsert({1, 20, 300}, call));
    ASSERT_OK_AND_ASSIGN(const auto captured, table_->Capture(nullptr));
    CudaStandin::FailCall(CudaStandin::calls() + call, cudaErrorUnknown);
    failed += captured->Fetch().ok() ? 0 : 1;
    CudaStandin::FailCall(0, cudaSuccess);
    const std::string bytes(memory.bytes(), static_cast<char>(call));
    ASSERT_OK_AND_ASSIGN(const auto upload,
                         device_->BeginUpload("t", tensor, bytes.size()));
    ASSERT_OK(upload->Write(0, bytes));
    ASSERT_OK(upload->Finish());
    EXPECT_TRUE(std::string(memory.get(), memory.bytes()) == bytes);
  }
  EXPECT_GT(failed, 15);
}

// A set whose ids were modified by its holder is not the set that was taken.
TEST_P(DeviceTableTest, ModifiedTakenSetIsLookedUpByIds) {
  Make();
  ASSERT_OK(trainer_->Upsert({1, 2, 3, 7}, 1));
  ASSERT_OK(Take());
  ASSERT_OK(trainer_->Upsert({1, 2, 3}, 2));
  ASSERT_OK_AND_ASSIGN(ChangeTracker::Changes changes, Take());
  ASSERT_THAT(changes.upserted, ElementsAre(1, 2, 3));
  changes.upserted[1] = 7;
  ASSERT_OK_AND_ASSIGN(const auto rows, table_->RowsOf(changes.upserted));
  CapturedRows expected = trainer_->rows();
  expected.erase(2);
  EXPECT_EQ(trainer_->RowsOf(*rows), expected);
}

}  // namespace
}  // namespace ckptdb::testing
