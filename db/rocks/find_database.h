// SPDX-License-Identifier: Apache-2.0
// Distinguishes a store's database from a missing one and from another
// program's; internal to db/.
#ifndef CKPTDB_DB_ROCKS_FIND_DATABASE_H_
#define CKPTDB_DB_ROCKS_FIND_DATABASE_H_

#include <rocksdb/file_system.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

std::string WatermarkPath(absl::string_view store);

// The entry that identifies a store's database and its format.
inline constexpr absl::string_view kStampKey = "format";
std::string StampValue();

// Returns whether a store has a database, or one whose creation was
// interrupted. Returns DataLoss if its CURRENT is missing, and
// FailedPrecondition for another program's database, which RocksDB would
// modify. Changes nothing.
absl::StatusOr<bool> FindDatabase(
    const std::shared_ptr<rocksdb::FileSystem>& files, absl::string_view store);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_FIND_DATABASE_H_
