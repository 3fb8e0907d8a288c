// SPDX-License-Identifier: Apache-2.0
// A small model for tests of the manager.
#ifndef CKPTDB_TESTS_MANAGER_TEST_MODEL_H_
#define CKPTDB_TESTS_MANAGER_TEST_MODEL_H_

#include <cstring>
#include <mutex>

#include "manager/model_state.h"
#include "tests/support/test.h"

namespace ckptdb::testing {

// Two floats of weights and one of optimizer state.
struct TestRow {
  float weights[2] = {0, 0};
  float state = 0;

  bool operator==(const TestRow& other) const {
    return std::memcmp(this, &other, sizeof(TestRow)) == 0;
  }
};
using TestRows = std::map<int64_t, TestRow>;

// A rank's part of a tensor.
template <typename T>
TensorState ShardOf(T* data, const Shape& shape, const Shape& global,
                    const Shape& offset) {
  TensorState shard = TensorState::Of(data, shape);
  shard.global_shape = global;
  shard.offset = offset;
  return shard;
}

class TestTable : public TableState, public LiveTable {
 public:
  void Set(int64_t id, float value) {
    rows_[id] = {{value, value + 0.5f}, -value};
    tracker_.MarkUpserted({id});
  }
  void Erase(int64_t id) {
    rows_.erase(id);
    tracker_.MarkErased({id});
  }
  // Changes without marks.
  void SetUnmarked(int64_t id, const TestRow& row) { rows_[id] = row; }
  void EraseUnmarked(int64_t id) { rows_.erase(id); }
  const TestRows& rows() const { return rows_; }
  // The error that AllRows and RowsOf return from now on.
  void FailWith(absl::Status status) { failure_ = std::move(status); }

  // The error that Consume returns from now on.
  void FailLoads(absl::Status status) { load_failure_ = std::move(status); }

  std::vector<Slot> slots() const override {
    return {{"embedding", DType::kF32, 2}, {"adagrad_sum", DType::kF32, 1}};
  }
  // Spreads low ids over all ranks.
  SliceHash slice_hash() const override { return SliceHash::kMix; }
  absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const override {
    if (!failure_.ok()) return failure_;
    auto source = std::make_unique<Source>();
    for (const auto& [id, row] : rows_) source->Add(id, row);
    return source;
  }
  absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t> ids) const override {
    if (!failure_.ok()) return failure_;
    auto source = std::make_unique<Source>();
    for (const int64_t id : ids) {
      const auto found = rows_.find(id);
      if (found == rows_.end()) {
        return absl::InternalError(absl::StrCat("no row ", id));
      }
      source->Add(id, found->second);
    }
    return source;
  }
  std::vector<std::string> optimizer_slots() const override {
    return {"adagrad_sum"};
  }
  LiveTable* Live(absl::Span<const std::string> slots) override {
    live_slots_.assign(slots.begin(), slots.end());
    return this;
  }
  RowTracker* tracker() override { return &tracker_; }

  // The number of calls of Clear.
  int clears() const { return clears_; }

  absl::Status Clear() override {
    ++clears_;
    rows_.clear();
    return absl::OkStatus();
  }
  absl::Status Consume(int /*worker*/, const RowSink::Batch& batch) override {
    if (!load_failure_.ok()) return load_failure_;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t r = 0; r < batch.ids.size(); ++r) {
      TestRow& row = rows_[batch.ids[r]];
      for (size_t s = 0; s < live_slots_.size(); ++s) {
        if (live_slots_[s] == "embedding") {
          std::memcpy(row.weights, batch.slots[s] + r * 8, 8);
        } else {
          std::memcpy(&row.state, batch.slots[s] + r * 4, 4);
        }
      }
    }
    return absl::OkStatus();
  }
  absl::Status Erase(int /*worker*/, absl::Span<const int64_t> ids) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const int64_t id : ids) rows_.erase(id);
    return absl::OkStatus();
  }

 private:
  // Points to the rows in place: a map does not move them. One block per row.
  class Source : public RowSource {
   public:
    void Add(int64_t id, const TestRow& row) {
      blocks_.push_back(std::make_unique<OneRow>(
          OneRow{id, {{{row.weights, 8}, {&row.state, 4}}}}));
    }
    uint64_t block_count() const override { return blocks_.size(); }
    absl::StatusOr<RowBlock> Block(uint64_t block) const override {
      const OneRow& row = *blocks_[block];
      return RowBlock{{&row.id, 1}, row.slots};
    }

   private:
    struct OneRow {
      int64_t id;
      std::array<RowBlock::SlotValues, 2> slots;
    };
    std::vector<std::unique_ptr<OneRow>> blocks_;
  };

  std::mutex mutex_;
  int clears_ = 0;
  std::vector<std::string> live_slots_;
  TestRows rows_;
  RowTracker tracker_;
  absl::Status failure_;
  absl::Status load_failure_;
};

class TestIo : public BlobState {
 public:
  std::string position = "the beginning";
  absl::Status refuses;  // the result of Load, unless OK

  absl::StatusOr<std::string> Dump() override { return position; }
  absl::Status Load(absl::string_view bytes) override {
    position = std::string(bytes);
    return refuses;
  }
  absl::Status Redistribute(absl::Span<const std::string> parts) override {
    position = "all of";
    for (const std::string& part : parts) position += " " + part;
    return absl::OkStatus();
  }
};

// A rank's state: one replicated tensor, one table, one io state and two
// values.
struct TestModel {
  TestModel() {
    EXPECT_OK(state.AddTensor("w", TensorState::Of(weights.data(), {2, 3})));
    EXPECT_OK(state.AddTable("user", &users));
    EXPECT_OK(state.AddIoState("reader", &reader));
    EXPECT_OK(state.AddValue("epoch", &epoch));
    EXPECT_OK(state.AddValue("note", &note));
  }

  // Trains one step; `step` determines the values.
  void Train(int64_t step) {
    const auto value = static_cast<float>(step);
    for (size_t i = 0; i < weights.size(); ++i) {
      weights[i] = value + static_cast<float>(i);
    }
    for (int64_t id = step * 10; id < step * 10 + 5; ++id) {
      if (owns(id)) users.Set(id, value);
    }
    if (owns(7)) users.Set(7, value);
    if (const int64_t old = (step - 2) * 10; old > 0 && owns(old)) {
      users.Erase(old);
    }
    reader.position = absl::StrCat("line ", step);
    epoch = step / 3;
    note = std::string("\0\xff", 2) + std::to_string(step);
  }

  // The rows that this rank holds.
  std::function<bool(int64_t id)> owns = [](int64_t) { return true; };
  std::vector<float> weights = std::vector<float>(6);
  TestTable users;
  TestIo reader;
  int64_t epoch = 0;
  std::string note;
  ModelState state;
};

inline void ExpectSame(const TestModel& a, const TestModel& b) {
  EXPECT_EQ(a.weights, b.weights);
  EXPECT_TRUE(a.users.rows() == b.users.rows());
  EXPECT_EQ(a.reader.position, b.reader.position);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.note, b.note);
}

// Trains a model from the beginning.
inline void TrainTo(int64_t step, TestModel* model) {
  for (int64_t s = 1; s <= step; ++s) model->Train(s);
}

// Expects the state of a model that was trained up to `step`.
inline void ExpectTrained(const TestModel& model, int64_t step) {
  SCOPED_TRACE(step);
  TestModel expected;
  TrainTo(step, &expected);
  ExpectSame(model, expected);
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_MANAGER_TEST_MODEL_H_
