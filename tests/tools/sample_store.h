// SPDX-License-Identifier: Apache-2.0
// A small store of known contents, for tests of the command:
//
//   step 100  one rank: tensor "mlp.weight" f32[3, 4], scalar "step" i64,
//             table "user" of 1,000 rows, blob "reader"; metrics, metadata
//   step 200  as step 100, with 1,200 rows and a tensor "big" f32[2359296],
//             too large to be stored inline; pinned
//   step 300  two ranks: halves of "mlp.weight" f32[6, 4], of table "user" of
//             1,500 rows; ephemeral
//
// The store has metadata: run is "sample", a newline and "1".
#ifndef CKPTDB_TESTS_TOOLS_SAMPLE_STORE_H_
#define CKPTDB_TESTS_TOOLS_SAMPLE_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/store.h"

namespace ckptdb::testing {

inline constexpr int64_t kBigElements = 2359296;  // 9 MiB of f32

absl::Status SaveStep100(Store* store);
absl::Status SaveStep200(Store* store);
absl::Status SaveStep300(Store* store);

// Makes the store at `path` with all three steps, and leaves it open, without a
// background sweep.
absl::StatusOr<std::unique_ptr<Store>> MakeSampleStore(const std::string& path);

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_TOOLS_SAMPLE_STORE_H_
