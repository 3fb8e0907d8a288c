// SPDX-License-Identifier: Apache-2.0
// A device of the stand-in, a trainer's stream, and tensors.
#ifndef CKPTDB_TESTS_CUDA_DEVICE_FIXTURE_H_
#define CKPTDB_TESTS_CUDA_DEVICE_FIXTURE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cuda/cuda_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "manager/checkpoint_manager.h"
#include "tests/cuda/expect_cuda.h"
#include "tests/support/cuda_standin.h"
#include "tests/support/seed.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;

using Order = CudaStandin::Order;

// Chunks of 1 MiB, so that small tensors and tables have several.
inline CudaDevice::Options SmallRing(uint64_t staging_bytes = 64 * kMiB) {
  CudaDevice::Options options;
  options.staging_bytes = staging_bytes;
  options.chunk_bytes = kMiB;
  options.ring_slots = 2;
  options.required = true;
  return options;
}

// The names of a parameterised test's instances.
inline std::string OrderName(Order order) {
  constexpr const char* kNames[] = {"Lazy", "Eager", "CopiesLast", "Random"};
  return kNames[static_cast<size_t>(order)];
}
inline std::string NameOf(const ::testing::TestParamInfo<Order>& given) {
  return OrderName(given.param);
}

// Fails if the stand-in reported a violation, or something was not freed.
inline void ExpectNothingLeft() {
  EXPECT_THAT(CudaStandin::violations(), ::testing::IsEmpty());
  EXPECT_EQ(CudaStandin::allocations(), 0);
}

// Options of a manager that saves each step as a delta.
inline ManagerOptions SaveEachStep(const std::string& path) {
  ManagerOptions options;
  options.path = path;
  options.store.background_sweep = false;
  options.save.bounds.max_delta_ratio = 100;
  options.schedule.permanent = SaveEveryNSteps(1);
  return options;
}

// Saves a step, and waits until it is committed.
inline absl::Status StepAndWait(CheckpointManager* manager) {
  const absl::Status status = manager->Step().status();
  return status.ok() ? manager->WaitUntilFinished() : status;
}

// A device of the stand-in.
class StandinTest : public ::testing::Test {
 protected:
  void TearDown() override {
    device_.reset();
    ExpectNothingLeft();
  }
  void OpenDevice(Order order, const CudaDevice::Options& options) {
    device_.reset();
    CudaStandin::Reset({.order = order, .seed = TestSeed()});
    ASSERT_OK_AND_ASSIGN(device_, CudaDevice::Open(options));
  }

  std::unique_ptr<CudaDevice> device_;
};

// The same in each order.
class OrderTest : public StandinTest,
                  public ::testing::WithParamInterface<Order> {
 protected:
  void SetUp() override { Open(); }
  void Open(uint64_t staging_bytes = 64 * kMiB) {
    OpenDevice(GetParam(), SmallRing(staging_bytes));
  }
};

// Returns the bytes of a tensor after a step of training.
inline std::string BytesAfter(int step, uint64_t bytes) {
  const uint64_t words = (bytes + 7) / 8;
  std::string text(words * 8, '\0');
  for (uint64_t i = 0; i < words; ++i) {
    const uint64_t word =
        (i + 1) * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(step);
    std::memcpy(text.data() + i * 8, &word, 8);
  }
  text.resize(bytes);
  return text;
}

// A tensor of bytes in device memory. Its rows may have gaps between them.
struct OnDevice {
  char* memory = nullptr;
  uint64_t rows = 1;
  uint64_t row_bytes = 0;
  uint64_t stride_bytes = 0;

  uint64_t bytes() const { return rows * row_bytes; }
  // Returns its bytes, row-major and without the gaps.
  std::string Read() const {
    std::string text;
    for (uint64_t r = 0; r < rows; ++r) {
      text.append(memory + r * stride_bytes, row_bytes);
    }
    return text;
  }
  void Write(const std::string& text) const {
    for (uint64_t r = 0; r < rows; ++r) {
      std::memcpy(memory + r * stride_bytes, text.data() + r * row_bytes,
                  row_bytes);
    }
  }
};

class DeviceFixture {
 public:
  static constexpr uint64_t kDeviceBytes = uint64_t{64} << 20;

  explicit DeviceFixture(Order order,
                         const CudaDevice::Options& options = SmallRing()) {
    CudaStandin::Reset({.devices = options.device + 1,
                        .order = order,
                        .seed = TestSeed(),
                        .device_bytes = kDeviceBytes});
    EXPECT_CUDA(cudaSetDevice(options.device));
    auto opened = CudaDevice::Open(options);
    EXPECT_OK(opened);
    if (opened.ok()) device_ = *std::move(opened);
    EXPECT_CUDA(cudaStreamCreate(&stream_));
  }
  DeviceFixture(const DeviceFixture&) = delete;
  DeviceFixture& operator=(const DeviceFixture&) = delete;
  // After each test, no queued work refers to freed memory, and everything is
  // freed.
  ~DeviceFixture() {
    device_.reset();
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
    for (const OnDevice& tensor : tensors_) cudaFree(tensor.memory);
    if (!expects_violations_) {
      EXPECT_THAT(CudaStandin::violations(), ::testing::IsEmpty());
    }
    EXPECT_EQ(CudaStandin::allocations(), 0);
    EXPECT_EQ(CudaStandin::retained(), 0);
  }

  CudaDevice* device() const { return device_.get(); }
  void ExpectViolations() { expects_violations_ = true; }
  // Frees a tensor returned by Make.
  void Free(const OnDevice& tensor) {
    std::erase_if(tensors_, [&](const OnDevice& other) {
      return other.memory == tensor.memory;
    });
    EXPECT_CUDA(cudaFree(tensor.memory));
  }
  cudaStream_t stream() const { return stream_; }

  // Makes a tensor of `rows` rows with `gap` bytes between them.
  OnDevice Make(uint64_t rows, uint64_t row_bytes, uint64_t gap = 0) {
    OnDevice tensor = {nullptr, rows, row_bytes, row_bytes + gap};
    void* memory = nullptr;
    EXPECT_CUDA(cudaMalloc(&memory, rows * tensor.stride_bytes));
    tensor.memory = static_cast<char*>(memory);
    tensors_.push_back(tensor);
    return tensor;
  }
  TensorState StateOf(const OnDevice& tensor) const {
    TensorState state;
    state.dtype = DType::kU8;
    state.shape = {static_cast<int64_t>(tensor.rows),
                   static_cast<int64_t>(tensor.row_bytes)};
    state.data = tensor.memory;
    state.device = device_.get();
    state.stream = stream_;
    if (tensor.stride_bytes != tensor.row_bytes) {
      state.stride_bytes = tensor.stride_bytes;
    }
    return state;
  }
  // Queues a step of training on a stream.
  static void Train(const OnDevice& tensor, int step, cudaStream_t stream) {
    EXPECT_CUDA(CudaStandin::Queue(
        stream, "train",
        [=] { tensor.Write(BytesAfter(step, tensor.bytes())); },
        {{tensor.memory, tensor.rows * tensor.stride_bytes}}));
  }
  void Train(const OnDevice& tensor, int step) const {
    Train(tensor, step, stream_);
  }

 private:
  std::unique_ptr<CudaDevice> device_;
  cudaStream_t stream_ = nullptr;
  std::vector<OnDevice> tensors_;
  bool expects_violations_ = false;
};

// The memory of a save, pinned or not, and the bytes expected in it.
class DeviceSave {
 public:
  DeviceSave(DeviceFixture* fixture, bool pinned)
      : fixture_(fixture), pinned_(pinned) {}
  ~DeviceSave() { Unpin(); }
  DeviceSave(const DeviceSave&) = delete;
  DeviceSave& operator=(const DeviceSave&) = delete;

  void Add(const OnDevice& tensor, std::string name = "") {
    tensors_.push_back(tensor);
    states_.push_back(std::make_unique<TensorState>(fixture_->StateOf(tensor)));
    names_.push_back(std::make_unique<std::string>(
        name.empty() ? absl::StrCat("t", names_.size()) : std::move(name)));
    items_.push_back(
        {*names_.back(), states_.back().get(), tensor.bytes(), bytes_});
    bytes_ += (tensor.bytes() + 63) / 64 * 64;
  }
  TensorState& state(size_t tensor) { return *states_[tensor]; }

  // Queues a step of training of all tensors.
  void Train(int step) const {
    for (const OnDevice& tensor : tensors_) fixture_->Train(tensor, step);
  }
  // Captures the values after a step while training continues, and fetches them
  // when its next step is done.
  void SaveDuringTraining(int step) {
    Train(step);
    ASSERT_OK(SetAside());
    Train(step + 1);
    ASSERT_CUDA(cudaStreamSynchronize(fixture_->stream()));
    ASSERT_OK(Fetch());
    ExpectAllAfter(step);
  }
  absl::Status SetAside() {
    memory_.assign(bytes_ + 64, '\x77');
    if (pinned_) {
      EXPECT_OK(fixture_->device()->Pin(memory_.data(), memory_.size()));
    }
    auto capture = fixture_->device()->SetAside(items_, memory_.data());
    if (!capture.ok()) return capture.status();
    capture_ = *std::move(capture);
    return absl::OkStatus();
  }
  absl::Status Fetch() {  // as the save thread does
    absl::Status status;
    std::thread([&] { status = capture_->Fetch(); }).join();
    return status;
  }
  void Drop() { capture_.reset(); }
  void Unpin() {
    Drop();
    if (pinned_ && !memory_.empty()) fixture_->device()->Unpin(memory_.data());
    memory_.clear();
  }

  bool AllAfter(int step) const { return NotAfter(step).empty(); }
  void ExpectAllAfter(int step) const {
    EXPECT_THAT(NotAfter(step), ::testing::IsEmpty());
  }

 private:
  // Returns the tensors that have other values than after this step.
  std::vector<std::string> NotAfter(int step) const {
    std::vector<std::string> others;
    for (size_t t = 0; t < tensors_.size(); ++t) {
      const auto& item = items_[t];
      if (memory_.substr(item.at, item.bytes) == BytesAfter(step, item.bytes)) {
        continue;
      }
      others.push_back(absl::StrCat(*names_[t], ", ", item.bytes, " bytes"));
    }
    return others;
  }

  DeviceFixture* const fixture_;
  const bool pinned_;
  std::vector<OnDevice> tensors_;
  std::vector<std::unique_ptr<TensorState>> states_;
  std::vector<std::unique_ptr<std::string>> names_;
  std::vector<TensorState::Device::Item> items_;
  uint64_t bytes_ = 0;
  std::string memory_;
  std::unique_ptr<TensorState::Device::Capture> capture_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_CUDA_DEVICE_FIXTURE_H_
