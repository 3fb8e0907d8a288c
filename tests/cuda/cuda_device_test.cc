// SPDX-License-Identifier: Apache-2.0
// Opening devices, and checking tensors. A rank uses only the context of its
// own device, whatever its threads have used before, and a trainer may capture
// its work into graphs during saves.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/cuda_device.h"
#include "cuda/device_table.h"
#include "cuda/runtime/buffer.h"
#include "cuda/runtime/device_scope.h"
#include "cuda/runtime/stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "manager/checkpoint_manager.h"
#include "manager/internal/tensor_device.h"
#include "manager/model_state.h"
#include "tests/cuda/device_fixture.h"
#include "tests/cuda/tables/device_trainer.h"
#include "tests/support/cuda_standin.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

using internal::CudaEvent;
using internal::CurrentContext;
using internal::DeviceBuffer;
using internal::DeviceScope;
using internal::PinnedBuffer;
using internal::PrimaryContext;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(CudaDeviceTest, FallsBackToHostMemoryWithoutADriver) {
  CudaStandin::Reset({.devices = 0});
  std::vector<std::string> lines;
  CudaDevice::Options options;
  options.log = [&](absl::string_view line) { lines.emplace_back(line); };
  ASSERT_OK_AND_ASSIGN(const auto device, CudaDevice::Open(options));
  EXPECT_EQ(device->name(), "host");
  EXPECT_EQ(device->context(), nullptr);
  EXPECT_THAT(lines, ElementsAre(AllOf(HasSubstr("no CUDA device"),
                                       HasSubstr("(35)"))));
  // It does not call the runtime any more.
  const int64_t calls = CudaStandin::calls();
  std::vector<float> from = {1, 2, 3, 4};
  TensorState state = TensorState::Of(from.data(), {2, 1});
  state.device = device.get();
  state.stride_bytes = 8;
  ModelState model;
  ASSERT_OK(model.AddTensor("w", state));
  std::string memory(8, ' ');
  const TensorState::Device::Item item = {"w", &state, 8, 0};
  ASSERT_OK_AND_ASSIGN(const auto capture,
                       device->SetAside({&item, 1}, memory.data()));
  from.assign(4, 0);
  ASSERT_OK(capture->Fetch());
  ASSERT_OK_AND_ASSIGN(const auto upload, device->BeginUpload("w", state, 8));
  ASSERT_OK(upload->Write(2, memory.substr(2)));
  ASSERT_OK(upload->Write(0, memory.substr(0, 2)));
  ASSERT_OK(upload->Finish());
  EXPECT_THAT(from, ElementsAre(1, 0, 3, 0));
  EXPECT_FALSE(upload->Write(7, "ab").ok());
  EXPECT_EQ(CudaStandin::calls(), calls);
}

TEST(CudaDeviceTest, RequiredDeviceIsUnavailable) {
  CudaStandin::Reset({.devices = 0});
  CudaDevice::Options options;
  options.required = true;
  const auto device = CudaDevice::Open(options);
  EXPECT_THAT(device, StatusIs(absl::StatusCode::kUnavailable,
                               HasSubstr("CudaDevice::Options::required")));
}

// At, below and above each limit.
TEST(CudaDeviceTest, OptionsHaveLimits) {
  using Options = CudaDevice::Options;
  CudaStandin::Reset({.devices = 2});
  const auto open = [](auto option, auto value) {
    Options options;
    options.*option = value;
    return CudaDevice::Open(options).status();
  };
  const auto rejects = [](const std::string& message) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message));
  };
  for (const int device : {0, 1}) EXPECT_OK(open(&Options::device, device));
  EXPECT_THAT(open(&Options::device, 2),
              rejects("device is 2, expected 0 to 1"));
  EXPECT_THAT(open(&Options::device, -1),
              rejects("device is -1, expected at least 0"));
  for (const uint64_t chunk : {kMiB, 1024 * kMiB, kMiB + 64}) {
    EXPECT_OK(open(&Options::chunk_bytes, chunk));
  }
  for (const uint64_t chunk : {kMiB - 1, 1024 * kMiB + 1}) {
    EXPECT_THAT(open(&Options::chunk_bytes, chunk),
                rejects("expected 1048576 to 1073741824"));
  }
  // Chunks must be aligned, or they would share lanes with another tensor.
  EXPECT_THAT(open(&Options::chunk_bytes, kMiB + 32),
              rejects("chunk_bytes is 1048608, expected a multiple of 64"));
  for (const int slots : {2, 4}) EXPECT_OK(open(&Options::ring_slots, slots));
  for (const int slots : {1, 5}) {
    EXPECT_THAT(open(&Options::ring_slots, slots), rejects("expected 2 to 4"));
  }
}

TEST(CudaDeviceTest, OpenFailsIfAnyCallFails) {
  CudaStandin::Reset({});
  CudaDevice::Options options;
  options.log = [](absl::string_view) {};
  for (int64_t call = 1; call <= 6; ++call) {
    CudaStandin::FailCall(CudaStandin::calls() + call, cudaErrorLaunchFailure);
    const auto device = CudaDevice::Open(options);
    CudaStandin::FailCall(0, cudaSuccess);
    EXPECT_FALSE(device.ok()) << call;
  }
  EXPECT_EQ(CudaStandin::allocations(), 0);
  EXPECT_THAT(CudaStandin::violations(), IsEmpty());
}

// A broken device is not a missing one: a trainer may own memory on it.
TEST(CudaDeviceTest, FallsBackToHostMemoryOnlyIfNoDeviceExists) {
  CudaDevice::Options options;
  options.log = [](absl::string_view) {};
  for (const auto& [error, host] :
       {std::pair(cudaErrorNoDevice, true),
        std::pair(cudaErrorInsufficientDriver, true),
        std::pair(cudaErrorStubLibrary, true),
        std::pair(cudaErrorSystemNotReady, false),
        std::pair(cudaErrorInitializationError, false)}) {
    CudaStandin::Reset({});
    CudaStandin::FailCall(1, error);
    const auto device = CudaDevice::Open(options);
    EXPECT_EQ(device.ok(), host) << error;
    if (device.ok()) {
      EXPECT_EQ((*device)->name(), "host");
    }
  }
}

TEST(CudaDeviceTest, OpenFailsWithoutKernelsForTheDevice) {
  CudaStandin::Reset({});
  ASSERT_OK(CudaDevice::Open());
  const int64_t calls = CudaStandin::calls();
  ASSERT_OK(CudaDevice::Open());
  // Loading the kernels is the last call, in one scope.
  for (int64_t call = CudaStandin::calls() - calls; call > 0; --call) {
    CudaStandin::FailCall(CudaStandin::calls() + call,
                          cudaErrorNoKernelImageForDevice);
    const auto device = CudaDevice::Open();
    CudaStandin::FailCall(0, cudaSuccess);
    if (CudaStandin::FailedCall() != "cudaFuncGetAttributes") continue;
    EXPECT_THAT(device,
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("compiled for CMAKE_CUDA_ARCHITECTURES")));
    return;
  }
  ADD_FAILURE() << "no kernel is loaded";
}

// The devices exist, and a trainer on an older runtime may own memory there.
TEST(CudaDeviceTest, OpenFailsIfTheDriverIsTooOld) {
  CudaStandin::Reset({.devices = 0, .driver_version = 12040});
  EXPECT_EQ(CudaDevice::Open().status().code(), absl::StatusCode::kUnavailable);
}

// A kernel that reads out of bounds would end the trainer's work, too.
TEST(CudaDeviceTest, RejectsRowsBeyondTheirMemory) {
  DeviceFixture fixture(CudaStandin::Order::kLazy);
  TensorState state = fixture.StateOf(fixture.Make(4, 8, 8));
  ModelState model;
  for (const uint64_t stride : {uint64_t{1} << 40, ~uint64_t{0}}) {
    state.stride_bytes = stride;
    const absl::Status status = model.AddTensor("w", state);
    EXPECT_THAT(
        status,
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr(stride == ~uint64_t{0}
                               ? "4 rows with stride_bytes 18446744073709551615"
                               : "at its last byte, 3298534883335, is host")));
  }
  const auto table = DeviceTable::Make(
      fixture.device(), 100,
      {{{"embedding", DType::kF32, 2}, state.data, uint64_t{1} << 40}});
  EXPECT_THAT(std::string(table.status().message()),
              HasSubstr("slot \"embedding\" at its last byte"));
  // A slot of 0 bytes is rejected as such, wherever it is.
  const auto empty = DeviceTable::Make(
      fixture.device(), 100, {{{"nothing", DType::kF32, 0}, state.data}});
  EXPECT_THAT(empty, StatusIs(absl::StatusCode::kInvalidArgument,
                              Not(HasSubstr("last byte"))));
}

TEST(CudaDeviceTest, RejectsTensorsOutsideDeviceMemory) {
  DeviceFixture fixture(CudaStandin::Order::kLazy);
  const OnDevice tensor = fixture.Make(4, 8, 8);
  ModelState model;
  EXPECT_OK(model.AddTensor("w", fixture.StateOf(tensor)));

  TensorState state = fixture.StateOf(tensor);
  state.stride_bytes = 7;
  EXPECT_THAT(
      model.AddTensor("a", state),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("state \"a\""),
                     HasSubstr("stride_bytes 7, expected at least the 8"))));
  float host = 0;
  state = TensorState::Of(&host, {1});
  state.device = fixture.device();
  EXPECT_THAT(
      model.AddTensor("b", state),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("data is host memory, expected memory of cuda:0")));
  state.data = nullptr;
  EXPECT_THAT(model.AddTensor("c", state),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("data is null, and the tensor has 4 bytes")));
  state.shape = {0, 4};
  EXPECT_OK(model.AddTensor("d", state));

  TensorState on_host = TensorState::Of(&host, {1});
  on_host.stream = fixture.stream();
  EXPECT_THAT(model.AddTensor("e", on_host),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("TensorState::device is null")));
}

TEST(CudaDeviceTest, RejectsMemoryOfAnotherDevice) {
  CudaStandin::Reset({.devices = 2});
  ASSERT_OK_AND_ASSIGN(const auto device, CudaDevice::Open());
  void* memory = nullptr;
  ASSERT_CUDA(cudaSetDevice(1));
  ASSERT_CUDA(cudaMalloc(&memory, 4));
  TensorState state = TensorState::Of(static_cast<float*>(memory), {1});
  state.device = device.get();
  EXPECT_THAT(
      device->Check(state),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          HasSubstr("data is memory of cuda:1, expected memory of cuda:0")));
  ASSERT_CUDA(cudaFree(memory));
}

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
