// SPDX-License-Identifier: Apache-2.0
// The contexts of threads and the captures of streams with a real driver: the
// cases that cuda_device_test checks with the stand-in.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "cuda/cuda_device.h"
#include "cuda/device_table.h"
#include "cuda/runtime/device_scope.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "manager/internal/tensor_device.h"
#include "tests/cuda/gpu_machine.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kRows = 1000;

void OnNewThread(const std::function<void()>& run) { std::thread(run).join(); }

class GpuContexts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GpuIsThere()) GTEST_SKIP() << "there is no GPU";
    // Uses the last device: calls of a thread without one would use the first.
    CudaDevice::Options device;
    ASSERT_CUDA(cudaGetDeviceCount(&device.device));
    ASSERT_CUDA(cudaSetDevice(--device.device));
    ASSERT_OK_AND_ASSIGN(device_, CudaDevice::Open(device));
    ASSERT_CUDA(cudaStreamCreate(&stream_));
    ASSERT_CUDA(cudaStreamCreate(&other_));
    weights_ = std::make_unique<GpuArray<float>>(std::vector<float>(kRows, 3));
    marked_ = std::make_unique<GpuArray<int64_t>>(std::vector<int64_t>{5, 7});
    DeviceTable::Options options;
    options.stream = stream_;
    ASSERT_OK_AND_ASSIGN(
        table_, DeviceTable::Make(
                    device_.get(), kRows,
                    {{{"weight", DType::kF32, 1}, weights_->data()}}, options));
    ASSERT_OK_AND_ASSIGN(consumer_, table_->tracker()->AddConsumer("test"));
    ASSERT_OK(Take());
  }
  void TearDown() override {
    table_.reset();
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    if (other_ != nullptr) cudaStreamDestroy(other_);
    if (!IsSkipped()) cudaSetDevice(0);
  }

  absl::StatusOr<ChangeTracker::Changes> Take() {
    return table_->tracker()->Take(consumer_);
  }
  // Saves a tensor as a manager does, and returns its bytes.
  absl::StatusOr<std::vector<float>> Save() {
    TensorState state = TensorState::Of(weights_->data(), {kRows});
    state.device = device_.get();
    state.stream = stream_;
    // A copy writes whole units of the alignment.
    std::vector<float> saved(kRows + TensorState::Device::kAlignment);
    const TensorState::Device::Item item = {"w", &state, kRows * sizeof(float),
                                            0};
    CKPTDB_ASSIGN_OR_RETURN(
        const auto capture,
        device_->SetAside({&item, 1}, reinterpret_cast<char*>(saved.data())));
    CKPTDB_RETURN_IF_ERROR(capture->Fetch());
    saved.resize(kRows);
    return saved;
  }

  std::unique_ptr<CudaDevice> device_;
  cudaStream_t stream_ = nullptr;
  cudaStream_t other_ = nullptr;
  std::unique_ptr<GpuArray<float>> weights_;
  std::unique_ptr<GpuArray<int64_t>> marked_;
  std::unique_ptr<DeviceTable> table_;
  ChangeTracker::Consumer consumer_;
};

TEST_F(GpuContexts, ThreadWithoutADeviceStaysWithoutOne) {
  OnNewThread([this] {
    ASSERT_EQ(internal::CurrentContext(), nullptr);
    ASSERT_OK(table_->MarkUpserted(marked_->data(), 2));
    ASSERT_OK_AND_ASSIGN(const auto changes, Take());
    EXPECT_THAT(changes.upserted, ElementsAre(5, 7));
    ASSERT_OK_AND_ASSIGN(const std::vector<float> saved, Save());
    EXPECT_EQ(saved, std::vector<float>(kRows, 3));
    table_.reset();
    device_.reset();
    EXPECT_EQ(internal::CurrentContext(), nullptr);
  });
}

TEST_F(GpuContexts, SaveOfACapturedStreamFailsAndTheCaptureContinues) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(Take().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Save().status().code(), absl::StatusCode::kFailedPrecondition);
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamEndCapture(stream_, &graph));
  EXPECT_CUDA(cudaGraphDestroy(graph));
  EXPECT_OK(Take());
  EXPECT_OK(Save());
}

// The marked rows are those at the time of the launch, not of the capture.
TEST_F(GpuContexts, EachLaunchOfAGraphMarksRows) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
  ASSERT_OK(table_->MarkUpserted(marked_->data(), 2));
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamEndCapture(stream_, &graph));
  cudaGraphExec_t runs = nullptr;
  ASSERT_CUDA(cudaGraphInstantiate(&runs, graph, 0));
  for (const int64_t row : {11, 12}) {
    marked_->Write({row, 2});
    ASSERT_CUDA(cudaGraphLaunch(runs, stream_));
    ASSERT_OK_AND_ASSIGN(const auto changes, Take());
    EXPECT_THAT(changes.upserted, ElementsAre(2, row));
  }
  EXPECT_CUDA(cudaGraphExecDestroy(runs));
  EXPECT_CUDA(cudaGraphDestroy(graph));
}

TEST_F(GpuContexts, AnotherStreamMayBeCapturedDuringASave) {
  ASSERT_CUDA(cudaStreamBeginCapture(other_, cudaStreamCaptureModeGlobal));
  OnNewThread([this] {
    ASSERT_OK(table_->MarkUpserted(marked_->data(), 2));
    ASSERT_OK_AND_ASSIGN(const auto changes, Take());
    ASSERT_OK_AND_ASSIGN(const auto rows, table_->RowsOf(changes.upserted));
    ASSERT_OK_AND_ASSIGN(const std::vector<float> saved, Save());
    EXPECT_EQ(saved, std::vector<float>(kRows, 3));
  });
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamEndCapture(other_, &graph));
  EXPECT_CUDA(cudaGraphDestroy(graph));
}

}  // namespace
}  // namespace ckptdb::testing
