// A small store of increments, for tests of the command. One rank; table
// "user" has slots "embedding" f32[4] and "freq" u32, table "item" a slot
// "price" f64, all saves have a tensor "w" and a blob "reader", all is inline.
//
//   step 100  full: "user" ids -2 to 7, "item" ids 0 to 3, and table "types"
//             with the row 7, one slot a dtype
//   step 200  delta: "user" 1 changed, 50 new, -2 erased; nothing of "item"
//   step 300  delta: "user" -2 back, 50 erased; "item" whole, although its
//             changes were given: 3 changed
//   step 400  delta: "user" 1 written as it was; "item" 2 changed
#ifndef CKPTDB_TESTS_TOOLS_DELTA_STORE_H_
#define CKPTDB_TESTS_TOOLS_DELTA_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ckptdb/db/store.h"

namespace ckptdb::testing {

inline constexpr char kWhyItemIsWhole[] = "the tracker ran over its bound";

// Makes the store at `path` with all four steps, and leaves it open. Nothing
// is swept in the background.
absl::StatusOr<std::unique_ptr<Store>> MakeDeltaStore(const std::string& path);

// One with a base run in a data file, more than a fold does at once: table "t"
// with a slot "v" f32[128].
//
//   step 50   full: row 9900
//   step 100  full: rows 0 to 19,999; 9900 is another
//   step 200  delta: 9900 changed, 7 erased
absl::StatusOr<std::unique_ptr<Store>> MakeBigDeltaStore(
    const std::string& path);

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_TOOLS_DELTA_STORE_H_
