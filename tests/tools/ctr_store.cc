// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/ctr_store.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/state.h"
#include "schema/status.h"
#include "tests/db/content.h"
#include "tests/tools/held_tables.h"

namespace ckptdb::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kFirstCommit = 1'772'438'400'000'000;  // 2026-03-02 08:00 UTC

// Returns a number from -0.5 to 0.5 that looks random (SplitMix64).
float Noise(uint64_t seed) {
  uint64_t mixed = (seed + 1) * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  constexpr uint64_t kRange = 1 << 20;
  return static_cast<float>(mixed >> 44) / static_cast<float>(kRange) - 0.5F;
}

// The values of a row depend on its id and on the step that wrote it.
std::string Embedding(int64_t id, int64_t step, uint32_t width, bool nan) {
  std::string row;
  for (uint32_t i = 0; i < width; ++i) {
    const auto seed = static_cast<uint64_t>(id * 100 + i + step * 10'000'000);
    row += Bytes(nan && i == 3 ? kNaN : Noise(seed));
  }
  return row;
}

// Appends the users from `first` to before `end` in steps of `stride`.
void AddUsers(int64_t step, int64_t first, int64_t end, int64_t stride,
              HeldTables::RowList* rows, bool nan = false) {
  constexpr uint32_t kWidth = 16;
  for (int64_t id = first; id < end; id += stride) {
    const auto freq = static_cast<uint32_t>(id % 7 + step / 100 - 9);
    rows->emplace_back(id, Embedding(id, step, kWidth, nan) + Bytes(freq));
  }
}

struct CtrSave {
  int64_t step;
  double auc;
  double loss;
  HeldTables::RowList users;
  std::optional<HeldTables::Change> change;
  bool nan = false;
  bool ephemeral = false;
};

class CtrTrainer {
 public:
  explicit CtrTrainer(Store* store) : store_(store) {}

  absl::Status Save(const CtrSave& save) {
    HeldTables tables;
    AddTables(save, &tables);
    AddTensors(save, tables.state());
    reader_ = absl::StrCat("clicks-00017.parquet row ", save.step * 256);
    tables.state()->AddBlob("reader", reader_);
    CKPTDB_ASSIGN_OR_RETURN(const SaveResult saved,
                            store_->Save(SpecOf(save), *tables.state()));
    parent_ = saved.version;
    return absl::OkStatus();
  }

 private:
  // The items never change.
  static void AddTables(const CtrSave& save, HeldTables* tables) {
    constexpr uint32_t kItemWidth = 8;
    HeldTables::RowList items;
    std::optional<HeldTables::Change> no_change;
    if (save.change.has_value()) no_change = HeldTables::Change{};
    for (int64_t id = 0; id < 500 && !no_change.has_value(); ++id) {
      items.push_back({id, Embedding(id, save.step, kItemWidth, false)});
    }
    tables->Add("user",
                {{"embedding", DType::kF32, 16}, {"freq", DType::kU32, 1}},
                save.users, save.change);
    tables->Add("item", {{"embedding", DType::kF32, kItemWidth}}, items,
                no_change);
  }

  void AddTensors(const CtrSave& save, RankState* state) {
    weight_.resize(size_t{16} * 8);
    bias_.resize(8);
    const float moved = static_cast<float>(save.step - 1000) / 5000;
    for (size_t i = 0; i < weight_.size(); ++i) {
      weight_[i] = Noise(i) + moved * Noise(i + 1000);
    }
    if (save.nan) weight_[10] = kNaN;
    for (size_t i = 0; i < bias_.size(); ++i) bias_[i] = Noise(i + 500);
    state->AddTensor("mlp.0.weight", TensorView::Of(weight_.data(), {16, 8}));
    state->AddTensor("mlp.0.bias", TensorView::Of(bias_.data(), {8}));
  }

  SaveSpec SpecOf(const CtrSave& save) const {
    constexpr int64_t kMicrosOfStep = 6'000'000;
    constexpr int64_t kSaveMicros = 120'000;
    SaveSpec spec;
    spec.step = save.step;
    spec.parent = parent_;
    spec.metrics = {{"auc", save.auc}, {"loss", save.loss}};
    spec.user_metadata = {
        {"ckptdb.saved_because",
         absl::StrCat("step ", save.step, " is a multiple of ",
                      save.ephemeral ? 50 : 100)}};
    spec.ephemeral = save.ephemeral;
    spec.committed_at_micros =
        kFirstCommit + (save.step - 1000) * kMicrosOfStep;
    spec.begun_at_micros = *spec.committed_at_micros - kSaveMicros;
    return spec;
  }

  Store* const store_;
  std::optional<Version> parent_;
  std::vector<float> weight_;
  std::vector<float> bias_;
  std::string reader_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> MakeCtrStore(const std::string& path) {
  using Change = HeldTables::Change;
  StoreOptions options;
  options.background_sweep = false;
  CKPTDB_ASSIGN_OR_RETURN(auto store, Store::Open(path, options));
  CtrTrainer trainer(store.get());
  CtrSave save = {1000, 0.712, 0.523, {}, std::nullopt};
  AddUsers(1000, 0, 10'000, 1, &save.users);
  CKPTDB_RETURN_IF_ERROR(trainer.Save(save));
  save = {1100, 0.719, 0.507, {}, Change{{17, 4242}}};
  AddUsers(1100, 0, 10'000, 50, &save.users);
  AddUsers(1100, 10'000, 10'020, 1, &save.users);
  CKPTDB_RETURN_IF_ERROR(trainer.Save(save));
  save = {1200, 0.664, kNaN, {}, Change{}, true};
  AddUsers(1200, 0, 10'000, 100, &save.users);
  AddUsers(1200, 7, 43, 35, &save.users, /*nan=*/true);
  CKPTDB_RETURN_IF_ERROR(trainer.Save(save));
  save = {1250, 0.651, kNaN, {}, Change{}, true, true};
  AddUsers(1250, 10, 10'000, 200, &save.users);
  CKPTDB_RETURN_IF_ERROR(trainer.Save(save));
  CKPTDB_RETURN_IF_ERROR(store->Pin(1000));
  return store;
}

}  // namespace ckptdb::testing
