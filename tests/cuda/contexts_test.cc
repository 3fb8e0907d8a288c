// SPDX-License-Identifier: Apache-2.0
// A rank uses only the context of its own device, whatever its threads have
// used before; and a trainer may capture its work into graphs during saves.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "cuda/runtime/buffer.h"
#include "cuda/runtime/device_scope.h"
#include "cuda/runtime/stream.h"
#include "manager/checkpoint_manager.h"
#include "manager/internal/tensor_device.h"
#include "tests/cuda/device_fixture.h"
#include "tests/cuda/tables/device_trainer.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

using internal::CudaEvent;
using internal::CurrentContext;
using internal::DeviceBuffer;
using internal::DeviceScope;
using internal::PinnedBuffer;
using internal::PrimaryContext;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Runs on a thread that has never used a device.
void OnNewThread(const std::function<void()>& run) { std::thread(run).join(); }

CudaDevice::Options OnSecondDevice() {
  CudaDevice::Options options = SmallRing();
  options.device = 1;
  return options;
}

int CurrentDevice() {
  int device = -1;
  EXPECT_CUDA(cudaGetDevice(&device));
  return device;
}

TEST(DeviceScopeTest, RestoresTheThreadsContext) {
  CudaStandin::Reset({.devices = 3});
  ASSERT_OK_AND_ASSIGN(const PrimaryContext second, PrimaryContext::Retain(2));
  ASSERT_CUDA(cudaSetDevice(1));
  {
    ASSERT_OK_AND_ASSIGN(const DeviceScope scope,
                         DeviceScope::Enter(second.get()));
    EXPECT_EQ(CurrentDevice(), 2);
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    ASSERT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(mode, cudaStreamCaptureModeRelaxed);
    // A nested scope of the same context.
    { ASSERT_OK(DeviceScope::Enter(second.get())); }
    EXPECT_EQ(CurrentDevice(), 2);
  }
  EXPECT_EQ(CurrentDevice(), 1);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  ASSERT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  EXPECT_THAT(CudaStandin::violations(), IsEmpty());
}

TEST(DeviceScopeTest, ThreadWithoutADeviceStaysWithoutOne) {
  CudaStandin::Reset({.devices = 3});
  OnNewThread([] {
    ASSERT_OK_AND_ASSIGN(const PrimaryContext second,
                         PrimaryContext::Retain(2));
    DeviceBuffer memory;
    PinnedBuffer pinned;
    std::unique_ptr<CudaEvent> event;
    {
      ASSERT_OK_AND_ASSIGN(const DeviceScope scope,
                           DeviceScope::Enter(second.get()));
      ASSERT_OK_AND_ASSIGN(memory, DeviceBuffer::Allocate(8, "a test"));
      ASSERT_OK_AND_ASSIGN(pinned, PinnedBuffer::Allocate(8, "a test"));
      ASSERT_OK_AND_ASSIGN(CudaEvent made, CudaEvent::Create());
      event = std::make_unique<CudaEvent>(std::move(made));
    }
    EXPECT_EQ(CurrentContext(), nullptr);
    memory = {};
    pinned = {};
    event.reset();
    EXPECT_EQ(CurrentContext(), nullptr);
  });
  EXPECT_THAT(CudaStandin::contexts(), ElementsAre(2));
  EXPECT_EQ(CudaStandin::retained(), 0);
  ExpectNothingLeft();
}

TEST(DeviceScopeTest, FailsIfTheContextIsUnavailable) {
  CudaStandin::Reset({});
  for (int64_t call = 1;; ++call) {
    CudaStandin::FailCall(CudaStandin::calls() + call,
                          cudaErrorMemoryAllocation);
    const auto context = PrimaryContext::Retain(0);
    CudaStandin::FailCall(0, cudaSuccess);
    if (context.ok()) break;
    EXPECT_EQ(context.status().code(), absl::StatusCode::kResourceExhausted);
  }
  OnNewThread([] {
    ASSERT_OK_AND_ASSIGN(const PrimaryContext context,
                         PrimaryContext::Retain(0));
    for (const char* name :
         {"cuCtxPushCurrent", "cudaThreadExchangeStreamCaptureMode"}) {
      const int64_t call = name == std::string("cuCtxPushCurrent") ? 1 : 2;
      CudaStandin::FailCall(CudaStandin::calls() + call, cudaErrorUnknown);
      const auto scope = DeviceScope::Enter(context.get());
      CudaStandin::FailCall(0, cudaSuccess);
      EXPECT_THAT(std::string(scope.status().message()), HasSubstr(name));
      EXPECT_EQ(CurrentContext(), nullptr);
    }
  });
  EXPECT_EQ(CudaStandin::retained(), 0);
  EXPECT_THAT(CudaStandin::violations(), IsEmpty());
}

// A manager of a model on the second device. Neither its threads nor its
// callers have used a device before.
TEST(ContextsTest, RankOnTheSecondDeviceMakesNoContextOnTheFirst) {
  for (const Order order : {Order::kLazy, Order::kEager, Order::kRandom}) {
    const TempDir dir;
    DeviceFixture fixture(order, OnSecondDevice());
    const OnDevice weights = fixture.Make(3, kMiB + 8);
    std::mt19937_64 random(TestSeed());
    DeviceTrainer trainer(fixture.device(), {});
    const ManagerOptions manager_options = SaveEachStep(dir.path() + "/store");
    ModelState model;
    std::unique_ptr<CheckpointManager> manager;
    OnNewThread([&] {
      ASSERT_OK(model.AddTensor("weights", fixture.StateOf(weights)));
      ASSERT_OK(model.AddTable("user", trainer.table()));
      ASSERT_OK_AND_ASSIGN(manager,
                           CheckpointManager::Open(manager_options, &model));
    });
    ASSERT_NE(manager, nullptr);
    for (int step = 1; step <= 3; ++step) {
      fixture.Train(weights, step);
      ASSERT_OK(trainer.Train(step, &random));
      OnNewThread([&] { EXPECT_OK(manager->Step()); });
    }
    OnNewThread([&] {
      EXPECT_OK(manager->Close());
      ASSERT_OK_AND_ASSIGN(manager,
                           CheckpointManager::Open(manager_options, &model));
      EXPECT_OK(manager->Restore({}));
      EXPECT_OK(manager->Close());
      manager.reset();
      model = ModelState();
    });
    EXPECT_EQ(weights.Read(), BytesAfter(3, weights.bytes()));
    EXPECT_EQ(trainer.Read(), trainer.rows());
    OnNewThread([&] { trainer.DropTable(); });
    EXPECT_THAT(CudaStandin::contexts(), ElementsAre(1));
  }
}

TEST(ContextsTest, DestroyingOnThreadsWithoutADeviceMakesNoContext) {
  DeviceFixture fixture(Order::kLazy, OnSecondDevice());
  const OnDevice weights = fixture.Make(1, kMiB);
  DeviceSave save(&fixture, /*pinned=*/true);
  save.Add(weights);
  OnNewThread([&] { ASSERT_OK(save.SetAside()); });
  OnNewThread([&] { save.Unpin(); });
  std::unique_ptr<TensorState::Device::Upload> upload;
  OnNewThread([&] {
    ASSERT_OK_AND_ASSIGN(upload, fixture.device()->BeginUpload(
                                     "w", fixture.StateOf(weights), kMiB));
    ASSERT_OK(upload->Write(0, BytesAfter(1, kMiB)));
  });
  OnNewThread([&] { upload.reset(); });
  OnNewThread([&] {
    EXPECT_OK(
        DeviceTable::Make(fixture.device(), 4,
                          {{{"embedding", DType::kF32, 4}, weights.memory}}));
  });
  EXPECT_THAT(CudaStandin::contexts(), ElementsAre(1));
}

// Allocations of the trainer on this thread do not end the captures of a test.
void AllowAllocations() {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  EXPECT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
}

// A save that became part of a graph would run again with each launch.
TEST(CapturedStreamsTest, SaveOfACapturedStreamFails) {
  DeviceFixture fixture(Order::kRandom);
  const OnDevice weights = fixture.Make(1, 1000);
  DeviceSave save(&fixture, /*pinned=*/false);
  save.Add(weights);
  fixture.Train(weights, 1);
  CudaStandin::Capture(fixture.stream(), true);
  const absl::Status captured = save.SetAside();
  EXPECT_THAT(captured,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("is being captured into a CUDA graph")));
  CudaStandin::Capture(fixture.stream(), false);
  ASSERT_OK(save.SetAside());
  ASSERT_OK(save.Fetch());
  save.ExpectAllAfter(1);
}

// Marks may be part of a graph; the changed rows wait for the next save.
TEST(CapturedStreamsTest, ChangesOfACapturedStreamAreKept) {
  DeviceFixture fixture(Order::kRandom);
  DeviceTrainer trainer(fixture.device(), {});
  ChangeTracker* const tracker = trainer.table()->tracker();
  ASSERT_OK_AND_ASSIGN(const auto consumer, tracker->AddConsumer("test"));
  ASSERT_OK(tracker->Take(consumer));
  AllowAllocations();
  CudaStandin::Capture(trainer.stream(), true);
  ASSERT_OK(trainer.Upsert({1, 2, 3}, 1));
  OnNewThread([&] {
    EXPECT_EQ(tracker->Take(consumer).status().code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(trainer.table()->AllRows().status().code(),
              absl::StatusCode::kFailedPrecondition);
  });
  CudaStandin::Capture(trainer.stream(), false);
  ASSERT_OK_AND_ASSIGN(const auto changes, tracker->Take(consumer));
  EXPECT_THAT(changes.upserted, ElementsAre(1, 2, 3));
}

TEST(TrainersErrorsTest, SaveErrorsAreHiddenFromTheTrainer) {
  DeviceFixture fixture(Order::kLazy);
  DeviceSave save(&fixture, /*pinned=*/false);
  save.Add(fixture.Make(1, 1000));
  CudaStandin::FailCall(CudaStandin::calls() + 3, cudaErrorUnknown);
  EXPECT_FALSE(save.SetAside().ok());
  EXPECT_CUDA(cudaGetLastError());
}

// A trainer that queries an unfinished event leaves cudaErrorNotReady.
TEST(TrainersErrorsTest, TrainerErrorsDoNotFailSavesAndStay) {
  DeviceFixture fixture(Order::kRandom);
  const OnDevice weights = fixture.Make(1, 1000);
  DeviceTrainer trainer(fixture.device(), {});
  DeviceSave save(&fixture, /*pinned=*/false);
  save.Add(weights);
  fixture.Train(weights, 1);
  CudaStandin::FailCall(CudaStandin::calls() + 1, cudaErrorNotReady);
  EXPECT_EQ(cudaStreamSynchronize(fixture.stream()), cudaErrorNotReady);
  EXPECT_OK(save.SetAside());
  EXPECT_OK(trainer.Upsert({1, 2}, 1));
  EXPECT_OK(trainer.table()->AllRows());
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  ASSERT_OK(save.Fetch());
  save.ExpectAllAfter(1);
}

// Another part of the trainer captures its stream: allocations and frees of a
// save or restore must not end that capture.
TEST(CapturedStreamsTest, AnotherStreamMayBeCapturedDuringASave) {
  DeviceFixture fixture(Order::kRandom);
  const OnDevice weights = fixture.Make(2, 3 * kMiB);
  cudaStream_t other = nullptr;
  ASSERT_CUDA(cudaStreamCreate(&other));
  AllowAllocations();
  DeviceTrainer trainer(fixture.device(), {});
  CudaStandin::Capture(other, true);
  ASSERT_OK(trainer.Upsert({1, 2, 3}, 1));
  fixture.Train(weights, 1);
  OnNewThread([&] {
    ASSERT_OK_AND_ASSIGN(const auto rows, trainer.table()->AllRows());
    EXPECT_EQ(trainer.RowsOf(*rows), trainer.rows());
    DeviceSave save(&fixture, /*pinned=*/true);
    save.Add(weights);
    ASSERT_OK(save.SetAside());
    ASSERT_OK(save.Fetch());
    save.ExpectAllAfter(1);
  });
  OnNewThread([&] { trainer.DropTable(); });
  ASSERT_CUDA(cudaStreamDestroy(other));
}

}  // namespace
}  // namespace ckptdb::testing
