// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/sample_store.h"

#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "db/state.h"
#include "schema/status.h"

namespace ckptdb::testing {
namespace {

constexpr uint32_t kSampleWidth = 16;

// A table "user" and a tensor "mlp.weight", with their memory.
class Model {
 public:
  explicit Model(std::vector<int64_t> ids)
      : ids_(std::move(ids)),
        embedding_(ids_.size() * kSampleWidth),
        freq_(ids_.size(), 7),
        rows_(ids_, {{embedding_.data(), kSampleWidth * sizeof(float)},
                     {freq_.data(), sizeof(uint32_t)}}) {
    std::iota(embedding_.begin(), embedding_.end(), 0.25F);
    std::iota(weight_.begin(), weight_.end(), 1.5F);
  }

  const float* weight() const { return weight_.data(); }

  void AddTable(RankState* state) const {
    state->AddTable("user",
                    {{"embedding", DType::kF32, kSampleWidth},
                     {"freq", DType::kU32, 1, Codec::kLz4}},
                    &rows_);
  }
  void AddDense(RankState* state) const {
    state->AddTensor("mlp.weight", TensorView::Of(weight(), {3, 4}));
    state->AddTensor("step", TensorView::Of(&step_, {}));
    state->AddBlob("reader", "position 17");
  }

 private:
  const std::vector<int64_t> ids_;
  std::vector<float> embedding_;
  std::vector<uint32_t> freq_;
  std::vector<float> weight_ = std::vector<float>(12);
  int64_t step_ = 100;
  RowSource::Arrays rows_;
};

// The ids from -rows / 2 on that are in `slices`.
std::vector<int64_t> Ids(int64_t rows, const SliceRange& slices = {}) {
  std::vector<int64_t> ids;
  for (int64_t id = -rows / 2; id < rows - rows / 2; ++id) {
    if (slices.Contains(SliceOf(id, SliceHash::kModulo))) ids.push_back(id);
  }
  return ids;
}

absl::StatusOr<StagedRank> StageHalf(const Store& store, const Ticket& ticket,
                                     uint32_t rank) {
  const std::vector<uint32_t> bounds = EvenSliceBounds(2);
  const Model model(Ids(1500, {bounds[rank], bounds[rank + 1]}));
  RankState state;
  model.AddTable(&state);
  state.AddTensor(
      "mlp.weight",
      {DType::kF32, {3, 4}, model.weight(), {6, 4}, {rank == 0 ? 0 : 3, 0}});
  return Stage(store.path(), ticket, state);
}

}  // namespace

absl::Status SaveStep100(Store* store) {
  const Model model(Ids(1000));
  RankState state;
  model.AddTable(&state);
  model.AddDense(&state);
  PublishSpec publish;
  publish.metrics = {{"auc", 0.75},
                     {"loss", std::numeric_limits<double>::quiet_NaN()}};
  publish.user_metadata = {{"note", "first\nrun"}, {"raw", "\xff\x01"}};
  return store->Save({.step = 100}, state, publish).status();
}

absl::Status SaveStep200(Store* store) {
  const Model model(Ids(1200));
  const std::vector<float> big(kBigElements, 0.5F);
  RankState state;
  model.AddTable(&state);
  model.AddDense(&state);
  state.AddTensor("big", TensorView::Of(big.data(), {kBigElements}));
  CKPTDB_RETURN_IF_ERROR(store->Save({.step = 200}, state).status());
  return store->Pin(200);
}

absl::Status SaveStep300(Store* store) {
  SaveSpec spec;
  spec.step = 300;
  spec.world_size = 2;
  spec.slice_bounds = EvenSliceBounds(2);
  CKPTDB_ASSIGN_OR_RETURN(const Store::Attempt save, store->Begin(spec));
  std::vector<StagedRank> staged;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    CKPTDB_ASSIGN_OR_RETURN(StagedRank half,
                            StageHalf(*store, save.tickets[rank], rank));
    staged.push_back(std::move(half));
  }
  PublishSpec publish;
  publish.ephemeral = true;
  return store->Publish(save.version, staged, publish).status();
}

absl::StatusOr<std::unique_ptr<Store>> MakeSampleStore(
    const std::string& path) {
  StoreOptions options;
  options.background_sweep = false;
  CKPTDB_ASSIGN_OR_RETURN(auto store, Store::Open(path, options));
  CKPTDB_RETURN_IF_ERROR(store->SetUserMetadata({{"run", "sample\n1"}}));
  CKPTDB_RETURN_IF_ERROR(SaveStep100(store.get()));
  CKPTDB_RETURN_IF_ERROR(SaveStep200(store.get()));
  CKPTDB_RETURN_IF_ERROR(SaveStep300(store.get()));
  return store;
}

}  // namespace ckptdb::testing
