// SPDX-License-Identifier: Apache-2.0
#include "bench/many_steps.h"

#include <memory>
#include <vector>

#include "bench/payload.h"
#include "db/store.h"
#include "schema/status.h"

namespace ckptdb::bench {

absl::Status BuildSteps(const std::string& path, uint64_t steps,
                        uint64_t seed) {
  constexpr uint64_t kRows = 4;
  CKPTDB_ASSIGN_OR_RETURN(const auto table, Table::Make(kRows, seed));
  std::vector<uint64_t> tensor(kManyStepsTensorElements);
  CKPTDB_ASSIGN_OR_RETURN(const auto store, Store::Open(path));
  for (uint64_t step = 0; step < steps; ++step) {
    tensor[0] = step;
    RankState state;
    state.AddTensor("w",
                    TensorView::Of(tensor.data(), {kManyStepsTensorElements}));
    table->AddTo(&state);
    SaveSpec spec;
    spec.step = static_cast<int64_t>(step);
    PublishSpec publish;
    publish.metrics["auc"] =
        static_cast<double>(step) / static_cast<double>(steps);
    CKPTDB_RETURN_IF_ERROR(store->Save(spec, state, publish).status());
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::bench
