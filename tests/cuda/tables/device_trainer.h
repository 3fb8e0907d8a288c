// SPDX-License-Identifier: Apache-2.0
// A trainer with a table in device memory, with the stand-in, and a model of
// the table's rows.
#ifndef CKPTDB_TESTS_CUDA_TABLES_DEVICE_TRAINER_H_
#define CKPTDB_TESTS_CUDA_TABLES_DEVICE_TRAINER_H_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cuda/cuda_device.h"
#include "cuda/device_table.h"
#include "db/base/row_block.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schema/bytes/lossy.h"
#include "tests/cuda/device_fixture.h"
#include "tests/support/cuda_standin.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {

// Device memory. Destroy it when no queued work uses it.
class DeviceMemory {
 public:
  explicit DeviceMemory(uint64_t bytes) : bytes_(bytes) {
    void* memory = nullptr;
    EXPECT_CUDA(cudaMalloc(&memory, std::max<uint64_t>(bytes, 1)));
    memory_ = static_cast<char*>(memory);
  }
  DeviceMemory(DeviceMemory&& other) noexcept
      : bytes_(other.bytes_), memory_(std::exchange(other.memory_, nullptr)) {}
  ~DeviceMemory() {
    if (memory_ != nullptr) cudaFree(memory_);
  }
  template <typename T = char>
  T* get() const {
    return reinterpret_cast<T*>(memory_);
  }
  uint64_t bytes() const { return bytes_; }

 private:
  const uint64_t bytes_;
  char* memory_ = nullptr;
};

struct DeviceTrainerOptions {
  uint64_t rows = 300;
  bool with_ids = true;
  uint32_t dim = 5;            // elements of the embedding, f32
  uint64_t gap_bytes = 4;      // between its rows
  Codec codec = Codec::kNone;  // of the embedding
  DeviceTable::Options table = {};
};

class DeviceTrainer {
 public:
  static constexpr int64_t kFree = -1;

  // The values of a row.
  struct Row {
    std::vector<float> embedding;
    int64_t step = 0;
    bool operator==(const Row&) const = default;
  };
  using Rows = std::map<int64_t, Row>;

  DeviceTrainer(CudaDevice* device, const DeviceTrainerOptions& options)
      : options_(options),
        stride_(options.dim * sizeof(float) + options.gap_bytes),
        embedding_(options.rows * stride_),
        steps_(options.rows * sizeof(int64_t)),
        ids_(options.rows * sizeof(int64_t)) {
    EXPECT_CUDA(cudaStreamCreate(&stream_));
    std::memset(embedding_.get(), 0, embedding_.bytes());
    std::memset(steps_.get(), 0, steps_.bytes());
    std::fill_n(ids_.get<int64_t>(), options.rows, kFree);
    DeviceTable::Options made = options.table;
    made.stream = stream_;
    if (options.with_ids) {
      made.ids = ids_.get<int64_t>();
      made.free_id = kFree;
    } else {
      for (uint64_t row = 0; row < options.rows; ++row) {
        rows_[IdOf(row)] = Row{std::vector<float>(options.dim), 0};
      }
    }
    auto table = DeviceTable::Make(
        device, options.rows,
        {{{"embedding", DType::kF32, options.dim, options.codec},
          embedding_.get(),
          stride_},
         {{"step", DType::kI64, 1}, steps_.get()}},
        made);
    EXPECT_OK(table);
    if (table.ok()) table_ = *std::move(table);
  }
  ~DeviceTrainer() {
    CudaStandin::Finish(stream_);
    table_.reset();
    cudaStreamDestroy(stream_);
  }

  DeviceTable* table() const { return table_.get(); }
  void DropTable() { table_.reset(); }
  cudaStream_t stream() const { return stream_; }
  const Rows& rows() const { return rows_; }
  int64_t IdOf(uint64_t row) const {
    return options_.table.first_id +
           static_cast<int64_t>(row) * options_.table.id_step;
  }

  // Queues new values and marks for these ids, and adds rows for new ids.
  absl::Status Upsert(const std::vector<int64_t>& ids, int64_t step,
                      bool marks = true) {
    std::vector<std::tuple<uint64_t, int64_t, Row>> changes;
    std::vector<int64_t> numbers;
    for (const int64_t id : ids) {
      Row values{std::vector<float>(options_.dim), step};
      for (uint32_t d = 0; d < options_.dim; ++d) {
        values.embedding[d] = static_cast<float>(id * 1000 + step * 10 + d);
      }
      const uint64_t row = RowFor(id);
      changes.emplace_back(row, id, values);
      numbers.push_back(static_cast<int64_t>(row));
      rows_[id] = values;
    }
    Queue("train", [this, changes] {
      for (const auto& [row, id, values] : changes) {
        std::memcpy(embedding_.get() + row * stride_, values.embedding.data(),
                    options_.dim * sizeof(float));
        steps_.get<int64_t>()[row] = values.step;
        ids_.get<int64_t>()[row] = id;
      }
    });
    return marks ? Mark(numbers) : absl::OkStatus();
  }

  // Queues the marks of these rows, after a kernel that computes their numbers.
  absl::Status Mark(const std::vector<int64_t>& numbers) {
    marked_.emplace_back(numbers.size() * sizeof(int64_t));
    auto* const batch = marked_.back().get<int64_t>();
    Queue("find rows", [numbers, batch] {
      std::copy(numbers.begin(), numbers.end(), batch);
    });
    return table_->MarkUpserted(batch, numbers.size());
  }

  absl::Status Erase(const std::vector<int64_t>& ids) {
    std::vector<uint64_t> gone;
    for (const int64_t id : ids) {
      const auto place = places_.find(id);
      if (place == places_.end()) continue;
      gone.push_back(place->second);
      free_.push_back(place->second);
      places_.erase(place);
      rows_.erase(id);
    }
    Queue("erase", [this, gone] {
      for (const uint64_t row : gone) ids_.get<int64_t>()[row] = kFree;
    });
    return table_->MarkErased(ids);
  }

  // Queues a step: some rows change, some are added and some are erased.
  absl::Status Train(int64_t step, std::mt19937_64* random) {
    std::vector<int64_t> upserted;
    const uint64_t most = options_.rows / 8 + 1;
    const uint64_t count = (*random)() % most;
    for (uint64_t i = 0; i < count; ++i) {
      if (!options_.with_ids) {
        upserted.push_back(IdOf((*random)() % options_.rows));
        continue;
      }
      const auto id = static_cast<int64_t>((*random)() % options_.rows) - 50;
      if (id != kFree && rows_.size() + count < options_.rows) {
        upserted.push_back(id);
      }
    }
    std::sort(upserted.begin(), upserted.end());
    upserted.erase(std::unique(upserted.begin(), upserted.end()),
                   upserted.end());
    absl::Status trained = Upsert(upserted, step);
    if (!options_.with_ids) return trained;
    std::vector<int64_t> erased;
    for (const auto& [id, row] : rows_) {
      if ((*random)() % 16 == 0) erased.push_back(id);
    }
    trained.Update(Erase(erased));
    return trained;
  }

  // Returns the rows on the device after all queued work.
  Rows Read() const {
    CudaStandin::Finish(stream_);
    return ReadNow();
  }
  // Returns the rows on the device now.
  Rows ReadNow() const {
    Rows rows;
    for (uint64_t row = 0; row < options_.rows; ++row) {
      const int64_t id =
          options_.with_ids ? ids_.get<int64_t>()[row] : IdOf(row);
      if (options_.with_ids && id == kFree) continue;
      Row& values = rows[id];
      values.embedding.resize(options_.dim);
      std::memcpy(values.embedding.data(), embedding_.get() + row * stride_,
                  options_.dim * sizeof(float));
      values.step = steps_.get<int64_t>()[row];
    }
    return rows;
  }

  // Rebuilds the trainer's index after a restore.
  void Reindex() {
    rows_ = Read();
    places_.clear();
    free_.clear();
    next_ = options_.rows;
    for (uint64_t row = 0; row < options_.rows; ++row) {
      const int64_t id = ids_.get<int64_t>()[row];
      if (id == kFree) {
        free_.push_back(row);
      } else {
        places_[id] = row;
      }
    }
  }

  // Returns the rows as decoded from the table's codec.
  Rows Rounded(Rows rows) const {
    if (options_.codec == Codec::kNone) return rows;
    for (auto& [id, row] : rows) {
      const uint64_t bytes = options_.dim * sizeof(float);
      auto* const numbers = reinterpret_cast<char*>(row.embedding.data());
      std::string stored;
      Item::Error error;
      EXPECT_TRUE(Quantize(options_.codec, {numbers, bytes}, options_.dim,
                           Rounding::kNearest, &stored, &error));
      EXPECT_OK(Dequantize(options_.codec, stored, bytes, numbers));
    }
    return rows;
  }

  // Returns the rows of a source.
  Rows RowsOf(const RowSource& source) const {
    Rows rows;
    for (uint64_t b = 0; b < source.block_count(); ++b) {
      const absl::StatusOr<RowBlock> block = source.Block(b);
      EXPECT_OK(block);
      if (!block.ok()) continue;
      for (size_t i = 0; i < block->ids.size(); ++i) {
        Row row{std::vector<float>(options_.dim), 0};
        ReadNumbers(block->slots[0], block->RowAt(i), &row.embedding);
        std::memcpy(&row.step, block->slots[1].At(block->RowAt(i)),
                    sizeof(row.step));
        EXPECT_TRUE(rows.emplace(block->ids[i], row).second);
      }
    }
    return rows;
  }

 private:
  static void ReadNumbers(const RowBlock::SlotValues& column, uint64_t row,
                          std::vector<float>* numbers) {
    if (internal::EncodedOf(column) == nullptr) {
      std::memcpy(numbers->data(), column.At(row),
                  numbers->size() * sizeof(float));
      return;
    }
    const internal::EncodedRows& encoded = *internal::EncodedOf(column);
    const char* const codes = encoded.CodesAt(row);
    for (size_t i = 0; i < numbers->size(); ++i) {
      if (encoded.codec == Codec::kBf16) {
        uint16_t half = 0;
        std::memcpy(&half, codes + i * sizeof(half), sizeof(half));
        (*numbers)[i] = internal::FloatOf(internal::DecodeBf16(half));
      } else {
        (*numbers)[i] = internal::Int8Scale(encoded.bounds[row])
                            .Decode(static_cast<uint8_t>(codes[i]));
      }
    }
  }

  void Queue(const char* name, std::function<void()> work) {
    EXPECT_CUDA(CudaStandin::Queue(stream_, name, std::move(work),
                                   {{embedding_.get(), embedding_.bytes()},
                                    {steps_.get(), steps_.bytes()},
                                    {ids_.get(), ids_.bytes()}}));
  }

  uint64_t RowFor(int64_t id) {
    if (!options_.with_ids) {
      return static_cast<uint64_t>(id - options_.table.first_id) /
             static_cast<uint64_t>(options_.table.id_step);
    }
    const auto [place, is_new] = places_.try_emplace(id, 0);
    if (!is_new) return place->second;
    if (free_.empty()) {
      place->second = next_++;
    } else {
      place->second = free_.back();
      free_.pop_back();
    }
    EXPECT_LT(place->second, options_.rows);
    return place->second;
  }

  const DeviceTrainerOptions options_;
  const uint64_t stride_;
  const DeviceMemory embedding_;
  const DeviceMemory steps_;
  const DeviceMemory ids_;
  cudaStream_t stream_ = nullptr;
  std::vector<DeviceMemory> marked_;
  Rows rows_;
  std::map<int64_t, uint64_t> places_;
  std::vector<uint64_t> free_;
  uint64_t next_ = 0;
  std::unique_ptr<DeviceTable> table_;
};

// A table of a trainer, and a consumer of its changes.
class DeviceTableTest : public OrderTest {
 protected:
  void TearDown() override {
    trainer_.reset();
    OrderTest::TearDown();
  }
  void Open(uint64_t staging_bytes = 64 * kMiB) {
    trainer_.reset();
    OrderTest::Open(staging_bytes);
  }
  void Make(const DeviceTrainerOptions& options = {}) {
    trainer_ = std::make_unique<DeviceTrainer>(device_.get(), options);
    table_ = trainer_->table();
    ASSERT_NE(table_, nullptr);
    ASSERT_OK_AND_ASSIGN(consumer_, table_->tracker()->AddConsumer("test"));
    // A consumer's first set is incomplete.
    ASSERT_OK(table_->tracker()->Take(consumer_));
  }
  void MakeWithoutIds() {
    DeviceTrainerOptions options;
    options.with_ids = false;
    Make(options);
  }
  absl::StatusOr<ChangeTracker::Changes> Take() {
    return table_->tracker()->Take(consumer_);
  }
  // Takes a complete set with these ids.
  template <typename Upserted, typename Erased>
  void ExpectTaken(const Upserted& upserted, const Erased& erased) {
    ASSERT_OK_AND_ASSIGN(const ChangeTracker::Changes changes, Take());
    EXPECT_TRUE(changes.complete);
    EXPECT_THAT(changes.upserted, upserted);
    EXPECT_THAT(changes.erased, erased);
  }
  void ExpectRows(const std::vector<int64_t>& ids,
                  const DeviceTrainer::Rows& expected) {
    ASSERT_OK_AND_ASSIGN(const auto rows, table_->RowsOf(ids));
    EXPECT_EQ(trainer_->RowsOf(*rows), expected);
  }
  // Fetches a capture, of all rows or of some, when the trainer's work is done.
  void ExpectCaptured(TableState::Captured* captured,
                      const DeviceTrainer::Rows& expected) {
    ASSERT_CUDA(cudaStreamSynchronize(trainer_->stream()));
    ASSERT_OK(captured->Fetch());
    EXPECT_TRUE(trainer_->RowsOf(*captured) == expected);
  }

  std::unique_ptr<DeviceTrainer> trainer_;
  DeviceTable* table_ = nullptr;
  ChangeTracker::Consumer consumer_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_CUDA_TABLES_DEVICE_TRAINER_H_
