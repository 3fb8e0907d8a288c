// SPDX-License-Identifier: Apache-2.0
// Makes the store of tests/golden/lossy_codecs in the given folder.
#include <optional>
#include <string>

#include "db/store.h"
#include "schema/status.h"
#include "tests/golden/lossy_codecs/values.h"

namespace ckptdb::testing {
namespace {

absl::Status SaveStep(Store* store, int64_t step,
                      std::optional<Version>* parent) {
  std::vector<int64_t> ids;
  std::string values;
  for (const int64_t k : LossyWrites(step)) {
    ids.push_back(k * kLossyStride);
    values += LossyRow(k, step, /*given=*/true);
  }
  const uint64_t row_bytes = values.size() / ids.size();
  const RowSource::Arrays rows(ids, {{values.data(), row_bytes},
                                     {values.data() + 32, row_bytes},
                                     {values.data() + 40, row_bytes}});
  RankState::Table table;
  table.name = "user";
  table.slots = LossySlots(step);
  table.rows = &rows;
  if (parent->has_value()) {
    table.changes = RankState::Changes{&rows, {}};
    if (step == 3) table.changes->erased = {99 * kLossyStride};
  }
  const std::vector<float> w = LossyTensor(/*given=*/true);
  const std::vector<float> b = LossyBias(/*given=*/true);
  RankState state;
  state.AddTable(table);
  state.AddTensor("w", TensorView::Of(w.data(), {kLossyTensor}), Codec::kInt8);
  state.AddTensor("b", TensorView::Of(b.data(), {5}), Codec::kBf16);
  CKPTDB_ASSIGN_OR_RETURN(
      const SaveResult saved,
      store->Save({.step = step, .parent = *parent}, state));
  *parent = saved.version;
  return absl::OkStatus();
}

}  // namespace

absl::Status MakeLossyCodecsStore(const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(const auto store, Store::Open(path));
  std::optional<Version> parent;
  for (int64_t step = 1; step <= 3; ++step) {
    CKPTDB_RETURN_IF_ERROR(SaveStep(store.get(), step, &parent));
  }
  CKPTDB_RETURN_IF_ERROR(store->Fold(3).status());
  return store->Sweep().status();
}

}  // namespace ckptdb::testing
