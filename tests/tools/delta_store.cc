// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/delta_store.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "schema/status.h"

namespace ckptdb::testing {
namespace {

constexpr uint32_t kWidth = 4;

// Rows of "user". An id and a salt give the same row in all saves.
class Users {
 public:
  Users(std::vector<int64_t> ids, uint32_t salt)
      : ids_(std::move(ids)), freq_(ids_.size(), salt) {
    for (const int64_t id : ids_) {
      for (uint32_t i = 0; i < kWidth; ++i) {
        embedding_.push_back(static_cast<float>(id) +
                             100 * static_cast<float>(salt) +
                             0.25F * static_cast<float>(i));
      }
    }
    rows_.emplace(ids_, std::vector<RowBlock::SlotValues>{
                            {embedding_.data(), kWidth * sizeof(float)},
                            {freq_.data(), sizeof(uint32_t)}});
  }

  RankState::Table Table() const {
    RankState::Table table;
    table.name = "user";
    table.slots = {{"embedding", DType::kF32, kWidth},
                   {"freq", DType::kU32, 1}};
    return table;
  }
  void AddAll(RankState* state) const {
    RankState::Table table = Table();
    table.rows = &*rows_;
    state->AddTable(std::move(table));
  }
  void AddChanges(absl::Span<const int64_t> erased, RankState* state) const {
    RankState::Table table = Table();
    table.changes = RankState::Changes{&*rows_, erased};
    state->AddTable(std::move(table));
  }

 private:
  std::vector<int64_t> ids_;
  std::vector<float> embedding_;
  std::vector<uint32_t> freq_;
  std::optional<RowSource::Arrays> rows_;
};

class Items {
 public:
  Items(std::vector<int64_t> ids, std::vector<double> prices)
      : ids_(std::move(ids)),
        prices_(std::move(prices)),
        rows_(ids_, {{prices_.data(), sizeof(double)}}) {}

  // Without changes, the table is saved with all its rows.
  void Add(bool all, bool changes, const char* base_reason,
           RankState* state) const {
    RankState::Table table;
    table.name = "item";
    table.slots = {{"price", DType::kF64, 1}};
    if (all) table.rows = &rows_;
    if (changes) table.changes = RankState::Changes{&rows_, {}};
    table.base_reason = base_reason;
    state->AddTable(std::move(table));
  }

 private:
  const std::vector<int64_t> ids_;
  const std::vector<double> prices_;
  const RowSource::Arrays rows_;
};

// Row 7, with two elements of each dtype, the second at a limit of the dtype.
class Types {
 public:
  Types() {
    Add<double>(DType::kF64, 0.1, -std::numeric_limits<double>::infinity());
    Add<float>(DType::kF32, 0.1F, std::nanf(""));
    Add<uint16_t>(DType::kF16, 0x3c01, 0x7bff);
    Add<uint16_t>(DType::kBf16, 0x3f81, 0x7f80);
    Add<uint8_t>(DType::kF8E4M3, 0x39, 0x7f);
    Add<uint8_t>(DType::kF8E5M2, 0x3d, 0xfc);
    AddInts<int64_t>(DType::kI64);
    AddInts<int32_t>(DType::kI32);
    AddInts<int16_t>(DType::kI16);
    AddInts<int8_t>(DType::kI8);
    AddInts<uint64_t>(DType::kU64);
    AddInts<uint32_t>(DType::kU32);
    AddInts<uint16_t>(DType::kU16);
    AddInts<uint8_t>(DType::kU8);
    Add<uint8_t>(DType::kBool, 1, 0);
    std::vector<RowBlock::SlotValues> rows;
    for (const std::vector<char>& bytes : bytes_) {
      rows.push_back({bytes.data(), bytes.size()});
    }
    rows_.emplace(ids_, std::move(rows));
  }
  void Add(RankState* state) const {
    state->AddTable("types", slots_, &*rows_);
  }

 private:
  template <typename T>
  void Add(DType dtype, T first, T second) {
    std::vector<char> bytes(2 * sizeof(T));
    std::memcpy(bytes.data(), &first, sizeof(T));
    std::memcpy(bytes.data() + sizeof(T), &second, sizeof(T));
    bytes_.push_back(std::move(bytes));
    slots_.push_back({std::string(DTypeName(dtype)), dtype, 2});
  }
  template <typename T>
  void AddInts(DType dtype) {
    Add<T>(dtype, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  }

  const std::vector<int64_t> ids_ = {7};
  std::vector<std::vector<char>> bytes_;
  std::vector<Slot> slots_;
  std::optional<RowSource::Arrays> rows_;
};

// The saves of one trainer, each a child of the previous one.
class Trainer {
 public:
  explicit Trainer(Store* store) : store_(store) {}

  absl::Status Save(int64_t step, RankState* state) {
    state->AddTensor("w", TensorView::Of(weights_.data(), {3}));
    state->AddBlob("reader", "position 17");
    SaveSpec spec;
    spec.step = step;
    spec.parent = parent_;
    CKPTDB_ASSIGN_OR_RETURN(const SaveResult saved, store_->Save(spec, *state));
    parent_ = saved.version;
    return absl::OkStatus();
  }

 private:
  Store* const store_;
  const std::vector<float> weights_ = {1, 2, 3};
  std::optional<Version> parent_;
};

absl::Status Save100(Trainer* trainer) {
  const Users users({-2, -1, 0, 1, 2, 3, 4, 5, 6, 7}, /*salt=*/1);
  const Items items({0, 1, 2, 3}, {0.5, 1.5, 2.5, 3.5});
  const Types types;
  RankState state;
  users.AddAll(&state);
  items.Add(/*all=*/true, /*changes=*/false, "", &state);
  types.Add(&state);
  return trainer->Save(100, &state);
}

absl::Status Save200(Trainer* trainer) {
  const Users users({1, 50}, /*salt=*/2);
  const std::vector<int64_t> erased = {-2};
  const Items items({}, {});
  RankState state;
  users.AddChanges(erased, &state);
  items.Add(/*all=*/false, /*changes=*/true, "", &state);
  return trainer->Save(200, &state);
}

absl::Status Save300(Trainer* trainer) {
  const Users users({-2}, /*salt=*/3);
  const std::vector<int64_t> erased = {50};
  const Items items({0, 1, 2, 3}, {0.5, 1.5, 2.5, 30.5});
  RankState state;
  users.AddChanges(erased, &state);
  items.Add(/*all=*/true, /*changes=*/true, kItemBaseReason, &state);
  return trainer->Save(300, &state);
}

absl::Status Save400(Trainer* trainer) {
  const Users users({1}, /*salt=*/2);
  const Items items({2}, {20.5});
  RankState state;
  users.AddChanges({}, &state);
  items.Add(/*all=*/false, /*changes=*/true, "", &state);
  return trainer->Save(400, &state);
}

// In the big store, all values of a row are its salt.
class BigRows {
 public:
  BigRows(std::vector<int64_t> ids, float salt)
      : ids_(std::move(ids)),
        values_(ids_.size() * kBigWidth, salt),
        rows_(ids_, {{values_.data(), kBigWidth * sizeof(float)}}) {}

  void Add(bool delta, absl::Span<const int64_t> erased,
           RankState* state) const {
    RankState::Table table;
    table.name = "t";
    table.slots = {{"v", DType::kF32, kBigWidth}};
    if (delta) {
      table.changes = RankState::Changes{&rows_, erased};
    } else {
      table.rows = &rows_;
    }
    state->AddTable(std::move(table));
  }

 private:
  static constexpr uint32_t kBigWidth = 128;
  const std::vector<int64_t> ids_;
  const std::vector<float> values_;
  const RowSource::Arrays rows_;
};

absl::Status SaveBig(int64_t step, const BigRows& rows, bool delta,
                     absl::Span<const int64_t> erased, Trainer* trainer) {
  RankState state;
  rows.Add(delta, erased, &state);
  return trainer->Save(step, &state);
}

absl::StatusOr<std::unique_ptr<Store>> OpenNew(const std::string& path) {
  StoreOptions options;
  options.background_sweep = false;
  return Store::Open(path, options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> MakeBigDeltaStore(
    const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(auto store, OpenNew(path));
  Trainer trainer(store.get());
  std::vector<int64_t> ids(20'000);
  std::iota(ids.begin(), ids.end(), 0);
  const std::vector<int64_t> erased = {7};
  CKPTDB_RETURN_IF_ERROR(
      SaveBig(50, BigRows({9900}, 1), /*delta=*/false, {}, &trainer));
  CKPTDB_RETURN_IF_ERROR(
      SaveBig(100, BigRows(ids, 2), /*delta=*/false, {}, &trainer));
  CKPTDB_RETURN_IF_ERROR(
      SaveBig(200, BigRows({9900}, 3), /*delta=*/true, erased, &trainer));
  return store;
}

absl::StatusOr<std::unique_ptr<Store>> MakeDeltaStore(const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(auto store, OpenNew(path));
  Trainer trainer(store.get());
  CKPTDB_RETURN_IF_ERROR(Save100(&trainer));
  CKPTDB_RETURN_IF_ERROR(Save200(&trainer));
  CKPTDB_RETURN_IF_ERROR(Save300(&trainer));
  CKPTDB_RETURN_IF_ERROR(Save400(&trainer));
  return store;
}

}  // namespace ckptdb::testing
