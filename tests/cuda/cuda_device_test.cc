// SPDX-License-Identifier: Apache-2.0
// Opening devices, and checking tensors.
#include "cuda/cuda_device.h"
#include "cuda/device_table.h"

#include <cuda_runtime_api.h>

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "manager/internal/tensor_device.h"
#include "manager/model_state.h"
#include "tests/cuda/device_fixture.h"
#include "tests/support/cuda_standin.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

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

}  // namespace
}  // namespace ckptdb::testing
