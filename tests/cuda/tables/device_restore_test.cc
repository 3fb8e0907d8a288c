// SPDX-License-Identifier: Apache-2.0
// Restores of tables in device memory, with the stand-in.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cuda/device_table.h"
#include "tests/cuda/tables/device_trainer.h"

namespace ckptdb::testing {
namespace {

using ::testing::HasSubstr;

using Rows = DeviceTrainer::Rows;

class DeviceRestoreTest : public DeviceTableTest {
 protected:
  LiveTable* Live() { return table_->Live({"embedding", "step"}); }
};

INSTANTIATE_TEST_SUITE_P(Orders, DeviceRestoreTest,
                         ::testing::Values(Order::kLazy, Order::kEager,
                                           Order::kRandom),
                         NameOf);

// Rows of a restore, in batches as a scan delivers them.
class Batches {
 public:
  explicit Batches(const Rows& rows) {
    for (const auto& [id, row] : rows) {
      ids_.push_back(id);
      embedding_.append(reinterpret_cast<const char*>(row.embedding.data()),
                        row.embedding.size() * sizeof(float));
      steps_.append(reinterpret_cast<const char*>(&row.step), sizeof(row.step));
    }
  }
  absl::Status Into(LiveTable* live) const {
    const std::vector<const char*> slots = {embedding_.data(), steps_.data()};
    return live->Consume(0, {ids_, slots});
  }

 private:
  std::vector<int64_t> ids_;
  std::string embedding_;
  std::string steps_;
};

TEST_P(DeviceRestoreTest, RestoreRunsAfterTheTrainersWork) {
  for (const bool with_ids : {true, false}) {
    for (const bool clear : {true, false}) {
      SCOPED_TRACE(absl::StrCat(with_ids, clear));
      Open();
      DeviceTrainerOptions options;
      options.with_ids = with_ids;
      Make(options);
      ASSERT_OK(trainer_->Upsert({1, 2, 3, 4}, 1));
      LiveTable* const live = Live();
      ASSERT_NE(live, nullptr);
      Rows expected = trainer_->rows();
      if (clear) {
        ASSERT_OK(live->Clear());
        for (auto& [id, row] : expected) {
          row = {std::vector<float>(options.dim), 0};
        }
        if (with_ids) expected.clear();
      }
      Rows restored;
      restored[2] = {std::vector<float>(options.dim, 2.5F), 20};
      restored[9] = {std::vector<float>(options.dim, 9.5F), 90};
      ASSERT_OK(Batches(restored).Into(live));
      for (const auto& [id, row] : restored) expected[id] = row;
      ASSERT_OK(live->Erase(0, {3, 200}));
      if (with_ids) {
        expected.erase(3);
      } else {
        expected[3] = expected[200] = {std::vector<float>(options.dim), 0};
      }
      EXPECT_EQ(trainer_->Read(), expected);
    }
  }
}

TEST_P(DeviceRestoreTest, MissingSlotsAreZeroInNewRows) {
  Make();
  ASSERT_OK(trainer_->Upsert({1, 2}, 5));
  ASSERT_OK(trainer_->Erase({2}));
  LiveTable* const live = table_->Live({"step"});
  const std::vector<int64_t> ids = {1, 7};
  const std::vector<int64_t> steps = {50, 70};
  const std::vector<const char*> slots = {
      reinterpret_cast<const char*>(steps.data())};
  ASSERT_OK(live->Consume(0, {ids, slots}));
  const Rows rows = trainer_->Read();
  EXPECT_EQ(rows.at(1).step, 50);
  EXPECT_EQ(rows.at(1).embedding, trainer_->rows().at(1).embedding);
  EXPECT_EQ(rows.at(7).step, 70);
  // Also in the former row 2, which had values.
  EXPECT_EQ(rows.at(7).embedding, std::vector<float>(5));
}

TEST_P(DeviceRestoreTest, RestoreNamesRowsThatDoNotFit) {
  Make({.rows = 3});
  Rows rows;
  for (int64_t id = 10; id < 14; ++id) rows[id] = {std::vector<float>(5), 1};
  EXPECT_THAT(Batches(rows).Into(Live()),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("has 3 rows, and the step has more")));
  rows.clear();
  rows[DeviceTrainer::kFree] = {std::vector<float>(5), 1};
  const auto is_free_id =
      StatusIs(absl::StatusCode::kOutOfRange,
               HasSubstr("the step contains id -1, which is"));
  EXPECT_THAT(Batches(rows).Into(Live()), is_free_id);
  // A restore checks the capacity before it changes anything.
  EXPECT_EQ(table_->capacity(), 3U);
  EXPECT_OK(table_->CheckId(77));
  EXPECT_THAT(table_->CheckId(DeviceTrainer::kFree), is_free_id);
  DeviceTrainerOptions numbers;
  numbers.rows = 3;
  numbers.with_ids = false;
  numbers.table.first_id = 100;
  numbers.table.id_step = 4;
  Open();
  Make(numbers);
  for (const int64_t id : {99, 101, 112}) {
    rows.clear();
    rows[id] = {std::vector<float>(5), 1};
    const auto is_no_row =
        StatusIs(absl::StatusCode::kOutOfRange,
                 HasSubstr(absl::StrCat(
                     "id ", id, " of the step does not belong to the table")));
    EXPECT_THAT(Batches(rows).Into(Live()), is_no_row);
    EXPECT_THAT(table_->CheckId(id), is_no_row);
  }
  rows.clear();
  EXPECT_OK(table_->CheckId(108));
  rows[108] = {std::vector<float>(5, 1.0F), 1};
  ASSERT_OK(Batches(rows).Into(Live()));
  EXPECT_EQ(trainer_->Read().at(108), rows.at(108));
}

TEST_P(DeviceRestoreTest, ChangedUploadIsDataLoss) {
  Make();
  LiveTable* const live = Live();
  Rows rows;
  rows[1] = {std::vector<float>(5, 1.0F), 1};
  ASSERT_OK(Batches(rows).Into(live));
  // The row's number and id come first in the copy, at multiples of 16.
  CudaStandin::FlipCopy(1, 33);
  EXPECT_THAT(Batches(rows).Into(live),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("from id 1 on, changed their bytes")));
}

TEST_P(DeviceRestoreTest, FailingCallsDoNotCrashARestore) {
  int64_t failed = 0;
  for (int64_t call = 1; call <= 50; ++call) {
    SCOPED_TRACE(call);
    Open();
    Make();
    ASSERT_OK(trainer_->Upsert({1, 2}, 1));
    Rows rows;
    rows[2] = {std::vector<float>(5, 2.0F), 1};
    rows[3] = {std::vector<float>(5, 3.0F), 1};
    LiveTable* live = Live();
    CudaStandin::FailCall(CudaStandin::calls() + call, cudaErrorUnknown);
    absl::Status restored = live->Clear();
    if (restored.ok()) restored = Batches(rows).Into(live);
    if (restored.ok()) restored = live->Erase(0, {3});
    CudaStandin::FailCall(0, cudaSuccess);
    rows.erase(3);
    if (restored.ok()) {
      EXPECT_EQ(trainer_->Read(), rows);
      continue;
    }
    ++failed;
    // The next restore succeeds.
    live = Live();
    ASSERT_OK(live->Clear());
    ASSERT_OK(Batches(rows).Into(live));
    EXPECT_EQ(trainer_->Read(), rows);
  }
  EXPECT_GT(failed, 15);
}

}  // namespace
}  // namespace ckptdb::testing
