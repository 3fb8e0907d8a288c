// SPDX-License-Identifier: Apache-2.0
// Small stores of known contents, for tests of the command. Each Make function
// makes a store at `path`, and leaves it open, without a background sweep.
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

// Full steps. The store has metadata: run is "sample", a newline and "1".
//
//   step 100  one rank: tensor "mlp.weight" f32[3, 4], scalar "step" i64,
//             table "user" of 1,000 rows, blob "reader"; metrics, metadata
//   step 200  as step 100, with 1,200 rows and a tensor "big" f32[2359296],
//             too large to be stored inline; pinned
//   step 300  two ranks: halves of "mlp.weight" f32[6, 4], of table "user" of
//             1,500 rows; ephemeral
absl::StatusOr<std::unique_ptr<Store>> MakeSampleStore(const std::string& path);
absl::Status SaveStep300(Store* store);

inline constexpr char kItemBaseReason[] = "the tracker ran over its bound";

// Delta steps. One rank; table "user" has slots "embedding" f32[4] and "freq"
// u32, table "item" a slot "price" f64; all saves have a tensor "w" and a blob
// "reader"; all is inline.
//
//   step 100  full: "user" ids -2 to 7, "item" ids 0 to 3, and table "types"
//             with row 7, one slot per dtype
//   step 200  delta: "user" 1 changed, 50 new, -2 erased; "item" unchanged
//   step 300  delta: "user" -2 new again, 50 erased; "item" in full, although
//             its changed row 3 was given
//   step 400  delta: "user" 1 written with the same values; "item" 2 changed
absl::StatusOr<std::unique_ptr<Store>> MakeDeltaStore(const std::string& path);

// A base run in a data file that is larger than one part of a fold: table "t"
// with a slot "v" f32[128].
//
//   step 50   full: row 9900
//   step 100  full: rows 0 to 19,999; row 9900 has other values
//   step 200  delta: 9900 changed, 7 erased
absl::StatusOr<std::unique_ptr<Store>> MakeBigDeltaStore(
    const std::string& path);

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_TOOLS_SAMPLE_STORE_H_
