// SPDX-License-Identifier: Apache-2.0
// A hash table of another library in device memory, with the stand-in: finding
// changed rows by scores, and complete saves and restores.
#include "cuda/hash_table.h"

#include <cuda_runtime_api.h>

#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/base/row_block.h"
#include "manager/checkpoint_manager.h"
#include "schema/bytes/lossy.h"
#include "tests/cuda/tables/device_trainer.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using Source = HashTable::Source;

constexpr uint32_t kDim = 3;
constexpr uint64_t kValueBytes = (kDim + 1) * sizeof(float);

// The values of all slots, and the score.
struct Value {
  std::array<float, kDim + 1> numbers = {};
  uint64_t score = 0;
  bool operator==(const Value&) const = default;
};
using Values = std::map<int64_t, Value>;

// A hash table like those of HierarchicalKV and dynamicemb: it chooses the
// places of its rows, and each call is a kernel on the given stream.
class FakeHashTable : public Source {
 public:
  static constexpr uint64_t kPlaces = 128;

  uint64_t capacity() const override { return kPlaces; }

  absl::Status Export(const ExportSpec& spec, const Batch& to) override {
    return Queue(to.stream, "export", [this, spec, to] {
      uint64_t count = 0;
      for (uint64_t at = spec.first; at < spec.first + spec.places; ++at) {
        const auto row = rows_.find(places_[at]);
        if (!taken_[at] || row->second.score < spec.least_score) continue;
        to.keys[count] = row->first;
        to.scores[count] = row->second.score;
        if (to.values != nullptr) {
          std::memcpy(to.values + count * kValueBytes,
                      row->second.numbers.data(), kValueBytes);
        }
        ++count;
      }
      *to.count = count + excess;
    });
  }
  absl::Status Find(uint64_t rows, const Batch& of, uint8_t* found) override {
    return Queue(of.stream, "find", [this, rows, of, found] {
      for (uint64_t i = 0; i < rows; ++i) {
        const auto row = rows_.find(of.keys[i]);
        found[i] = row != rows_.end() ? 1 : 0;
        if (found[i] == 0) continue;
        of.scores[i] = row->second.score;
        std::memcpy(of.values + i * kValueBytes, row->second.numbers.data(),
                    kValueBytes);
      }
    });
  }
  absl::Status Insert(uint64_t rows, const Batch& from) override {
    return Queue(from.stream, "insert", [this, rows, from] {
      for (uint64_t i = 0; i < rows; ++i) {
        Value value;
        std::memcpy(value.numbers.data(), from.values + i * kValueBytes,
                    kValueBytes);
        value.score = from.scores == nullptr ? 1000 : from.scores[i];
        Set(from.keys[i], value);
      }
    });
  }
  absl::Status Erase(uint64_t rows, const int64_t* keys,
                     void* stream) override {
    return Queue(stream, "erase", [this, rows, keys] {
      for (uint64_t i = 0; i < rows; ++i) Drop(keys[i]);
    });
  }
  absl::Status Clear(void* stream) override {
    return Queue(stream, "clear", [this] {
      rows_.clear();
      taken_.fill(false);
    });
  }

  // Queues a step of the trainer.
  void Train(const Values& upserted, const std::vector<int64_t>& evicted,
             cudaStream_t stream) {
    ASSERT_OK(Queue(stream, "train", [this, upserted, evicted] {
      for (const auto& [key, value] : upserted) Set(key, value);
      for (const int64_t key : evicted) Drop(key);
    }));
  }
  const Values& rows() const { return rows_; }

  uint64_t excess = 0;  // rows that Export claims beyond the real ones

 private:
  static absl::Status Queue(void* stream, const char* name,
                            std::function<void()> work) {
    const cudaError_t error = CudaStandin::Queue(
        static_cast<cudaStream_t>(stream), name, std::move(work));
    return error == cudaSuccess
               ? absl::OkStatus()
               : absl::InternalError(absl::StrCat(name, " has failed"));
  }
  void Set(int64_t key, const Value& value) {
    if (!rows_.contains(key)) {
      uint64_t at = static_cast<uint64_t>(key) * 37 % kPlaces;
      while (taken_[at]) at = (at + 1) % kPlaces;
      taken_[at] = true;
      places_[at] = key;
    }
    rows_[key] = value;
  }
  void Drop(int64_t key) {
    if (rows_.erase(key) == 0) return;
    for (uint64_t at = 0; at < kPlaces; ++at) {
      if (taken_[at] && places_[at] == key) taken_[at] = false;
    }
  }

  Values rows_;
  std::array<int64_t, kPlaces> places_ = {};
  std::array<bool, kPlaces> taken_ = {};
};

Value Of(int64_t key, uint64_t score) {
  Value value;
  for (uint32_t i = 0; i <= kDim; ++i) {
    value.numbers[i] =
        static_cast<float>(key * 100 + i) + static_cast<float>(score) / 4;
  }
  value.score = score;
  return value;
}

class HashTableTest : public OrderTest {
 protected:
  void SetUp() override {
    OrderTest::SetUp();
    ASSERT_CUDA(cudaStreamCreate(&stream_));
  }
  void TearDown() override {
    EXPECT_CUDA(cudaDeviceSynchronize());
    cudaStreamDestroy(stream_);
    OrderTest::TearDown();
  }

  std::unique_ptr<HashTable> Make(FakeHashTable* source,
                                  HashTable::Options options = {},
                                  Codec codec = Codec::kNone) {
    options.stream = stream_;
    options.batch_rows = 50;
    auto table = HashTable::Make(device_.get(), source,
                                 {{"embedding", DType::kF32, kDim, codec},
                                  {"adagrad_sum", DType::kF32, 1}},
                                 options);
    EXPECT_OK(table);
    return table.ok() ? *std::move(table) : nullptr;
  }
  static Values RowsOf(const RowSource& source) {
    Values rows;
    for (uint64_t b = 0; b < source.block_count(); ++b) {
      const absl::StatusOr<RowBlock> block = source.Block(b);
      EXPECT_OK(block);
      for (size_t i = 0; i < block->ids.size(); ++i) {
        Value value;
        char* const numbers = reinterpret_cast<char*>(value.numbers.data());
        std::memcpy(numbers, block->slots[0].At(i), kDim * sizeof(float));
        std::memcpy(numbers + kDim * sizeof(float), block->slots[1].At(i),
                    sizeof(float));
        std::memcpy(&value.score, block->slots[2].At(i), sizeof(value.score));
        EXPECT_TRUE(rows.emplace(block->ids[i], value).second);
      }
    }
    return rows;
  }

  cudaStream_t stream_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Orders, HashTableTest,
                         ::testing::Values(Order::kLazy, Order::kEager),
                         NameOf);

TEST_P(HashTableTest, ScoresFindChangedRowsAndIdsFindErasedOnes) {
  FakeHashTable source;
  const auto table = Make(&source);
  ChangeTracker* const tracker = table->tracker();
  ASSERT_OK_AND_ASSIGN(const auto saves, tracker->AddConsumer("saves"));
  source.Train({{1, Of(1, 5)}, {2, Of(2, 5)}, {3, Of(3, 4)}}, {}, stream_);
  ASSERT_OK_AND_ASSIGN(ChangeTracker::Changes changes, tracker->Take(saves));
  EXPECT_FALSE(changes.complete);
  source.Train({{3, Of(3, 6)}, {4, Of(4, 6)}}, {2}, stream_);
  ASSERT_OK_AND_ASSIGN(changes, tracker->Take(saves));
  EXPECT_TRUE(changes.complete);
  // Row 1 had the highest score of the previous save.
  EXPECT_THAT(changes.upserted, UnorderedElementsAre(1, 3, 4));
  EXPECT_THAT(changes.erased, ElementsAre(2));
  ASSERT_OK_AND_ASSIGN(const auto rows, table->RowsOf(changes.upserted));
  EXPECT_EQ(RowsOf(*rows), source.rows());
  // Returned rows are taken again.
  source.Train({{5, Of(5, 7)}}, {4}, stream_);
  ASSERT_OK(tracker->Return(saves, std::move(changes)));
  ASSERT_OK_AND_ASSIGN(changes, tracker->Take(saves));
  EXPECT_THAT(changes.upserted, UnorderedElementsAre(1, 3, 5));
  EXPECT_THAT(changes.erased, ElementsAre(2));
  EXPECT_THAT(table->RowsOf({4}).status(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("row 4")));
}

TEST_P(HashTableTest, WithoutErasuresLowerScoresStayOnTheDevice) {
  FakeHashTable source;
  const auto table = Make(&source, {.erasures = HashTable::Erasures::kNone});
  ChangeTracker* const tracker = table->tracker();
  ASSERT_OK_AND_ASSIGN(const auto saves, tracker->AddConsumer("saves"));
  source.Train({{1, Of(1, 5)}, {2, Of(2, 4)}}, {}, stream_);
  ASSERT_OK(tracker->Take(saves));
  source.Train({{3, Of(3, 6)}}, {2}, stream_);
  ASSERT_OK_AND_ASSIGN(ChangeTracker::Changes changes, tracker->Take(saves));
  EXPECT_THAT(changes.upserted, UnorderedElementsAre(1, 3));
  EXPECT_THAT(changes.erased, IsEmpty());
  // The highest score is remembered even if no row has it any more.
  source.Train({}, {3}, stream_);
  ASSERT_OK(tracker->Take(saves));
  source.Train({{4, Of(4, 6)}}, {}, stream_);
  ASSERT_OK_AND_ASSIGN(changes, tracker->Take(saves));
  EXPECT_THAT(changes.upserted, ElementsAre(4));
}

// All batches are encoded alike: one row that cannot be encoded makes all
// batches leave the device unencoded.
TEST_P(HashTableTest, LossySlotIsEncodedInAllBatchesOrNone) {
  FakeHashTable source;
  const auto table = Make(&source, {}, Codec::kBf16);
  Values rows;
  for (int64_t key = 0; key < 120; ++key) rows[key] = Of(key, 5);
  source.Train(rows, {}, stream_);
  for (const bool has_code : {true, false}) {
    if (!has_code) {
      // Row 55 is in the second batch.
      rows[55].numbers[1] = std::numeric_limits<float>::max();
      source.Train({{55, rows[55]}}, {}, stream_);
    }
    ASSERT_OK_AND_ASSIGN(const auto captured, table->Capture(nullptr));
    ASSERT_OK(captured->Fetch());
    ASSERT_GT(captured->block_count(), 2U);
    uint64_t count = 0;
    for (uint64_t b = 0; b < captured->block_count(); ++b) {
      ASSERT_OK_AND_ASSIGN(const RowBlock block, captured->Block(b));
      count += block.ids.size();
      EXPECT_EQ(internal::EncodedOf(block.slots[0]) != nullptr, has_code);
      EXPECT_EQ(internal::EncodedOf(block.slots[1]), nullptr);
      for (size_t i = 0; i < block.ids.size() && has_code; ++i) {
        uint16_t half = 0;
        std::memcpy(&half, internal::EncodedOf(block.slots[0])->CodesAt(i),
                    sizeof(half));
        EXPECT_EQ(half, internal::EncodeBf16(internal::FloatBits(
                            rows[block.ids[i]].numbers[0])));
      }
    }
    EXPECT_EQ(count, 120U);
    if (!has_code) {
      EXPECT_EQ(RowsOf(*captured), rows);
    }
    ASSERT_OK_AND_ASSIGN(const auto all, table->AllRows());
    EXPECT_EQ(RowsOf(*all), rows);
  }
}

TEST_P(HashTableTest, RejectsExportOfMoreRowsThanPlaces) {
  FakeHashTable source;
  const auto table = Make(&source);
  source.excess = 51;
  EXPECT_THAT(table->AllRows().status(),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("returned 51 rows for 50 places")));
}

TEST_P(HashTableTest, MakeRejectsInvalidArguments) {
  FakeHashTable source;
  const auto make = [&](HashTable::Options options, Source* of) {
    return HashTable::Make(device_.get(), of, {{"score", DType::kF32, 1}},
                           options)
        .status();
  };
  EXPECT_THAT(make({}, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the source of a HashTable is null")));
  EXPECT_THAT(make({}, &source), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("duplicate slot")));
  for (const uint64_t rows : {uint64_t{0}, (uint64_t{1} << 24) + 1}) {
    EXPECT_THAT(make({.score_slot = "", .batch_rows = rows}, &source),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("expected 1 to 16777216")));
  }
  EXPECT_OK(make({.score_slot = ""}, &source));
}

// Saves of a random training, and restores of all or some of its slots.
TEST_P(HashTableTest, RestoresStepsOfATraining) {
  std::mt19937_64 random(TestSeed());
  const TempDir dir;
  ManagerOptions options = SaveEachStep(dir.path() + "/store");
  options.save.audit_deltas = true;
  std::map<int64_t, Values> history;
  constexpr int64_t kSteps = 6;
  FakeHashTable source;
  const auto table = Make(&source);
  ModelState model;
  ASSERT_OK(model.AddTable("user", table.get()));
  {
    ASSERT_OK_AND_ASSIGN(const auto manager,
                         CheckpointManager::Open(options, &model));
    Values rows;
    for (int64_t step = 1; step <= kSteps; ++step) {
      Values upserted;
      std::vector<int64_t> evicted;
      for (int i = 0; i < 15; ++i) {
        const auto key = static_cast<int64_t>(random() % 90) - 20;
        upserted[key] = Of(key, static_cast<uint64_t>(step));
      }
      for (const auto& [key, value] : rows) {
        if (random() % 8 == 0 && !upserted.contains(key)) {
          evicted.push_back(key);
        }
      }
      for (const auto& [key, value] : upserted) rows[key] = value;
      for (const int64_t key : evicted) rows.erase(key);
      source.Train(upserted, evicted, stream_);
      history[step] = rows;
      ASSERT_OK(manager->Step());
    }
    ASSERT_OK(manager->WaitUntilFinished());
  }
  ASSERT_OK_AND_ASSIGN(const auto manager,
                       CheckpointManager::Open(options, &model));
  for (const int64_t step : {kSteps, int64_t{2}}) {
    ASSERT_OK(manager->Restore({.step = step}));
    EXPECT_EQ(source.rows(), history[step]);
  }
  // Training continues with scores lower than earlier ones.
  source.Train({{70, Of(70, 3)}}, {}, stream_);
  ASSERT_OK(StepAndWait(manager.get()));
  FakeHashTable other;
  const auto other_table = Make(&other);
  ModelState other_model;
  ASSERT_OK(other_model.AddTable("user", other_table.get()));
  options.path = dir.path() + "/other";
  ASSERT_OK_AND_ASSIGN(const auto reader,
                       CheckpointManager::Open(options, &other_model));
  ASSERT_OK(reader->Restore({.path = dir.path() + "/store"}));
  EXPECT_EQ(other.rows(), source.rows());
}

TEST_P(HashTableTest, MissingSlotsStayOrAreZero) {
  FakeHashTable source;
  const auto table = Make(&source);
  source.Train({{1, Of(1, 5)}}, {}, stream_);
  LiveTable* const live = table->Live({"adagrad_sum"});
  const std::vector<int64_t> ids = {1, 9};
  const std::vector<float> sums = {0.5F, 0.75F};
  const std::vector<const char*> slots = {
      reinterpret_cast<const char*>(sums.data())};
  ASSERT_OK(live->Consume(0, {ids, slots}));
  Value expected = Of(1, 1000);
  expected.numbers = Of(1, 5).numbers;
  expected.numbers[kDim] = 0.5F;
  EXPECT_EQ(source.rows().at(1), expected);
  EXPECT_EQ(source.rows().at(9).numbers,
            (std::array<float, kDim + 1>{0, 0, 0, 0.75F}));
  ASSERT_OK(live->Erase(0, {1, 77}));
  EXPECT_FALSE(source.rows().contains(1));
  CudaStandin::FlipCopy(1, 20);
  EXPECT_THAT(live->Consume(0, {ids, slots}),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("2 rows to the device, from id 1 on")));
}

TEST_P(HashTableTest, FailingCallsLoseNoChanges) {
  FakeHashTable source;
  const auto table = Make(&source);
  ChangeTracker* const tracker = table->tracker();
  ASSERT_OK_AND_ASSIGN(const auto saves, tracker->AddConsumer("saves"));
  ASSERT_OK(tracker->Take(saves));
  int64_t failed = 0;
  for (int64_t call = 1; call <= 60; ++call) {
    const auto score = static_cast<uint64_t>(call);
    source.Train({{call, Of(call, score)}}, {call - 1}, stream_);
    CudaStandin::FailCall(CudaStandin::calls() + call, cudaErrorUnknown);
    absl::StatusOr<ChangeTracker::Changes> changes = tracker->Take(saves);
    absl::Status saved = changes.status();
    if (saved.ok()) {
      const absl::Span<const int64_t> ids = changes->upserted;
      saved = table->Capture(&ids).status();
      if (!saved.ok()) {
        ASSERT_OK(tracker->Return(saves, *std::move(changes)));
      }
    }
    CudaStandin::FailCall(0, cudaSuccess);
    if (saved.ok()) continue;
    ++failed;
    changes = tracker->Take(saves);
    ASSERT_OK(changes);
    EXPECT_TRUE(changes->complete);
    EXPECT_THAT(changes->upserted, ElementsAre(call));
    const std::vector<int64_t> gone(call > 1 ? 1 : 0, call - 1);
    EXPECT_EQ(changes->erased, gone);
  }
  EXPECT_GT(failed, 20);
}

}  // namespace
}  // namespace ckptdb::testing
