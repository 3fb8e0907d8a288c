// SPDX-License-Identifier: Apache-2.0
// A device of the stand-in, a trainer's stream, and tensors.
#ifndef CKPTDB_TESTS_CUDA_DEVICE_FIXTURE_H_
#define CKPTDB_TESTS_CUDA_DEVICE_FIXTURE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/cuda_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/cuda_standin.h"
#include "tests/support/seed.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;

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
  using Order = CudaStandin::Order;

  static constexpr uint64_t kDeviceBytes = uint64_t{64} << 20;

  // Chunks of 1 MiB, so that small tensors have several.
  static CudaDevice::Options SmallRing(uint64_t staging_bytes) {
    CudaDevice::Options options;
    options.staging_bytes = staging_bytes;
    options.chunk_bytes = 1 << 20;
    options.ring_slots = 2;
    return options;
  }

  explicit DeviceFixture(Order order, const CudaDevice::Options& options) {
    CudaStandin::Reset({.devices = options.device + 1,
                        .order = order,
                        .seed = TestSeed(),
                        .device_bytes = kDeviceBytes});
    EXPECT_EQ(cudaSetDevice(options.device), cudaSuccess);
    auto opened = CudaDevice::Open(options);
    EXPECT_OK(opened);
    if (opened.ok()) device_ = *std::move(opened);
    EXPECT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
  }
  explicit DeviceFixture(Order order)
      : DeviceFixture(order, SmallRing(64 << 20)) {}
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
    EXPECT_EQ(cudaFree(tensor.memory), cudaSuccess);
  }
  cudaStream_t stream() const { return stream_; }

  // Makes a tensor of `rows` rows with `gap` bytes between them.
  OnDevice Make(uint64_t rows, uint64_t row_bytes, uint64_t gap = 0) {
    OnDevice tensor = {nullptr, rows, row_bytes, row_bytes + gap};
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, rows * tensor.stride_bytes), cudaSuccess);
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
    EXPECT_EQ(CudaStandin::Queue(
                  stream, "train",
                  [=] { tensor.Write(BytesAfter(step, tensor.bytes())); },
                  {{tensor.memory, tensor.rows * tensor.stride_bytes}}),
              cudaSuccess);
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

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_CUDA_DEVICE_FIXTURE_H_
