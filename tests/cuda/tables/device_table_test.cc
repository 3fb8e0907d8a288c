// SPDX-License-Identifier: Apache-2.0
// Tables in device memory, with the stand-in: which rows are captured, in which
// order, the state of the marks after failed calls, and captures that are
// dropped or that fail.
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cuda/device_table.h"
#include "manager/checkpoint_manager.h"
#include "schema/status.h"
#include "tests/cuda/tables/device_trainer.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using Rows = DeviceTrainer::Rows;

INSTANTIATE_TEST_SUITE_P(Orders, DeviceTableTest,
                         ::testing::Values(Order::kLazy, Order::kEager,
                                           Order::kCopiesLast, Order::kRandom),
                         NameOf);

TEST_P(DeviceTableTest, TakesRowsMarkedAfterTheTrainersWork) {
  Make();
  ASSERT_OK(trainer_->Upsert({7, 5, 9}, 1));
  ASSERT_OK_AND_ASSIGN(const ChangeTracker::Changes changes, Take());
  EXPECT_TRUE(changes.complete);
  // In row order; rows were assigned to ids in order of arrival.
  EXPECT_THAT(changes.upserted, ElementsAre(7, 5, 9));
  EXPECT_THAT(changes.erased, IsEmpty());
  ExpectRows(changes.upserted, trainer_->rows());
  ExpectTaken(IsEmpty(), IsEmpty());
  ASSERT_OK_AND_ASSIGN(const auto no_rows, table_->RowsOf({}));
  EXPECT_EQ(no_rows->block_count(), 0);
}

TEST_P(DeviceTableTest, CaptureHasTheValuesAtTheTimeOfTheCall) {
  for (const bool with_ids : {true, false}) {
    SCOPED_TRACE(with_ids);
    Open();
    DeviceTrainerOptions options;
    options.with_ids = with_ids;
    Make(options);
    ASSERT_OK(trainer_->Upsert({1, 2, 3}, 1));
    const Rows before = trainer_->rows();
    ASSERT_OK_AND_ASSIGN(auto captured, table_->Capture(nullptr));
    EXPECT_THAT(captured->Block(0).status(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("call Fetch first")));
    // The call returns at once; only the device waits.
    ASSERT_OK(trainer_->Upsert({2, 3, 4}, 2));
    ExpectCaptured(captured.get(), before);
    captured.reset();
    ASSERT_OK_AND_ASSIGN(captured, table_->Capture(nullptr));
    ExpectCaptured(captured.get(), trainer_->rows());
  }
}

// The same for a set that was taken before values changed again.
TEST_P(DeviceTableTest, TakenSetHasTheValuesAtTheTimeOfItsCapture) {
  MakeWithoutIds();
  ASSERT_OK(trainer_->Upsert({11, 12}, 1));
  ASSERT_OK_AND_ASSIGN(const ChangeTracker::Changes changes, Take());
  ASSERT_OK(trainer_->Upsert({11}, 2));
  const absl::Span<const int64_t> ids = changes.upserted;
  ASSERT_OK_AND_ASSIGN(const auto captured, table_->Capture(&ids));
  const Rows before = {{11, trainer_->rows().at(11)},
                       {12, trainer_->rows().at(12)}};
  ASSERT_OK(trainer_->Upsert({12}, 3));
  ExpectCaptured(captured.get(), before);
}

// Many chunks, in staging memory or through a window that holds two.
TEST_P(DeviceTableTest, CapturesRowsOfManyChunks) {
  for (const uint64_t staging_bytes : {64 << 20, 1 << 20}) {
    SCOPED_TRACE(staging_bytes);
    Open(staging_bytes);
    DeviceTrainerOptions options;
    options.rows = 40'000;
    options.with_ids = false;
    options.dim = 33;
    Make(options);
    std::vector<int64_t> ids;
    for (uint64_t row = 0; row < options.rows; row += 3) {
      ids.push_back(static_cast<int64_t>(row));
    }
    ASSERT_OK(trainer_->Upsert(ids, 1));
    const Rows before = trainer_->rows();
    ASSERT_OK_AND_ASSIGN(const auto captured, table_->Capture(nullptr));
    ASSERT_OK(trainer_->Upsert(ids, 2));
    ExpectCaptured(captured.get(), before);
  }
}

TEST_P(DeviceTableTest, ChangedCopyIsDataLoss) {
  for (const uint64_t staging_bytes : {64 << 20, 16}) {
    Open(staging_bytes);
    MakeWithoutIds();
    for (int64_t copy = 1; copy <= 4; ++copy) {
      SCOPED_TRACE(copy);
      CudaStandin::FlipCopy(copy, 17);
      EXPECT_THAT(table_->AllRows().status(),
                  StatusIs(absl::StatusCode::kDataLoss,
                           HasSubstr(copy <= 2 ? "slot \"embedding\""
                                               : "slot \"step\"")));
    }
    CudaStandin::FlipCopy(0, 0);
    EXPECT_OK(table_->AllRows());
  }
}

TEST_P(DeviceTableTest, LastMarkOfAnIdWins) {
  Make();
  ASSERT_OK(trainer_->Upsert({1, 2, 3, 4}, 1));
  ASSERT_OK(trainer_->Erase({2, 3}));
  ASSERT_OK(trainer_->Upsert({3, 5}, 2));
  ASSERT_OK_AND_ASSIGN(const ChangeTracker::Changes changes, Take());
  EXPECT_THAT(changes.upserted, UnorderedElementsAre(1, 3, 4, 5));
  EXPECT_THAT(changes.erased, UnorderedElementsAre(2));
  ExpectRows(changes.upserted, trainer_->rows());
}

TEST_P(DeviceTableTest, ReturnedSetIsTakenAgainWithNewerMarks) {
  Make();
  ASSERT_OK(trainer_->Upsert({1, 2, 3}, 1));
  ASSERT_OK(trainer_->Erase({3}));
  ASSERT_OK_AND_ASSIGN(ChangeTracker::Changes changes, Take());
  EXPECT_THAT(changes.erased, ElementsAre(3));
  ASSERT_OK(trainer_->Erase({1}));
  ASSERT_OK(trainer_->Upsert({3, 4}, 2));
  ASSERT_OK(table_->tracker()->Return(consumer_, std::move(changes)));
  ExpectTaken(UnorderedElementsAre(2, 3, 4), UnorderedElementsAre(1));
  ExpectTaken(IsEmpty(), IsEmpty());
}

TEST_P(DeviceTableTest, ConsumersAreIndependent) {
  Make();
  ChangeTracker* const tracker = table_->tracker();
  ASSERT_OK_AND_ASSIGN(const auto feed, tracker->AddConsumer("feed"));
  EXPECT_THAT(tracker->AddConsumer("feed").status(),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("feed")));
  ASSERT_OK_AND_ASSIGN(ChangeTracker::Changes first, tracker->Take(feed));
  EXPECT_FALSE(first.complete);
  EXPECT_THAT(first.reason, HasSubstr("\"feed\" is new"));
  ASSERT_OK(trainer_->Upsert({1, 2}, 1));
  ASSERT_OK_AND_ASSIGN(const ChangeTracker::Changes mine, Take());
  ASSERT_OK(trainer_->Upsert({2, 3}, 2));
  ASSERT_OK_AND_ASSIGN(ChangeTracker::Changes theirs, tracker->Take(feed));
  EXPECT_THAT(mine.upserted, ElementsAre(1, 2));
  EXPECT_THAT(theirs.upserted, ElementsAre(1, 2, 3));
  // Both sets exist: each finds its own rows.
  ASSERT_OK_AND_ASSIGN(const auto rows, table_->RowsOf(mine.upserted));
  EXPECT_EQ(trainer_->RowsOf(*rows).size(), 2);
  EXPECT_THAT(tracker->Return(consumer_, std::move(theirs)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("taken")));
  EXPECT_THAT(theirs.upserted,  // NOLINT(bugprone-use-after-move)
              ElementsAre(1, 2, 3));
  ASSERT_OK(tracker->Return(feed, std::move(theirs)));
  ASSERT_OK(tracker->RemoveConsumer(feed));
  EXPECT_THAT(tracker->Take(feed).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no consumer")));
  ExpectTaken(ElementsAre(2, 3), IsEmpty());
  std::vector<ChangeTracker::Consumer> others;
  for (int i = 0; i < 7; ++i) {
    ASSERT_OK_AND_ASSIGN(others.emplace_back(),
                         tracker->AddConsumer(absl::StrCat("other", i)));
  }
  EXPECT_THAT(tracker->AddConsumer("too many").status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("\"too many\" cannot be added")));
}

TEST_P(DeviceTableTest, OutOfRangeMarksFailTheNextTake) {
  Make();
  ASSERT_OK(trainer_->Upsert({1}, 1));
  const auto error = [](absl::string_view marks) {
    return absl::StrCat(marks, "; the table has 300 rows");
  };
  for (const int64_t row : {int64_t{-5}, int64_t{300}}) {
    ASSERT_OK(trainer_->Mark({row, 0}));
    EXPECT_THAT(
        Take().status(),
        StatusIs(
            absl::StatusCode::kOutOfRange,
            HasSubstr(error(absl::StrCat(
                "1 marked row numbers are out of range, such as ", row)))));
  }
  // The device's order decides which of two is named.
  ASSERT_OK(trainer_->Mark({300, -5, 0}));
  constexpr char kTwo[] = "2 marked row numbers are out of range, such as ";
  EXPECT_THAT(Take().status(),
              StatusIs(absl::StatusCode::kOutOfRange,
                       AnyOf(HasSubstr(error(absl::StrCat(kTwo, -5))),
                             HasSubstr(error(absl::StrCat(kTwo, 300))))));
  ASSERT_OK_AND_ASSIGN(const ChangeTracker::Changes changes, Take());
  EXPECT_FALSE(changes.complete);
  EXPECT_THAT(changes.reason, HasSubstr("out of range were marked"));
  ASSERT_OK(trainer_->Upsert({2}, 1));
  ExpectTaken(ElementsAre(2), IsEmpty());
}

// An incomplete set that is returned makes the next set incomplete.
TEST_P(DeviceTableTest, ReturnedIncompleteSetStaysIncomplete) {
  Make();
  ASSERT_OK(trainer_->Mark({300}));
  EXPECT_FALSE(Take().ok());
  ASSERT_OK_AND_ASSIGN(ChangeTracker::Changes changes, Take());
  EXPECT_FALSE(changes.complete);
  ASSERT_OK(table_->tracker()->Return(consumer_, std::move(changes)));
  ASSERT_OK_AND_ASSIGN(changes, Take());
  EXPECT_FALSE(changes.complete);
  ASSERT_OK_AND_ASSIGN(changes, Take());
  EXPECT_TRUE(changes.complete);
}

// Ids that do not come from a taken set, such as those of another tracker.
TEST_P(DeviceTableTest, FindsRowsOfAnyIds) {
  Make();
  ASSERT_OK(trainer_->Upsert({1, 2, 3}, 1));
  Rows expected = trainer_->rows();
  expected.erase(2);
  ExpectRows({3, 1}, expected);
  for (const int64_t id : {int64_t{4}, DeviceTrainer::kFree}) {
    EXPECT_THAT(table_->RowsOf({id}).status(),
                StatusIs(absl::StatusCode::kInternal,
                         HasSubstr(absl::StrCat("row ", id))));
  }
}

// Fails each runtime call in turn. Taken marks are returned, so that the next
// set contains all marks or is reported as incomplete.
TEST_P(DeviceTableTest, FailingCallsLoseNoMarks) {
  for (const Codec codec : {Codec::kNone, Codec::kInt8}) {
    Open();
    DeviceTrainerOptions options;
    options.codec = codec;
    Make(options);
    int64_t failed = 0;
    for (int64_t call = 1; call <= 60; ++call) {
      SCOPED_TRACE(call);
      ASSERT_OK(trainer_->Upsert({1, 2, call + 10}, call));
      ASSERT_OK(trainer_->Erase({call + 9}));
      CudaStandin::FailCall(CudaStandin::calls() + call, cudaErrorUnknown);
      absl::StatusOr<ChangeTracker::Changes> changes = Take();
      absl::Status saved = changes.status();
      if (changes.ok() && changes->complete) {
        const absl::Span<const int64_t> ids = changes->upserted;
        auto captured = table_->Capture(&ids);
        saved = captured.status();
        if (saved.ok()) saved = (*captured)->Fetch();
      }
      if (changes.ok() && !saved.ok()) {
        ASSERT_OK(table_->tracker()->Return(consumer_, *std::move(changes)));
      }
      CudaStandin::FailCall(0, cudaSuccess);
      if (saved.ok()) continue;
      ++failed;
      ASSERT_OK_AND_ASSIGN(const ChangeTracker::Changes again, Take());
      if (!again.complete) continue;
      EXPECT_THAT(again.upserted, UnorderedElementsAre(1, 2, call + 10));
      EXPECT_THAT(again.erased, UnorderedElementsAre(call + 9));
      ASSERT_OK_AND_ASSIGN(const auto rows, table_->RowsOf(again.upserted));
      for (const auto& [id, row] : trainer_->RowsOf(*rows)) {
        EXPECT_EQ(row, trainer_->rows().at(id));
      }
    }
    EXPECT_GT(failed, 20);
  }
}

// All calls fail from one on, as after a kernel fault.
TEST_P(DeviceTableTest, SetIsIncompleteIfAllCallsFail) {
  for (int64_t call = 1; call < 40; ++call) {
    SCOPED_TRACE(call);
    Open();
    Make();
    ASSERT_OK(trainer_->Upsert({1, 2, 3}, 1));
    CudaStandin::FailCall(CudaStandin::calls() + call, cudaErrorLaunchFailure,
                          /*forever=*/true);
    absl::StatusOr<ChangeTracker::Changes> changes = Take();
    bool saved = false;
    if (changes.ok()) {
      const absl::Span<const int64_t> ids = changes->upserted;
      const auto captured = table_->Capture(&ids);
      saved = captured.ok() && (*captured)->Fetch().ok();
      if (!saved) {
        ASSERT_OK(table_->tracker()->Return(consumer_, *std::move(changes)));
      }
    }
    CudaStandin::FailCall(0, cudaSuccess);
    ASSERT_OK_AND_ASSIGN(const ChangeTracker::Changes again, Take());
    if (saved) {
      EXPECT_THAT(again.upserted, IsEmpty());
    } else if (again.complete) {
      EXPECT_THAT(again.upserted, ElementsAre(1, 2, 3));
    }
  }
}

TEST_P(DeviceTableTest, FailedMarkMakesTheNextSetIncomplete) {
  Make();
  const DeviceMemory rows(sizeof(int64_t));
  *rows.get<int64_t>() = 7;
  // The first call enters the device.
  for (int64_t call = 1; call <= 2; ++call) {
    CudaStandin::FailCall(CudaStandin::calls() + call, cudaErrorUnknown);
    EXPECT_THAT(
        table_->MarkUpserted(rows.get<int64_t>(), 1),
        StatusIs(absl::StatusCode::kInternal,
                 HasSubstr(call == 1 ? "cudaThreadExchangeStreamCaptureMode"
                                     : "the kernel that marks 1 rows")));
    CudaStandin::FailCall(0, cudaSuccess);
    ASSERT_OK_AND_ASSIGN(const ChangeTracker::Changes changes, Take());
    EXPECT_FALSE(changes.complete);
  }
}

TEST_P(DeviceTableTest, MakeRejectsInvalidArguments) {
  const DeviceMemory memory(4096);
  std::vector<float> host(16);
  const Slot slot = {"a", DType::kF32, 4};
  const DeviceTable::Array array = {slot, memory.get()};
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  struct Case {
    std::string error;
    std::vector<DeviceTable::Array> arrays;
    DeviceTable::Options options = {};
    uint64_t rows = 4;
  };
  const Case cases[] = {
      {"it has 0 slots; expected 1 to 256", {}},
      {"duplicate slot \"a\"", {array, array}},
      {"the array of slot \"a\" is null", {{slot, nullptr}}},
      {"the array of slot \"a\" is host memory, expected memory of cuda:0",
       {{slot, host.data()}}},
      {"stride_bytes 15, expected at least the 16 bytes",
       {{slot, memory.get(), 15}}},
      {"a DeviceTable of 4294967296 rows; the limit is 4294967295",
       {array},
       {},
       DeviceTable::kMaxRows + 1},
      {"id_step is 0, expected at least 1", {array}, {.id_step = 0}},
      {"exceed 2^63 - 1", {array}, {.first_id = kMost - 2}},
      {"DeviceTable::Options::ids is host memory",
       {array},
       {.ids = reinterpret_cast<int64_t*>(host.data())}},
      {"optimizer_slots names \"b\"",
       {array},
       {.table = {.optimizer_slots = {"b"}}}}};
  for (const Case& wrong : cases) {
    EXPECT_THAT(
        DeviceTable::Make(device_.get(), wrong.rows, wrong.arrays,
                          wrong.options)
            .status(),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(wrong.error)));
  }
  EXPECT_THAT(DeviceTable::Make(nullptr, 4, {array}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("device of a DeviceTable is null")));
  EXPECT_OK(
      DeviceTable::Make(device_.get(), 4, {array}, {.first_id = kMost - 3}));
  EXPECT_OK(DeviceTable::Make(device_.get(), 0, {array}));
  ASSERT_OK_AND_ASSIGN(const auto table,
                       DeviceTable::Make(device_.get(), 4, {array}));
  EXPECT_THAT(table->MarkErased({1}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("cannot erase rows")));
  EXPECT_EQ(table->Live({"b"}), nullptr);
}

// The example in the header.
absl::Status ExampleOfDeviceTable(const std::string& path, cudaStream_t stream,
                                  float* weights, float* sums,
                                  const int32_t* rows_on_device) {
  constexpr uint64_t kRows = 100;
  ModelState model;
  CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<CudaDevice> gpu,
                          CudaDevice::Open(SmallRing()));
  DeviceTable::Options options;
  options.stream = stream;
  CKPTDB_ASSIGN_OR_RETURN(
      const std::unique_ptr<DeviceTable> items,
      DeviceTable::Make(gpu.get(), kRows,
                        {{{"embedding", DType::kF32, 64}, weights},
                         {{"adagrad_sum", DType::kF32, 64}, sums}},
                        options));
  CKPTDB_RETURN_IF_ERROR(model.AddTable("item", items.get()));
  CKPTDB_ASSIGN_OR_RETURN(
      const auto manager,
      CheckpointManager::Open({.path = path, .schedule = {}}, &model));
  CKPTDB_RETURN_IF_ERROR(items->MarkUpserted(rows_on_device, 2));
  CKPTDB_RETURN_IF_ERROR(manager->Step().status());
  return manager->Save().status();
}

TEST(DeviceTable, HeaderExampleWorks) {
  CudaStandin::Reset({});
  const TempDir dir;
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreate(&stream));
  {
    // The weights and sums of a row could also be adjacent.
    const DeviceMemory memory(2 * 100 * 64 * sizeof(float));
    const DeviceMemory rows(2 * sizeof(int32_t));
    rows.get<int32_t>()[0] = 17;
    rows.get<int32_t>()[1] = 99;
    EXPECT_OK(ExampleOfDeviceTable(
        dir.path() + "/store", stream, memory.get<float>(),
        memory.get<float>() + 100 * 64, rows.get<int32_t>()));
  }
  cudaStreamDestroy(stream);
  EXPECT_THAT(CudaStandin::violations(), IsEmpty());
}

// Slots as views into one array in which a row's weights and optimizer state
// are adjacent, with other data between rows, as in split tables.
TEST_P(DeviceTableTest, SlotsAreViewsIntoOneArray) {
  constexpr uint64_t kRows = 20;
  constexpr uint64_t kStride = 9 * sizeof(float);
  const DeviceMemory memory(kRows * kStride);
  auto* const values = memory.get<float>();
  for (uint64_t i = 0; i < kRows * 9; ++i) values[i] = static_cast<float>(i);
  ASSERT_OK_AND_ASSIGN(
      const auto table,
      DeviceTable::Make(device_.get(), kRows,
                        {{{"weights", DType::kF32, 4}, values, kStride},
                         {{"momentum", DType::kF32, 3}, values + 5, kStride}}));
  ASSERT_OK_AND_ASSIGN(const auto rows, table->RowsOf({3, 19}));
  ASSERT_OK_AND_ASSIGN(const RowBlock block, rows->Block(0));
  const auto at = [&](size_t slot, uint64_t row, uint64_t i) {
    float value = 0;
    std::memcpy(&value, block.slots[slot].At(row) + i * sizeof(float),
                sizeof(value));
    return value;
  };
  EXPECT_EQ(at(0, 0, 3), 3 * 9 + 3);
  EXPECT_EQ(at(1, 1, 2), 19 * 9 + 5 + 2);
  LiveTable* const live = table->Live({"momentum"});
  const std::vector<float> momentum = {-1, -2, -3};
  const std::vector<const char*> slots = {
      reinterpret_cast<const char*>(momentum.data())};
  ASSERT_OK(live->Consume(0, {{3}, slots}));
  const std::vector<float> row(values + 3 * 9, values + 4 * 9);
  EXPECT_THAT(row, ElementsAre(27, 28, 29, 30, 31, -1, -2, -3, 35));
}

TEST(DeviceTable, ErrorWithoutADeviceNamesAlternatives) {
  CudaStandin::Reset({.devices = 0});
  CudaDevice::Options options;
  options.log = [](absl::string_view) {};
  ASSERT_OK_AND_ASSIGN(const auto device, CudaDevice::Open(options));
  EXPECT_THAT(DeviceTable::Make(device.get(), 4, {}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("use a VectorTable or ColumnTable")));
}

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
    Open(/*staging_bytes=*/16 << 10);
    MakeWithoutIds();
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
    ExpectCaptured(captured.get(), trainer_->rows());
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
  Rows expected = trainer_->rows();
  expected.erase(2);
  ExpectRows(changes.upserted, expected);
}

}  // namespace
}  // namespace ckptdb::testing
