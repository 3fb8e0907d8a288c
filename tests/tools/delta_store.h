// SPDX-License-Identifier: Apache-2.0
// A small store with delta steps, for tests of the command. One rank; table
// "user" has slots "embedding" f32[4] and "freq" u32, table "item" a slot
// "price" f64; all saves have a tensor "w" and a blob "reader"; all is inline.
//
//   step 100  full: "user" ids -2 to 7, "item" ids 0 to 3, and table "types"
//             with row 7, one slot per dtype
//   step 200  delta: "user" 1 changed, 50 new, -2 erased; "item" unchanged
//   step 300  delta: "user" -2 new again, 50 erased; "item" in full, although
//             its changed row 3 was given
//   step 400  delta: "user" 1 written with the same values; "item" 2 changed
#ifndef CKPTDB_TESTS_TOOLS_DELTA_STORE_H_
#define CKPTDB_TESTS_TOOLS_DELTA_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "db/store.h"

namespace ckptdb::testing {

inline constexpr char kItemBaseReason[] = "the tracker ran over its bound";

// Makes the store at `path` with all four steps, and leaves it open, without a
// background sweep.
absl::StatusOr<std::unique_ptr<Store>> MakeDeltaStore(const std::string& path);

// A store with a base run in a data file that is larger than one part of a
// fold:
// table "t" with a slot "v" f32[128].
//
//   step 50   full: row 9900
//   step 100  full: rows 0 to 19,999; row 9900 has other values
//   step 200  delta: 9900 changed, 7 erased
absl::StatusOr<std::unique_ptr<Store>> MakeBigDeltaStore(
    const std::string& path);

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_TOOLS_DELTA_STORE_H_
