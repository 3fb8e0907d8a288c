// Tells a store's database from none and from another program's; internal to
// db/.
#ifndef CKPTDB_DB_ROCKS_FIND_DATABASE_H_
#define CKPTDB_DB_ROCKS_FIND_DATABASE_H_

#include <rocksdb/file_system.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

std::string WatermarkPath(absl::string_view store);

// The entry that says whose a database is, and in which format.
inline constexpr absl::string_view kStampKey = "format";
std::string StampValue();

// Returns whether a store has a database, or one whose making was interrupted.
// Returns DataLoss if its CURRENT is gone, and FailedPrecondition for a
// database of another program, which RocksDB would change and remove files of.
// Changes nothing.
absl::StatusOr<bool> FindDatabase(
    const std::shared_ptr<rocksdb::FileSystem>& files, absl::string_view store);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_FIND_DATABASE_H_
