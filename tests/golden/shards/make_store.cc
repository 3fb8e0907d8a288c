// SPDX-License-Identifier: Apache-2.0
// Makes the store of tests/golden/shards in the given folder.
#include <string>
#include <vector>

#include "db/store.h"
#include "schema/status.h"
#include "tests/golden/shards/values.h"

namespace ckptdb::testing {
namespace {

std::vector<int32_t> ValuesOf(const Box& box, int64_t step) {
  std::vector<int32_t> values;
  for (int64_t r = 0; r < box.shape[0]; ++r) {
    for (int64_t c = 0; c < box.shape[1]; ++c) {
      values.push_back(ShardsValue(box.offset[0] + r, box.offset[1] + c, step));
    }
  }
  return values;
}

absl::StatusOr<StagedRank> StageShards(const std::string& path,
                                       const Ticket& ticket, int64_t step) {
  std::vector<std::vector<int32_t>> values;
  RankState state;
  for (const Shape& shape : {kShardsSmall, kShardsLarge}) {
    for (const Box& box : ShardsBoxes(shape, ticket.rank(), step)) {
      values.push_back(ValuesOf(box, step));
      TensorView view = TensorView::Of(values.back().data(), box.shape);
      view.global_shape = shape;
      view.offset = box.offset;
      state.AddTensor(shape == kShardsSmall ? "small" : "large", view,
                      Codec::kShuffleLz4);
    }
  }
  return Stage(path, ticket, state);
}

}  // namespace

absl::Status MakeShardsStore(const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(const auto store, Store::Open(path));
  for (int64_t step = 1; step <= 3; ++step) {
    CKPTDB_ASSIGN_OR_RETURN(const Store::Attempt save,
                            store->Begin({.step = step, .world_size = 2}));
    std::vector<StagedRank> staged;
    for (const Ticket& ticket : save.tickets) {
      CKPTDB_ASSIGN_OR_RETURN(staged.emplace_back(),
                              StageShards(path, ticket, step));
    }
    CKPTDB_RETURN_IF_ERROR(store->Publish(save.version, staged).status());
  }
  return store->Sweep().status();
}

}  // namespace ckptdb::testing
