// SPDX-License-Identifier: Apache-2.0
// The store of a small trainer of click-through rates, with a fault to find.
#ifndef CKPTDB_TESTS_TOOLS_CTR_STORE_H_
#define CKPTDB_TESTS_TOOLS_CTR_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "db/store.h"

namespace ckptdb::testing {

// Makes a store at `path` with fixed times and values, and leaves it open,
// without a background sweep. One rank; all saves have tensors "mlp.0.weight"
// f32[16, 8] and "mlp.0.bias" f32[8], a blob "reader", metrics "auc" and
// "loss", and the reason of a manager.
//
//   step 1000  full: table "user" with slots "embedding" f32[16] and "freq"
//              u32, ids 0 to 9,999, in a data file; table "item" with a slot
//              "embedding" f32[8], ids 0 to 499; pinned
//   step 1100  delta: 200 users changed, 20 new, 17 and 4242 erased
//   step 1200  delta: 100 users changed; NaN in users 7 and 42, in the tensor
//              "mlp.0.weight" and the metric "loss"
//   step 1250  delta: 50 users changed; ephemeral
absl::StatusOr<std::unique_ptr<Store>> MakeCtrStore(const std::string& path);

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_TOOLS_CTR_STORE_H_
