// SPDX-License-Identifier: Apache-2.0
// The behavior that other tests check with the stand-in, on a real or an
// emulated GPU (tests/cuda/gpu_machine.h).
#include <cuda_runtime_api.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cuda/cuda_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "manager/checkpoint_manager.h"
#include "tests/cuda/gpu_machine.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

// Returns bytes that differ from step to step.
std::string BytesOf(int step, uint64_t bytes) {
  std::string text(bytes, '\0');
  for (uint64_t i = 0; i < bytes; ++i) {
    text[i] = static_cast<char>(i * 131 + i / 251 + step * 29 + 1);
  }
  return text;
}

TEST(WithoutGpu, SavesAndRestoresInHostMemory) {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) {
    GTEST_SKIP() << "there is a GPU";
  }
  std::vector<std::string> lines;
  CudaDevice::Options device_options;
  device_options.log = [&](absl::string_view line) {
    lines.emplace_back(line);
  };
  ASSERT_OK_AND_ASSIGN(const auto device, CudaDevice::Open(device_options));
  EXPECT_EQ(device->name(), "host");
  EXPECT_EQ(lines.size(), 1U);
  const TempDir dir;
  std::vector<float> weights = {1, 2, 3, 4, 5, 6};
  TensorState state = TensorState::Of(weights.data(), {3, 1});
  state.device = device.get();
  state.stride_bytes = 8;
  ModelState model;
  ASSERT_OK(model.AddTensor("w", state));
  ManagerOptions options;
  options.path = dir.path() + "/store";
  ASSERT_OK_AND_ASSIGN(const auto manager,
                       CheckpointManager::Open(options, &model));
  ASSERT_OK(manager->Save());
  ASSERT_OK(manager->WaitUntilFinished());
  weights.assign(6, 0);
  ASSERT_OK(manager->Restore());
  EXPECT_THAT(weights, ::testing::ElementsAre(1, 0, 3, 0, 5, 0));
  ASSERT_OK(manager->Close());
}

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GpuIsThere()) GTEST_SKIP() << "there is no GPU";
    CudaDevice::Options options;
    options.chunk_bytes = 1 << 20;
    ASSERT_OK_AND_ASSIGN(device_, CudaDevice::Open(options));
    ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
  }
  void TearDown() override {
    device_.reset();
    for (void* memory : memory_) cudaFree(memory);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    if (!IsSkipped()) CheckGpu();
  }

  // Makes a tensor of bytes with `rows` rows and `gap` bytes between them.
  TensorState Make(int64_t rows, int64_t row_bytes, uint64_t gap) {
    TensorState state;
    state.dtype = DType::kU8;
    state.shape = {rows, row_bytes};
    state.stride_bytes = static_cast<uint64_t>(row_bytes) + gap;
    EXPECT_EQ(cudaMalloc(&state.data,
                         static_cast<uint64_t>(rows) * state.stride_bytes),
              cudaSuccess);
    memory_.push_back(state.data);
    state.device = device_.get();
    state.stream = stream_;
    return state;
  }
  static uint64_t Bytes(const TensorState& state) {
    return static_cast<uint64_t>(state.shape[0] * state.shape[1]);
  }
  // Queues a copy from host memory that stays valid.
  void Train(const TensorState& state, int step) {
    texts_.push_back(
        std::make_unique<std::string>(BytesOf(step, Bytes(state))));
    const auto width = static_cast<uint64_t>(state.shape[1]);
    ASSERT_EQ(
        cudaMemcpy2DAsync(state.data, state.stride_bytes, texts_.back()->data(),
                          width, width, static_cast<uint64_t>(state.shape[0]),
                          cudaMemcpyHostToDevice, stream_),
        cudaSuccess);
  }
  std::string Read(const TensorState& state) const {
    std::string text(Bytes(state), '\0');
    const auto width = static_cast<uint64_t>(state.shape[1]);
    EXPECT_EQ(cudaMemcpy2D(text.data(), width, state.data, state.stride_bytes,
                           width, static_cast<uint64_t>(state.shape[0]),
                           cudaMemcpyDeviceToHost),
              cudaSuccess);
    return text;
  }

  std::unique_ptr<CudaDevice> device_;
  cudaStream_t stream_ = nullptr;
  std::vector<void*> memory_;
  std::vector<std::unique_ptr<std::string>> texts_;
};

// Tensors that are contiguous or have gaps, of all alignments and sizes.
TEST_F(GpuTest, SavesAfterQueuedWorkAndRestores) {
  const TempDir dir;
  const std::vector<TensorState> tensors = {
      Make(5, (1 << 20) + 3, 0),
      Make(1, 1, 0),
      Make(700, 48, 16),
      Make(33, 7, 5),
      Make(9, 24, 8),
      Make(GpuIsEmulated() ? 9 : 50, 1 << 20, 0)};
  ModelState model;
  for (size_t t = 0; t < tensors.size(); ++t) {
    ASSERT_OK(model.AddTensor(absl::StrCat("t", t), tensors[t]));
  }
  ManagerOptions options;
  options.path = dir.path() + "/store";
  options.schedule.permanent = SaveEveryNSteps(1);
  ASSERT_OK_AND_ASSIGN(const auto manager,
                       CheckpointManager::Open(options, &model));
  for (int step = 1; step <= 3; ++step) {
    for (const TensorState& tensor : tensors) Train(tensor, step);
    ASSERT_OK(manager->Step());
  }
  for (const TensorState& tensor : tensors) Train(tensor, 9);
  ASSERT_OK(manager->FinishTraining());
  for (int step = 1; step <= 3; ++step) {
    RestoreRequest request;
    request.step = step;
    ASSERT_OK(manager->Restore(request));
    for (const TensorState& tensor : tensors) {
      EXPECT_TRUE(Read(tensor) == BytesOf(step, Bytes(tensor))) << step;
    }
  }
  ASSERT_OK(manager->Close());
}

}  // namespace
}  // namespace ckptdb::testing
