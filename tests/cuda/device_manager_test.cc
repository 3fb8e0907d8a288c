// SPDX-License-Identifier: Apache-2.0
// A manager of a model that is partly in device memory: full and delta saves,
// restores, loads, ranks, device errors and crashes.
#include <cuda_runtime_api.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "manager/checkpoint_manager.h"
#include "manager/internal/tensor_device.h"
#include "schema/status.h"
#include "tests/cuda/device_fixture.h"
#include "tests/manager/test_model.h"
#include "tests/support/long_run.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::KilledBySignal;

// A host model with device tensors: a large one, one with gaps between its
// rows, one that never changes, and many small ones.
struct DeviceModel {
  explicit DeviceModel(DeviceFixture* fixture) : device(fixture) {
    large = Add("large", fixture->Make(3, kMiB + 8));
    apart = Add("apart", fixture->Make(1000, 48, 16));
    still = Add("still", fixture->Make(2, kMiB));
    for (int t = 0; t < 20; ++t) {
      small.push_back(Add(absl::StrCat("small ", t), fixture->Make(1, t * 7)));
    }
    fixture->Train(still, 0);
  }
  OnDevice Add(const std::string& name, const OnDevice& tensor) {
    EXPECT_OK(host.state.AddTensor(name, device->StateOf(tensor)));
    return tensor;
  }
  void Train(int64_t step) {
    host.Train(step);
    const auto number = static_cast<int>(step);
    device->Train(large, number);
    device->Train(apart, number);
    for (const OnDevice& tensor : small) device->Train(tensor, number);
  }
  // Checks that the device has the values after `step` steps.
  void ExpectTrained(int step) const {
    ASSERT_CUDA(cudaStreamSynchronize(device->stream()));
    EXPECT_TRUE(large.Read() == BytesAfter(step, large.bytes()));
    EXPECT_TRUE(apart.Read() == BytesAfter(step, apart.bytes()));
    EXPECT_TRUE(still.Read() == BytesAfter(0, still.bytes()));
    for (const OnDevice& tensor : small) {
      EXPECT_TRUE(tensor.Read() == BytesAfter(step, tensor.bytes()));
    }
    TestModel expected;
    TrainTo(step, &expected);
    ExpectSame(host, expected);
  }

  DeviceFixture* const device;
  TestModel host;
  OnDevice large;
  OnDevice apart;
  OnDevice still;
  std::vector<OnDevice> small;
};

ManagerOptions OptionsIn(const std::string& folder) {
  ManagerOptions options = SaveEachStep(folder + "/store");
  options.schedule.permanent = SaveEveryNSteps(2);
  options.save.arena_bytes = 64 * kMiB;
  return options;
}

// A manager of a model on a device.
struct Training {
  explicit Training(const ManagerOptions& options, Order order = Order::kLazy,
                    uint64_t staging_bytes = 64 * kMiB)
      : fixture(order, SmallRing(staging_bytes)), model(&fixture) {
    auto opened = CheckpointManager::Open(options, &model.host.state);
    EXPECT_OK(opened);
    if (opened.ok()) manager = *std::move(opened);
  }
  // Trains these steps, and saves those that are due.
  void Train(int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) {
      model.Train(step);
      ASSERT_OK(manager->Step());
    }
  }
  DeviceFixture fixture;
  DeviceModel model;
  std::unique_ptr<CheckpointManager> manager;
};

// Restores a step to a model on another device, and checks it.
void ExpectStepHolds(const std::string& path, int64_t step) {
  SCOPED_TRACE(step);
  const TempDir other;
  Training loaded(OptionsIn(other.path()), Order::kEager);
  ASSERT_OK(loaded.manager->Restore({.step = step, .path = path}));
  loaded.model.ExpectTrained(static_cast<int>(step));
}

struct SaveWay {
  Order order;
  bool async;
  uint64_t arena_bytes;
  uint64_t staging_bytes;
};

class DeviceManagerTest : public ::testing::TestWithParam<SaveWay> {
 protected:
  ManagerOptions Options() const {
    ManagerOptions options = OptionsIn(dir_.path());
    options.save.async = GetParam().async;
    options.save.arena_bytes = GetParam().arena_bytes;
    return options;
  }
  TempDir dir_;
};

TEST_P(DeviceManagerTest, SavesDuringTrainingAndRestoresEachStep) {
  const ManagerOptions options = Options();
  {
    Training run(options, GetParam().order, GetParam().staging_bytes);
    for (int64_t step = 1; step <= 6; ++step) {
      ASSERT_NO_FATAL_FAILURE(run.Train(step, step));
      // Lets the device run far ahead of the save thread.
      if (step % 4 == 0) continue;
      ASSERT_CUDA(cudaStreamSynchronize(run.fixture.stream()));
    }
    ASSERT_OK(run.manager->FinishTraining());
    // The restore overwrites the model after the queued work.
    run.model.Train(7);
    ASSERT_OK(run.manager->Restore({.step = 4}));
    run.model.ExpectTrained(4);
    ASSERT_OK(run.manager->Close());
  }
  for (const int64_t step : {2, 4, 6}) ExpectStepHolds(options.path, step);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, DeviceManagerTest,
    ::testing::Values(SaveWay{Order::kLazy, true, 64 * kMiB, 64 * kMiB},
                      SaveWay{Order::kEager, true, 64 * kMiB, 64 * kMiB},
                      SaveWay{Order::kRandom, true, 64 * kMiB, 64 * kMiB},
                      // The arena has room only for the device tensors.
                      SaveWay{Order::kLazy, true, 5 * kMiB + 60000, 64 * kMiB},
                      SaveWay{Order::kRandom, false, 64 * kMiB, 64 * kMiB},
                      SaveWay{Order::kLazy, true, 64 * kMiB, 0}),
    [](const auto& given) { return absl::StrCat("Way", given.index); });

// With the order in which the device does only what somebody waits for.
TEST(DeviceManager, StepDoesNotWaitForTheDevice) {
  const TempDir dir;
  Training run(OptionsIn(dir.path()));
  // The first save allocates what later saves reuse.
  run.Train(1, 2);
  ASSERT_OK(run.manager->WaitUntilFinished());
  run.Train(3, 3);
  std::atomic<bool> trained = false;
  run.model.Train(4);
  ASSERT_CUDA(CudaStandin::Queue(run.fixture.stream(), "mark",
                                 [&] { trained = true; }));
  const int64_t waits = CudaStandin::host_waits_of(std::this_thread::get_id());
  ASSERT_OK(run.manager->Step());
  EXPECT_EQ(CudaStandin::host_waits_of(std::this_thread::get_id()), waits);
  ASSERT_OK(run.manager->WaitUntilFinished());
  EXPECT_TRUE(trained);
  ASSERT_OK(run.manager->Close());
}

TEST(DeviceManager, UnchangedTensorsAreBorrowed) {
  const TempDir dir;
  ManagerOptions options = OptionsIn(dir.path());
  options.save.deltas = true;
  std::vector<SaveReport> reports;
  options.observers.on_saved = [&](const SaveReport& report) {
    reports.push_back(report);
  };
  {
    Training run(options);
    run.Train(1, 4);
    ASSERT_OK(run.manager->Close());
    ASSERT_EQ(reports.size(), 2U);
    EXPECT_EQ(reports[0].result.borrowed_bytes, 0U);
    EXPECT_GE(reports[1].result.borrowed_bytes, run.model.still.bytes());
  }
  ExpectStepHolds(options.path, 4);
}

TEST(DeviceManager, SaveFailsIfTheArenaIsTooSmall) {
  const TempDir dir;
  ManagerOptions options = OptionsIn(dir.path());
  options.save.arena_bytes = kMiB;
  Training run(options);
  const auto save = run.manager->Save();
  EXPECT_THAT(save.ok() ? run.manager->WaitUntilFinished() : save.status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("bytes of host memory, but "
                                       "ManagerOptions::save.arena_bytes is "
                                       "1048576"),
                             HasSubstr("raise it"))));
  ASSERT_OK(run.manager->Close());
}

TEST(DeviceManager, DamagedCopyFailsOnlyThatSave) {
  const TempDir dir;
  const ManagerOptions options = OptionsIn(dir.path());
  {
    Training run(options, Order::kRandom);
    run.Train(1, 1);
    run.model.Train(2);
    CudaStandin::FlipCopy(3, 5);  // after the list of pieces and the digests
    EXPECT_THAT(
        StepAndWait(run.manager.get()),
        StatusIs(absl::StatusCode::kDataLoss, HasSubstr("tensor \"large\"")));
    run.Train(3, 4);
    ASSERT_OK(run.manager->Close());
  }
  ExpectStepHolds(options.path, 4);
}

// The step has other dtypes, and tensors are loaded in parts.
TEST(DeviceManager, LoadsCastTensors) {
  const TempDir dir;
  DeviceFixture fixture(Order::kRandom);
  std::vector<float> floats(3000);
  for (size_t i = 0; i < floats.size(); ++i) {
    floats[i] = static_cast<float>(i) / 4;
  }
  ModelState saved;
  ASSERT_OK(saved.AddTensor("w", TensorState::Of(floats.data(), {1000, 3})));
  const ManagerOptions options = OptionsIn(dir.path());
  {
    ASSERT_OK_AND_ASSIGN(const auto manager,
                         CheckpointManager::Open(options, &saved));
    ASSERT_OK(manager->Save());
    ASSERT_OK(manager->Close());
  }
  const OnDevice tensor = fixture.Make(1000, 3 * sizeof(double), 8);
  TensorState state = fixture.StateOf(tensor);
  state.dtype = DType::kF64;
  state.shape = {1000, 3};
  ModelState loaded;
  ASSERT_OK(loaded.AddTensor("w", state));
  ManagerOptions other = OptionsIn(dir.path() + "/other");
  ASSERT_OK_AND_ASSIGN(const auto manager,
                       CheckpointManager::Open(other, &loaded));
  LoadRule rule;
  rule.path = options.path;
  rule.cast = true;
  ASSERT_OK(manager->Load({rule}, /*dry_run=*/false));
  const std::string bytes = tensor.Read();
  for (size_t i = 0; i < floats.size(); ++i) {
    double value = 0;
    std::memcpy(&value, bytes.data() + i * sizeof(value), sizeof(value));
    ASSERT_EQ(value, static_cast<double>(floats[i])) << i;
  }
  ASSERT_OK(manager->Close());
}

// Two ranks with a device: shards of a tensor, and a tensor that the owner
// reads and broadcasts.
TEST(DeviceManager, RanksRestoreShardsAndBroadcasts) {
  const TempDir dir;
  ManagerOptions options = OptionsIn(dir.path());
  options.ranks.broadcast_replicated = true;
  DeviceFixture fixture(Order::kEager);
  const std::vector<OnDevice> whole = {fixture.Make(5, 1000),
                                       fixture.Make(5, 1000)};
  const std::vector<OnDevice> shards = {fixture.Make(3, 70),
                                        fixture.Make(2, 70)};
  for (int rank = 0; rank < 2; ++rank) {
    fixture.Train(whole[rank], 1);
    fixture.Train(shards[rank], rank + 1);
  }
  const auto run = [&](uint32_t rank, std::unique_ptr<Coordinator> ranks) {
    ModelState model;
    ASSERT_OK(model.AddTensor("whole", fixture.StateOf(whole[rank])));
    TensorState shard = fixture.StateOf(shards[rank]);
    shard.global_shape = {5, 70};
    shard.offset = {rank == 0 ? 0 : 3, 0};
    ASSERT_OK(model.AddTensor("shard", shard));
    ASSERT_OK_AND_ASSIGN(
        const auto manager,
        CheckpointManager::Open(options, &model, std::move(ranks)));
    ASSERT_OK(manager->Save());
    ASSERT_OK(manager->WaitUntilFinished());
    fixture.Train(whole[rank], 9);
    fixture.Train(shards[rank], 9);
    ASSERT_OK(manager->Restore());
    EXPECT_TRUE(whole[rank].Read() == BytesAfter(1, 5000));
    EXPECT_TRUE(shards[rank].Read() ==
                BytesAfter(static_cast<int>(rank) + 1, shards[rank].bytes()));
    ASSERT_OK(manager->Close());
  };
  ThreadGroup group(2);
  std::thread other([&] { run(1, group.Join(1)); });
  run(0, group.Join(0));
  other.join();
}

// Each runtime call of a save fails in turn (a sample, except in a long
// run): the save fails or is correct, and the next one is correct.
TEST(DeviceManager, EachCallMayFail) {
  const uint64_t stride = IsLongRun() ? 1 : kSanitized ? 23 : 7;
  bool failed = true;
  auto call = static_cast<int64_t>(1 + FirstCase(stride));
  for (; failed; call += static_cast<int64_t>(stride)) {
    SCOPED_TRACE(call);
    const TempDir dir;
    ManagerOptions options = OptionsIn(dir.path());
    options.save.tolerated_failures = 1;
    options.observers.on_warning = [](const std::string&) {};
    Training run(options);
    run.Train(1, 1);
    run.model.Train(2);
    const int64_t before = CudaStandin::calls();
    CudaStandin::FailCall(before + call, cudaErrorLaunchFailure);
    ASSERT_OK(StepAndWait(run.manager.get()));
    failed = CudaStandin::calls() >= before + call;
    CudaStandin::FailCall(0, cudaSuccess);
    run.Train(3, 4);
    ASSERT_OK(run.manager->Close());
    run.model.Train(9);
    ASSERT_OK_AND_ASSIGN(const auto again, CheckpointManager::Open(
                                               options, &run.model.host.state));
    ASSERT_OK(again->Restore({}));
    run.model.ExpectTrained(4);
    ASSERT_OK(again->Close());
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(call, 15);
}

// Copies then pass through pinned buffers.
TEST(DeviceManager, UnpinnableMemoryWarnsOnceAndWorks) {
  const TempDir dir;
  ManagerOptions options = OptionsIn(dir.path());
  std::vector<std::string> warnings;
  options.observers.on_warning = [&](const std::string& warning) {
    warnings.push_back(warning);
  };
  {
    Training run(options, Order::kRandom);
    run.Train(1, 1);
    run.model.Train(2);
    // Pinning comes first in a save: one call enters the device, the next pins.
    CudaStandin::FailCall(CudaStandin::calls() + 2, cudaErrorNotSupported);
    ASSERT_OK(run.manager->Step());
    CudaStandin::FailCall(0, cudaSuccess);
    run.Train(3, 4);
    ASSERT_OK(run.manager->Close());
  }
  EXPECT_THAT(warnings, ::testing::ElementsAre(HasSubstr("cannot be pinned")));
  ExpectStepHolds(options.path, 2);
  ExpectStepHolds(options.path, 4);
}

// The environment variable that names the crashing process's folder.
constexpr char kFolder[] = "CKPTDB_DEVICE_CRASH_FOLDER";

// Saves step 2, and dies at a crash point of the save of step 4.
void DieAt(absl::string_view point) {
  ManagerOptions options = OptionsIn(std::getenv(kFolder));
  bool armed = false;
  const auto die = [&](absl::string_view at) {
    if (armed && at == point) std::raise(SIGKILL);
  };
  options.store.on_point = die;
  DeviceFixture fixture(Order::kRandom);
  DeviceModel model(&fixture);
  const auto manager = CheckpointManager::Open(options, &model.host.state);
  if (!manager.ok()) return;
  for (int64_t step = 1; step <= 4; ++step) {
    model.Train(step);
    armed = step == 4;
    if (!(*manager)->Step().ok()) return;
    if (!(*manager)->WaitUntilFinished().ok()) return;
  }
}

class DeviceCrashTest : public ::testing::TestWithParam<int> {};

TEST_P(DeviceCrashTest, CrashLeavesAWholeStepOrNone) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TempDir dir;
  // The crashing process runs this test too, up to that point.
  ASSERT_EQ(setenv(kFolder, dir.path().c_str(), /*overwrite=*/0), 0);
  const absl::string_view point = kCrashPoints[static_cast<size_t>(GetParam())];
  EXPECT_EXIT(DieAt(point), KilledBySignal(SIGKILL), "");
  const std::string path = dir.path() + "/store";
  ASSERT_EQ(unsetenv(kFolder), 0);
  const auto committed =
      std::find(kCrashPoints.begin(), kCrashPoints.end(), point::kCommitted);
  const bool there = kCrashPoints.begin() + GetParam() >= committed;
  ExpectStepHolds(path, there ? 4 : 2);
  ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(path));
  EXPECT_EQ(reader->Steps().size(), there ? 2U : 1U);
}

// The crash points of a save; the last three are those of a sweep.
INSTANTIATE_TEST_SUITE_P(Points, DeviceCrashTest, ::testing::Range(0, 7));

// A table that captures its rows: the host reads them when they are fetched.
class CapturingTable : public TestTable {
 public:
  absl::StatusOr<std::unique_ptr<Captured>> Capture(
      const absl::Span<const int64_t>* ids) const override {
    captures_ += ids == nullptr ? 1 : 100;
    auto rows = std::make_unique<Rows>(this);
    const auto source = ids == nullptr ? AllRows() : RowsOf(*ids);
    CKPTDB_RETURN_IF_ERROR(source.status());
    for (uint64_t b = 0; b < (*source)->block_count(); ++b) {
      CKPTDB_ASSIGN_OR_RETURN(const RowBlock block, (*source)->Block(b));
      rows->Add(block);
    }
    return rows;
  }
  int captures() const { return captures_; }
  int fetches() const { return fetches_; }
  std::thread::id fetched_by() const { return fetched_by_; }

 private:
  // Its values are available once they are fetched.
  class Rows : public Captured {
   public:
    explicit Rows(const CapturingTable* table) : table_(table) {}
    void Add(const RowBlock& block) {
      ids_.push_back(block.ids[0]);
      set_aside_.append(block.slots[0].At(0), 8);
      set_aside_.append(block.slots[1].At(0), 4);
    }
    absl::Status Fetch() override {
      ++table_->fetches_;
      table_->fetched_by_ = std::this_thread::get_id();
      values_ = set_aside_;
      columns_ = {{{values_.data(), 12}, {values_.data() + 8, 12}}};
      return absl::OkStatus();
    }
    uint64_t block_count() const override { return ids_.empty() ? 0 : 1; }
    absl::StatusOr<RowBlock> Block(uint64_t) const override {
      if (values_.empty()) return absl::InternalError("it was not fetched");
      return RowBlock{ids_, columns_};
    }

   private:
    const CapturingTable* const table_;
    std::vector<int64_t> ids_;
    std::string set_aside_;
    std::string values_;
    std::array<RowBlock::SlotValues, 2> columns_;
  };

  mutable int captures_ = 0;
  mutable std::atomic<int> fetches_ = 0;
  mutable std::thread::id fetched_by_;
};

TEST(DeviceManager, TablesAreCapturedToo) {
  const TempDir dir;
  for (const uint64_t arena_bytes : {64 * kMiB, uint64_t{0}}) {
    ManagerOptions options =
        OptionsIn(absl::StrCat(dir.path(), "/", arena_bytes));
    options.save.arena_bytes = arena_bytes;
    options.save.deltas = true;
    CapturingTable table;
    ModelState model;
    ASSERT_OK(model.AddTable("user", &table));
    ASSERT_OK_AND_ASSIGN(const auto manager,
                         CheckpointManager::Open(options, &model));
    for (int64_t step = 1; step <= 4; ++step) {
      for (int64_t id = 0; id < 50; ++id) {
        if (step == 1 || id % step == 0) {
          table.Set(id, static_cast<float>(step));
        }
      }
      ASSERT_OK(manager->Step());
    }
    ASSERT_OK(manager->WaitUntilFinished());
    // One full save and one delta save.
    EXPECT_EQ(table.captures(), 101);
    EXPECT_EQ(table.fetches(), 2);
    EXPECT_NE(table.fetched_by(), std::this_thread::get_id());
    const TestRows rows = table.rows();
    table.Set(7, 99);
    ASSERT_OK(manager->Restore());
    EXPECT_TRUE(table.rows() == rows);
    ASSERT_OK(manager->Close());
  }
}

}  // namespace
}  // namespace ckptdb::testing
