// SPDX-License-Identifier: Apache-2.0
#include "bench/stall_model.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/measure.h"
#include "manager/map_table.h"
#include "manager/tables.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::bench {
namespace {

constexpr uint64_t kTensors = 8;

void ChangeWord(char* word, uint64_t seed) {
  const uint64_t changed = MixId(seed);
  std::memcpy(word, &changed, sizeof(changed));
}

void FillRow(const std::array<char*, 2>& values, uint64_t seed) {
  for (char* const value : values) {
    for (uint64_t at = 0; at < Table::kSlotBytes; at += sizeof(uint64_t)) {
      ChangeWord(value + at, ++seed);
    }
  }
}

// Ids are 0, 1, 2, ...
class StallArrays : public StallTable {
 public:
  static absl::StatusOr<std::unique_ptr<StallTable>> Make(uint64_t rows,
                                                          uint64_t seed) {
    CKPTDB_ASSIGN_OR_RETURN(Pages embedding,
                            Pages::Allocate(rows * Table::kSlotBytes));
    CKPTDB_ASSIGN_OR_RETURN(Pages adagrad,
                            Pages::Allocate(rows * Table::kSlotBytes));
    FillRandom(embedding.memory(), seed);
    FillRandom(adagrad.memory(), MixId(seed));
    return std::unique_ptr<StallTable>(
        new StallArrays(rows, std::move(embedding), std::move(adagrad)));
  }

  TableState* state() override { return &table_; }

 protected:
  absl::Status Touch(absl::Span<const int64_t> ids,
                     std::vector<RowValues>* values) override {
    for (const int64_t id : ids) {
      const uint64_t at = static_cast<uint64_t>(id) * Table::kSlotBytes;
      values->push_back(
          {embedding_.memory().data + at, adagrad_.memory().data + at});
    }
    return table_.MarkUpserted(ids);
  }
  int64_t IdAt(uint64_t place) const override {
    return static_cast<int64_t>(place);
  }

 private:
  StallArrays(uint64_t rows, Pages embedding, Pages adagrad)
      : StallTable(rows),
        embedding_(std::move(embedding)),
        adagrad_(std::move(adagrad)),
        table_(rows,
               {Array("embedding", Floats(embedding_), Table::kElements),
                Array("adagrad_sum", Floats(adagrad_), Table::kElements)},
               {.slice_hash = SliceHash::kMix}) {}

  static float* Floats(const Pages& pages) {
    return reinterpret_cast<float*>(pages.memory().data);
  }

  const Pages embedding_;
  const Pages adagrad_;
  VectorTable table_;
};

// Ids in no order, like a trainer's.
class StallColumns : public StallTable {
 public:
  static absl::StatusOr<std::unique_ptr<StallTable>> Make(uint64_t rows,
                                                          uint64_t seed) {
    auto made = std::unique_ptr<StallColumns>(new StallColumns(rows));
    CKPTDB_ASSIGN_OR_RETURN(made->embedding_,
                            made->table_.column<float>("embedding"));
    CKPTDB_ASSIGN_OR_RETURN(made->adagrad_,
                            made->table_.column<float>("adagrad_sum"));
    std::vector<RowValues> values;
    for (uint64_t place = 0; place < rows; ++place) {
      values.clear();
      CKPTDB_RETURN_IF_ERROR(made->Touch({made->IdAt(place)}, &values));
      FillRow(values.front(), seed + place);
    }
    return made;
  }

  TableState* state() override { return &table_; }

 protected:
  absl::Status Touch(absl::Span<const int64_t> ids,
                     std::vector<RowValues>* values) override {
    CKPTDB_RETURN_IF_ERROR(table_.Insert(ids, &inserted_));
    for (const ColumnTable::Inserted& at : inserted_) {
      values->push_back({reinterpret_cast<char*>(embedding_[at.row]),
                         reinterpret_cast<char*>(adagrad_[at.row])});
    }
    return absl::OkStatus();
  }
  int64_t IdAt(uint64_t place) const override {
    return static_cast<int64_t>(MixId(place));
  }

 private:
  explicit StallColumns(uint64_t rows)
      : StallTable(rows),
        table_({{"embedding", DType::kF32, Table::kElements},
                {"adagrad_sum", DType::kF32, Table::kElements}}) {}

  ColumnTable table_;
  ColumnTable::Column<float> embedding_;
  ColumnTable::Column<float> adagrad_;
  std::vector<ColumnTable::Inserted> inserted_;
};

// The same ids.
class StallMap : public StallTable {
 public:
  StallMap(uint64_t rows, uint64_t seed) : StallTable(rows) {
    for (uint64_t place = 0; place < rows; ++place) {
      Row& row = map_[IdAt(place)];
      FillRow(ValuesOf(&row), seed + place);
    }
  }

  TableState* state() override { return &table_; }

 protected:
  absl::Status Touch(absl::Span<const int64_t> ids,
                     std::vector<RowValues>* values) override {
    for (const int64_t id : ids) values->push_back(ValuesOf(&map_[id]));
    table_.MarkUpserted(ids);
    return absl::OkStatus();
  }
  int64_t IdAt(uint64_t place) const override {
    return static_cast<int64_t>(MixId(place));
  }

 private:
  struct Row {
    std::array<float, Table::kElements> embedding;
    std::array<float, Table::kElements> adagrad;
  };
  static RowValues ValuesOf(Row* row) {
    return {reinterpret_cast<char*>(row->embedding.data()),
            reinterpret_cast<char*>(row->adagrad.data())};
  }

  std::unordered_map<int64_t, Row> map_;
  MapTable<std::unordered_map<int64_t, Row>> table_{
      &map_,
      {Field("embedding", &Row::embedding),
       Field("adagrad_sum", &Row::adagrad)}};
};

}  // namespace

absl::StatusOr<std::unique_ptr<StallTable>> StallTable::Make(StallRows kind,
                                                             uint64_t rows,
                                                             uint64_t seed) {
  switch (kind) {
    case StallRows::kArrays:
      return StallArrays::Make(rows, seed);
    case StallRows::kColumns:
      return StallColumns::Make(rows, seed);
    case StallRows::kMap:
      return std::make_unique<StallMap>(rows, seed);
  }
  return absl::InternalError("an unknown kind of rows");
}

absl::Status StallTable::Change(uint64_t seed) {
  changed_.clear();
  values_.clear();
  for (uint64_t place = 0; place < rows_; place += kRowsPerChange) {
    changed_.push_back(IdAt(
        std::min(place + MixId(seed + place) % kRowsPerChange, rows_ - 1)));
  }
  CKPTDB_RETURN_IF_ERROR(Touch(changed_, &values_));
  for (const RowValues& row : values_) {
    for (char* const value : row) ChangeWord(value, seed);
  }
  return absl::OkStatus();
}

uint64_t StallTable::changed_bytes() const {
  return (rows_ + kRowsPerChange - 1) / kRowsPerChange * Table::kRowBytes;
}

void StallTable::CopyChanged(uint64_t first, uint64_t count, char* to) const {
  for (uint64_t i = first; i < first + count; ++i) {
    std::memcpy(to, &changed_[i], sizeof(int64_t));
    to += sizeof(int64_t);
    for (const char* const value : values_[i]) {
      std::memcpy(to, value, Table::kSlotBytes);
      to += Table::kSlotBytes;
    }
  }
}

absl::StatusOr<std::unique_ptr<StallModel>> StallModel::Make(StallRows kind,
                                                             uint64_t rows,
                                                             uint64_t seed) {
  TouchFreeMemory(kTouchedCopies * rows * Table::kRowBytes);
  CKPTDB_ASSIGN_OR_RETURN(auto table, StallTable::Make(kind, rows, seed));
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
  CKPTDB_RETURN_IF_ERROR(
      model->state_.AddTable("table", model->table_->state()));
  return model;
}

StallModel::StallModel(std::unique_ptr<StallTable> table, Pages tensors)
    : table_(std::move(table)), tensors_(std::move(tensors)) {}

absl::Status StallModel::Train(uint64_t seed) {
  CKPTDB_RETURN_IF_ERROR(table_->Change(seed));
  const Memory all = tensors_.memory();
  for (uint64_t i = 0; i < kTensors; ++i) {
    ChangeWord(all.data + all.bytes / kTensors * i, seed + i);
  }
  return absl::OkStatus();
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
