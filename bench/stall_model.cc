#include "ckptdb/bench/stall_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/schema/slice.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::bench {
namespace {

constexpr uint64_t kTensors = 8;

void ChangeWord(char* word, uint64_t seed) {
  const uint64_t changed = MixId(seed);
  std::memcpy(word, &changed, sizeof(changed));
}

}  // namespace

// Rows where the table has them, in its order: memory is slower in any other.
class TrackedTable::Rows : public RowSource {
 public:
  Rows(const TrackedTable& table, absl::Span<const int64_t> ids)
      : ids_(InOrder(ids, table.rows_)),
        rows_(ids_.begin(), ids_.end()),
        slots_{SlotRows{table.embedding_.memory().data, Table::kSlotBytes},
               SlotRows{table.adagrad_.memory().data, Table::kSlotBytes}} {}
  uint64_t block_count() const override { return 1; }
  absl::StatusOr<RowBlock> Block(uint64_t) const override {
    return RowBlock{ids_, slots_, rows_};
  }

 private:
  // Rows have small numbers: a bit for each sorts them.
  static std::vector<int64_t> InOrder(absl::Span<const int64_t> ids,
                                      uint64_t rows) {
    constexpr uint64_t kBits = 64;
    std::vector<uint64_t> marked(rows / kBits + 1);
    for (const int64_t id : ids) {
      const auto row = static_cast<uint64_t>(id);
      marked[row / kBits] |= uint64_t{1} << row % kBits;
    }
    std::vector<int64_t> sorted;
    sorted.reserve(ids.size());
    for (uint64_t word = 0; word < marked.size(); ++word) {
      for (uint64_t bits = marked[word]; bits != 0; bits &= bits - 1) {
        sorted.push_back(static_cast<int64_t>(word * kBits) +
                         std::countr_zero(bits));
      }
    }
    return sorted;
  }

  const std::vector<int64_t> ids_;
  const std::vector<uint32_t> rows_;
  const std::array<SlotRows, 2> slots_;
};

absl::StatusOr<std::unique_ptr<TrackedTable>> TrackedTable::Make(
    uint64_t rows, uint64_t seed) {
  CKPTDB_ASSIGN_OR_RETURN(Pages ids, Pages::Allocate(rows * sizeof(int64_t)));
  CKPTDB_ASSIGN_OR_RETURN(Pages embedding,
                          Pages::Allocate(rows * Table::kSlotBytes));
  CKPTDB_ASSIGN_OR_RETURN(Pages adagrad,
                          Pages::Allocate(rows * Table::kSlotBytes));
  auto* const id = reinterpret_cast<int64_t*>(ids.memory().data);
  for (uint64_t row = 0; row < rows; ++row) id[row] = static_cast<int64_t>(row);
  FillRandom(embedding.memory(), seed);
  FillRandom(adagrad.memory(), MixId(seed));
  return std::unique_ptr<TrackedTable>(new TrackedTable(
      rows, std::move(ids), std::move(embedding), std::move(adagrad)));
}

TrackedTable::TrackedTable(uint64_t rows, Pages ids, Pages embedding,
                           Pages adagrad)
    : rows_(rows),
      ids_(std::move(ids)),
      embedding_(std::move(embedding)),
      adagrad_(std::move(adagrad)) {}

void TrackedTable::Change(uint64_t seed) {
  changed_.clear();
  for (uint64_t row = 0; row < rows_; row += kRowsPerChange) {
    const uint64_t chosen =
        std::min(row + MixId(seed + row) % kRowsPerChange, rows_ - 1);
    changed_.push_back(static_cast<int64_t>(chosen));
    ChangeWord(embedding_.memory().data + chosen * Table::kSlotBytes, seed);
    ChangeWord(adagrad_.memory().data + chosen * Table::kSlotBytes, seed);
  }
  tracker_.MarkUpserted(changed_);
}

uint64_t TrackedTable::changed_bytes() const {
  return (rows_ + kRowsPerChange - 1) / kRowsPerChange * Table::kRowBytes;
}

void TrackedTable::CopyChanged(uint64_t first, uint64_t count, char* to) const {
  for (uint64_t i = first; i < first + count; ++i) {
    const uint64_t at = static_cast<uint64_t>(changed_[i]) * Table::kSlotBytes;
    std::memcpy(to, &changed_[i], sizeof(int64_t));
    to += sizeof(int64_t);
    for (const Pages* slot : {&embedding_, &adagrad_}) {
      std::memcpy(to, slot->memory().data + at, Table::kSlotBytes);
      to += Table::kSlotBytes;
    }
  }
}

std::vector<Slot> TrackedTable::slots() const {
  return {{"embedding", DType::kF32, Table::kElements},
          {"adagrad_sum", DType::kF32, Table::kElements}};
}

absl::StatusOr<std::unique_ptr<RowSource>> TrackedTable::AllRows() const {
  const auto* const ids = reinterpret_cast<const int64_t*>(ids_.memory().data);
  return std::make_unique<ArrayRowSource>(
      absl::MakeConstSpan(ids, rows_),
      std::vector<SlotRows>{{embedding_.memory().data, Table::kSlotBytes},
                            {adagrad_.memory().data, Table::kSlotBytes}});
}

absl::StatusOr<std::unique_ptr<RowSource>> TrackedTable::RowsOf(
    absl::Span<const int64_t> ids) const {
  return std::make_unique<Rows>(*this, ids);
}

absl::StatusOr<std::unique_ptr<StallModel>> StallModel::Make(uint64_t rows,
                                                             uint64_t seed) {
  CKPTDB_ASSIGN_OR_RETURN(auto table, TrackedTable::Make(rows, seed));
  constexpr uint64_t kMultiple = kTensors * kAlignBytes;
  const uint64_t bytes =
      (table->changed_bytes() + kMultiple - 1) / kMultiple * kMultiple;
  CKPTDB_ASSIGN_OR_RETURN(Pages tensors, Pages::Allocate(bytes));
  FillRandom(tensors.memory(), seed + 1);
  auto model = std::unique_ptr<StallModel>(
      new StallModel(std::move(table), std::move(tensors)));
  const Memory all = model->tensors_.memory();
  for (uint64_t i = 0; i < kTensors; ++i) {
    auto* const data =
        reinterpret_cast<float*>(all.data + all.bytes / kTensors * i);
    const auto elements =
        static_cast<int64_t>(all.bytes / kTensors / sizeof(float));
    CKPTDB_RETURN_IF_ERROR(model->state_.AddTensor(
        absl::StrCat("layer.", i), TensorState::Of(data, {elements})));
  }
  CKPTDB_RETURN_IF_ERROR(model->state_.AddTable("table", model->table_.get()));
  return model;
}

StallModel::StallModel(std::unique_ptr<TrackedTable> table, Pages tensors)
    : table_(std::move(table)), tensors_(std::move(tensors)) {}

void StallModel::Train(uint64_t seed) {
  table_->Change(seed);
  const Memory all = tensors_.memory();
  for (uint64_t i = 0; i < kTensors; ++i) {
    ChangeWord(all.data + all.bytes / kTensors * i, seed + i);
  }
}

uint64_t StallModel::bytes_to_copy() const {
  return tensors_.memory().bytes + table_->changed_bytes();
}

Trainers::Trainers(int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Compute(); });
  }
}

Trainers::~Trainers() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
}

void Trainers::Compute() {
  constexpr size_t kElements = 1024;  // stays in the nearest cache
  std::array<float, kElements> values{};
  while (!stop_) {
    float sum = 0;
    for (float& value : values) {
      value = value * 0.5f + 1.0f;
      sum += value;
    }
    sum_.store(sum, std::memory_order_relaxed);
  }
}

}  // namespace ckptdb::bench
