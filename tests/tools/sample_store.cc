// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/sample_store.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "db/state.h"
#include "schema/status.h"
#include "tests/db/content.h"
#include "tests/tools/held_tables.h"

namespace ckptdb::testing {
namespace {

absl::StatusOr<std::unique_ptr<Store>> OpenNew(const std::string& path) {
  StoreOptions options;
  options.background_sweep = false;
  return Store::Open(path, options);
}

// --- Full steps.

// Adds the rows from -count / 2 on that are in `slices`.
void AddSampleTable(int64_t count, const SliceRange& slices,
                    HeldTables* tables) {
  constexpr int kWidth = 16;
  HeldTables::RowList rows;
  float next = 0.25F;
  for (int64_t id = -count / 2; id < count - count / 2; ++id) {
    if (!slices.Contains(SliceOf(id, SliceHash::kModulo))) continue;
    std::string row;
    for (int i = 0; i < kWidth; ++i) row += Bytes(next++);
    rows.emplace_back(id, row + Bytes(uint32_t{7}));
  }
  tables->Add("user",
              {{"embedding", DType::kF32, kWidth},
               {"freq", DType::kU32, 1, Codec::kLz4}},
              rows);
}

const float* SampleWeights() {
  static const auto* const kWeights = [] {
    auto* weights = new std::vector<float>(12);
    std::iota(weights->begin(), weights->end(), 1.5F);
    return weights;
  }();
  return kWeights->data();
}

absl::Status SaveSample(Store* store, const SaveSpec& spec, int64_t rows,
                        const std::vector<float>& big) {
  HeldTables tables;
  AddSampleTable(rows, {}, &tables);
  RankState& state = *tables.state();
  const int64_t scalar = 100;
  state.AddTensor("mlp.weight", TensorView::Of(SampleWeights(), {3, 4}));
  state.AddTensor("step", TensorView::Of(&scalar, {}));
  state.AddBlob("reader", "position 17");
  if (!big.empty()) {
    state.AddTensor("big", TensorView::Of(big.data(), {kBigElements}));
  }
  return store->Save(spec, state).status();
}

absl::StatusOr<StagedRank> StageHalf(const Store& store, const Ticket& ticket,
                                     uint32_t rank) {
  const std::vector<uint32_t> bounds = EvenSliceBounds(2);
  HeldTables tables;
  AddSampleTable(1500, {bounds[rank], bounds[rank + 1]}, &tables);
  tables.state()->AddTensor(
      "mlp.weight",
      {DType::kF32, {3, 4}, SampleWeights(), {6, 4}, {rank == 0 ? 0 : 3, 0}});
  return Stage(store.path(), ticket, *tables.state());
}

// --- Delta steps.

// An id and a salt give the same row in all saves.
HeldTables::RowList Users(const std::vector<int64_t>& ids, uint32_t salt) {
  HeldTables::RowList rows;
  for (const int64_t id : ids) {
    const float first = static_cast<float>(id) + 100 * static_cast<float>(salt);
    rows.emplace_back(
        id, Bytes(first, first + 0.25F, first + 0.5F, first + 0.75F, salt));
  }
  return rows;
}
const std::vector<Slot>& UserSlots() {
  static const auto* const kSlots = new std::vector<Slot>{
      {"embedding", DType::kF32, 4}, {"freq", DType::kU32, 1}};
  return *kSlots;
}

const std::vector<Slot>& ItemSlots() {
  static const auto* const kSlots =
      new std::vector<Slot>{{"price", DType::kF64, 1}};
  return *kSlots;
}
HeldTables::RowList Items(double last) {
  return {{0, Bytes(0.5)}, {1, Bytes(1.5)}, {2, Bytes(2.5)}, {3, Bytes(last)}};
}

// Row 7, with two elements of each dtype, the second at a limit of the dtype.
void AddTypes(HeldTables* tables) {
  std::vector<Slot> slots;
  std::string row;
  const auto add = [&](DType dtype, auto first, auto second) {
    slots.push_back({std::string(DTypeName(dtype)), dtype, 2});
    row += Bytes(first, second);
  };
  const auto add_limits = [&](DType dtype, auto zero) {
    using Limits = std::numeric_limits<decltype(zero)>;
    add(dtype, Limits::min(), Limits::max());
  };
  add(DType::kF64, 0.1, -std::numeric_limits<double>::infinity());
  add(DType::kF32, 0.1F, std::nanf(""));
  add(DType::kF16, uint16_t{0x3c01}, uint16_t{0x7bff});
  add(DType::kBf16, uint16_t{0x3f81}, uint16_t{0x7f80});
  add(DType::kF8E4M3, uint8_t{0x39}, uint8_t{0x7f});
  add(DType::kF8E5M2, uint8_t{0x3d}, uint8_t{0xfc});
  add_limits(DType::kI64, int64_t{0});
  add_limits(DType::kI32, int32_t{0});
  add_limits(DType::kI16, int16_t{0});
  add_limits(DType::kI8, int8_t{0});
  add_limits(DType::kU64, uint64_t{0});
  add_limits(DType::kU32, uint32_t{0});
  add_limits(DType::kU16, uint16_t{0});
  add_limits(DType::kU8, uint8_t{0});
  add(DType::kBool, uint8_t{1}, uint8_t{0});
  tables->Add("types", slots, {{7, row}});
}

// The saves of one trainer, each a child of the previous one.
class Trainer {
 public:
  explicit Trainer(Store* store) : store_(store) {}

  absl::Status Save(int64_t step, HeldTables* tables) {
    const std::vector<float> weights = {1, 2, 3};
    tables->state()->AddTensor("w", TensorView::Of(weights.data(), {3}));
    tables->state()->AddBlob("reader", "position 17");
    SaveSpec spec;
    spec.step = step;
    spec.parent = parent_;
    CKPTDB_ASSIGN_OR_RETURN(const SaveResult saved,
                            store_->Save(spec, *tables->state()));
    parent_ = saved.version;
    return absl::OkStatus();
  }
  // Saves both tables.
  absl::Status Save(int64_t step, const HeldTables::RowList& users,
                    std::optional<HeldTables::Change> users_change,
                    const HeldTables::RowList& items,
                    std::optional<HeldTables::Change> items_change) {
    HeldTables tables;
    tables.Add("user", UserSlots(), users, std::move(users_change));
    tables.Add("item", ItemSlots(), items, std::move(items_change));
    if (step == 100) AddTypes(&tables);
    return Save(step, &tables);
  }
  // Saves rows whose values are all `salt`.
  absl::Status SaveBig(int64_t step, int64_t first, int64_t end, float salt,
                       std::optional<HeldTables::Change> change) {
    constexpr uint32_t kWidth = 128;
    std::string row;
    for (uint32_t i = 0; i < kWidth; ++i) row += Bytes(salt);
    HeldTables::RowList rows;
    for (int64_t id = first; id < end; ++id) rows.emplace_back(id, row);
    HeldTables tables;
    tables.Add("t", {{"v", DType::kF32, kWidth}}, rows, std::move(change));
    return Save(step, &tables);
  }

 private:
  Store* const store_;
  std::optional<Version> parent_;
};

}  // namespace

absl::Status SaveStep300(Store* store) {
  SaveSpec spec;
  spec.step = 300;
  spec.world_size = 2;
  spec.slice_bounds = EvenSliceBounds(2);
  CKPTDB_ASSIGN_OR_RETURN(const Store::Attempt save, store->Begin(spec));
  std::vector<StagedRank> staged;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    CKPTDB_ASSIGN_OR_RETURN(staged.emplace_back(),
                            StageHalf(*store, save.tickets[rank], rank));
  }
  spec.ephemeral = true;
  return store->Publish(save.version, staged, spec).status();
}

absl::StatusOr<std::unique_ptr<Store>> MakeSampleStore(
    const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(auto store, OpenNew(path));
  CKPTDB_RETURN_IF_ERROR(store->SetUserMetadata({{"run", "sample\n1"}}));
  SaveSpec spec;
  spec.step = 100;
  spec.metrics = {{"auc", 0.75},
                  {"loss", std::numeric_limits<double>::quiet_NaN()}};
  spec.user_metadata = {{"note", "first\nrun"}, {"raw", "\xff\x01"}};
  CKPTDB_RETURN_IF_ERROR(SaveSample(store.get(), spec, 1000, {}));
  CKPTDB_RETURN_IF_ERROR(SaveSample(store.get(), {.step = 200}, 1200,
                                    std::vector<float>(kBigElements, 0.5F)));
  CKPTDB_RETURN_IF_ERROR(store->Pin(200));
  CKPTDB_RETURN_IF_ERROR(SaveStep300(store.get()));
  return store;
}

absl::StatusOr<std::unique_ptr<Store>> MakeDeltaStore(const std::string& path) {
  using Change = HeldTables::Change;
  CKPTDB_ASSIGN_OR_RETURN(auto store, OpenNew(path));
  Trainer trainer(store.get());
  CKPTDB_RETURN_IF_ERROR(trainer.Save(
      100, Users({-2, -1, 0, 1, 2, 3, 4, 5, 6, 7}, 1), {}, Items(3.5), {}));
  CKPTDB_RETURN_IF_ERROR(
      trainer.Save(200, Users({1, 50}, 2), Change{{-2}}, {}, Change{}));
  CKPTDB_RETURN_IF_ERROR(trainer.Save(300, Users({-2}, 3), Change{{50}},
                                      Items(30.5),
                                      Change{{}, kItemBaseReason}));
  CKPTDB_RETURN_IF_ERROR(
      trainer.Save(400, Users({1}, 2), Change{}, {{2, Bytes(20.5)}}, Change{}));
  return store;
}

absl::StatusOr<std::unique_ptr<Store>> MakeBigDeltaStore(
    const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(auto store, OpenNew(path));
  Trainer trainer(store.get());
  CKPTDB_RETURN_IF_ERROR(trainer.SaveBig(50, 9900, 9901, 1, {}));
  CKPTDB_RETURN_IF_ERROR(trainer.SaveBig(100, 0, 20'000, 2, {}));
  CKPTDB_RETURN_IF_ERROR(
      trainer.SaveBig(200, 9900, 9901, 3, HeldTables::Change{{7}}));
  return store;
}

}  // namespace ckptdb::testing
