// SPDX-License-Identifier: Apache-2.0
// Tensors and tables in the memory of a real or an emulated GPU
// (tests/cuda/gpu_machine.h), compared with a model on the host.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cuda/cuda_device.h"
#include "cuda/device_table.h"
#include "db/base/row_block.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "manager/checkpoint_manager.h"
#include "tests/cuda/gpu_machine.h"
#include "tests/cuda/tables/staged_slots.h"
#include "tests/support/code_numbers.h"
#include "tests/support/seed.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

using ::testing::HasSubstr;

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

class GpuDeviceTest : public GpuMachineTest {
 protected:
  void SetUp() override {
    GpuMachineTest::SetUp();
    if (IsSkipped()) return;
    CudaDevice::Options options;
    options.chunk_bytes = 1 << 20;
    ASSERT_OK_AND_ASSIGN(device_, CudaDevice::Open(options));
  }
  void TearDown() override {
    device_.reset();
    for (void* memory : memory_) cudaFree(memory);
    GpuMachineTest::TearDown();
  }

  std::unique_ptr<CudaDevice> device_;
  std::vector<void*> memory_;
};

class GpuTest : public GpuDeviceTest {
 protected:
  // Makes a tensor of bytes with `rows` rows and `gap` bytes between them.
  TensorState Make(int64_t rows, int64_t row_bytes, uint64_t gap) {
    TensorState state;
    state.dtype = DType::kU8;
    state.shape = {rows, row_bytes};
    state.stride_bytes = static_cast<uint64_t>(row_bytes) + gap;
    EXPECT_CUDA(cudaMalloc(&state.data,
                           static_cast<uint64_t>(rows) * state.stride_bytes));
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
    ASSERT_CUDA(cudaMemcpy2DAsync(state.data, state.stride_bytes,
                                  texts_.back()->data(), width, width,
                                  static_cast<uint64_t>(state.shape[0]),
                                  cudaMemcpyHostToDevice, stream_));
  }
  std::string Read(const TensorState& state) const {
    std::string text(Bytes(state), '\0');
    const auto width = static_cast<uint64_t>(state.shape[1]);
    EXPECT_CUDA(cudaMemcpy2D(text.data(), width, state.data, state.stride_bytes,
                             width, static_cast<uint64_t>(state.shape[0]),
                             cudaMemcpyDeviceToHost));
    return text;
  }

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
    ASSERT_OK(manager->Restore({.step = step}));
    for (const TensorState& tensor : tensors) {
      EXPECT_TRUE(Read(tensor) == BytesOf(step, Bytes(tensor))) << step;
    }
  }
  ASSERT_OK(manager->Close());
}

// Rows of one slot in device memory, and the same rows on the host.
class GpuSlot {
 public:
  GpuSlot(uint64_t rows, uint32_t row_bytes, uint64_t gap, uint64_t shift)
      : row_bytes_(row_bytes),
        stride_(row_bytes + gap),
        shift_(shift),
        host_(shift + rows * stride_),
        device_(host_.size()) {
    EXPECT_CUDA(cudaHostAlloc(&pinned_, host_.size(), 0));
  }
  GpuSlot(const GpuSlot&) = delete;
  ~GpuSlot() { cudaFreeHost(pinned_); }

  DeviceTable::Array array(const std::string& name) const {
    return {{name, DType::kU8, row_bytes_}, device_.data() + shift_, stride_};
  }
  void Change(uint64_t row, std::mt19937_64* random) {
    for (uint32_t at = 0; at < row_bytes_; ++at) {
      host_[shift_ + row * stride_ + at] = static_cast<char>((*random)());
    }
  }
  // Earlier copies must have arrived.
  void Send(cudaStream_t stream) {
    std::memcpy(pinned_, host_.data(), host_.size());
    EXPECT_CUDA(cudaMemcpyAsync(device_.data(), pinned_, host_.size(),
                                cudaMemcpyHostToDevice, stream));
  }
  const std::vector<char>& host() const { return host_; }
  std::vector<char> Read() const { return device_.Read(); }

 private:
  const uint32_t row_bytes_;
  const uint64_t stride_;
  const uint64_t shift_;
  std::vector<char> host_;
  const GpuArray<char> device_;
  void* pinned_ = nullptr;
};

class GpuTableTest : public GpuDeviceTest {
 protected:
  const uint64_t rows_ = GpuIsEmulated() ? 7'003 : 100'003;

  void SetUp() override {
    GpuDeviceTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_CUDA(cudaMalloc(&marked_, rows_ * sizeof(int64_t)));
    memory_.push_back(marked_);
    // All alignments for which kernels exist, and partial lanes.
    slots_.push_back(std::make_unique<GpuSlot>(rows_, 256, 0, 0));
    slots_.push_back(std::make_unique<GpuSlot>(rows_, 40, 8, 8));
    slots_.push_back(std::make_unique<GpuSlot>(rows_, 12, 4, 4));
    slots_.push_back(std::make_unique<GpuSlot>(rows_, 6, 2, 2));
    slots_.push_back(std::make_unique<GpuSlot>(rows_, 17, 2, 1));
  }
  void TearDown() override {
    slots_.clear();
    GpuDeviceTest::TearDown();
  }

  std::unique_ptr<DeviceTable> Make() {
    std::vector<DeviceTable::Array> arrays;
    for (size_t s = 0; s < slots_.size(); ++s) {
      arrays.push_back(slots_[s]->array(std::string(1, char('a' + s))));
    }
    DeviceTable::Options options;
    options.stream = stream_;
    auto table = DeviceTable::Make(device_.get(), rows_, arrays, options);
    EXPECT_OK(table);
    return table.ok() ? *std::move(table) : nullptr;
  }
  void Mark(DeviceTable* table, const std::vector<int64_t>& rows) {
    ASSERT_CUDA(cudaMemcpy(marked_, rows.data(), rows.size() * sizeof(int64_t),
                           cudaMemcpyHostToDevice));
    ASSERT_OK(table->MarkUpserted(static_cast<int64_t*>(marked_), rows.size()));
    ASSERT_CUDA(cudaStreamSynchronize(stream_));
  }

  void* marked_ = nullptr;
  std::vector<std::unique_ptr<GpuSlot>> slots_;
};

TEST_F(GpuTableTest, MarksAreTakenInOrderAndReturned) {
  const auto table = Make();
  ASSERT_NE(table, nullptr);
  std::mt19937_64 random(TestSeed());
  ASSERT_OK_AND_ASSIGN(const auto consumer,
                       table->tracker()->AddConsumer("test"));
  ASSERT_OK(table->tracker()->Take(consumer));
  for (int round = 0; round < 5; ++round) {
    std::vector<int64_t> rows(rows_ / 5);
    for (int64_t& row : rows) row = static_cast<int64_t>(random() % rows_);
    Mark(table.get(), rows);
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    ASSERT_OK_AND_ASSIGN(ChangeTracker::Changes changes,
                         table->tracker()->Take(consumer));
    EXPECT_TRUE(changes.upserted == rows);
    ASSERT_OK(table->tracker()->Return(consumer, std::move(changes)));
    ASSERT_OK_AND_ASSIGN(changes, table->tracker()->Take(consumer));
    EXPECT_TRUE(changes.upserted == rows);
  }
  Mark(table.get(), {static_cast<int64_t>(rows_), -1});
  EXPECT_THAT(table->tracker()->Take(consumer).status(),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("2 marked row numbers")));
}

TEST_F(GpuTableTest, RestoresSavedSteps) {
  const auto table = Make();
  ASSERT_NE(table, nullptr);
  std::mt19937_64 random(TestSeed());
  const TempDir dir;
  ModelState model;
  ASSERT_OK(model.AddTable("item", table.get()));
  ManagerOptions options;
  options.path = dir.path() + "/store";
  options.schedule.permanent = SaveEveryNSteps(1);
  ASSERT_OK_AND_ASSIGN(const auto manager,
                       CheckpointManager::Open(options, &model));
  std::vector<std::vector<std::vector<char>>> history(1);
  for (int step = 1; step <= 3; ++step) {
    std::vector<int64_t> rows(step == 1 ? rows_ : rows_ / 20);
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i] = static_cast<int64_t>(step == 1 ? i : random() % rows_);
    }
    for (auto& slot : slots_) {
      for (const int64_t row : rows) {
        slot->Change(static_cast<uint64_t>(row), &random);
      }
      slot->Send(stream_);
    }
    Mark(table.get(), rows);
    ASSERT_OK(manager->Step());
    history.emplace_back();
    for (const auto& slot : slots_) history.back().push_back(slot->host());
  }
  ASSERT_OK(manager->WaitUntilFinished());
  for (const int64_t step : {3, 1, 2}) {
    ASSERT_OK(manager->Restore({.step = step}));
    for (size_t s = 0; s < slots_.size(); ++s) {
      // Including the gaps between rows.
      EXPECT_TRUE(slots_[s]->Read() == history[step][s]) << step << " " << s;
    }
  }
}

// Rows encoded by the kernels are stored as the same bytes, with the same
// errors, as rows encoded on the host: rows of all kinds and alignments, with
// widths that are or are not multiples of a lane and of a warp.
TEST_F(GpuTableTest, CodesMatchTheHost) {
  const uint64_t code_rows = GpuIsEmulated() ? 101 : 4'001;
  std::mt19937_64 random(TestSeed());
  for (const uint32_t dim : {5, 8, 31, 64, 67, 256, 1030}) {
    for (const uint64_t shift : {0, 8, 4, 2, 1}) {
      SCOPED_TRACE(absl::StrCat(dim, " ", shift));
      const uint64_t stride = dim * sizeof(float) + 16 + shift;
      std::vector<char> rows(shift + code_rows * stride);
      for (uint64_t row = 0; row < code_rows; ++row) {
        const std::vector<float> numbers =
            RowOfKind(static_cast<RowKind>(random() % kRowKinds), dim, &random);
        std::memcpy(rows.data() + shift + row * stride, numbers.data(),
                    dim * sizeof(float));
      }
      const GpuArray<char> memory(rows);
      char* const first = memory.data() + shift;
      const std::vector<Slot> slots = {
          {"halves", DType::kF32, dim, Codec::kBf16},
          {"bytes", DType::kF32, dim, Codec::kInt8}};
      ASSERT_OK_AND_ASSIGN(const auto table,
                           DeviceTable::Make(device_.get(), code_rows,
                                             {{slots[0], first, stride},
                                              {slots[1], first, stride}}));
      ASSERT_OK_AND_ASSIGN(const auto captured, table->Capture(nullptr));
      ASSERT_OK(captured->Fetch());
      ASSERT_OK_AND_ASSIGN(const RowBlock block, captured->Block(0));
      EXPECT_NE(internal::EncodedOf(block.slots[0]), nullptr);
      EXPECT_NE(internal::EncodedOf(block.slots[1]), nullptr);
      ASSERT_OK_AND_ASSIGN(const auto raw, table->AllRows());
      const StagedSlots there = StageSlots(*captured, slots);
      const StagedSlots here = StageSlots(*raw, slots);
      EXPECT_TRUE(there.entries == here.entries);
      EXPECT_EQ(there.errors, here.errors);
    }
  }
}

}  // namespace
}  // namespace ckptdb::testing
