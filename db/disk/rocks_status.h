// Converts RocksDB's statuses to absl::Status; internal to db/.
#ifndef CKPTDB_DB_DISK_ROCKS_STATUS_H_
#define CKPTDB_DB_DISK_ROCKS_STATUS_H_

#include <rocksdb/slice.h>
#include <rocksdb/status.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/schema/bytes/annotate.h"

namespace ckptdb::internal {

// Converts the outcome of a write or of a call of the file system: no space to
// ResourceExhausted, a missing path to NotFound, damage to DataLoss, no right
// to a path to PermissionDenied, a file where a folder must be, a link, a FIFO
// and a file that is too large to FailedPrecondition, a name that is too long
// to InvalidArgument, any other I/O error to Unavailable.
absl::Status FromRocks(const rocksdb::Status& status,
                       absl::string_view context);

// Converts the outcome of reading what must be there: a missing file becomes
// DataLoss too.
absl::Status FromRocksRead(const rocksdb::Status& status,
                           absl::string_view context);

// Returns whether a file that must be there is damaged or missing.
inline bool IsDamage(const rocksdb::Status& status) {
  return status.IsCorruption() || status.IsPathNotFound();
}

inline rocksdb::Slice ToSlice(absl::string_view bytes) {
  return {bytes.data(), bytes.size()};
}
inline absl::string_view FromSlice(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_ROCKS_STATUS_H_
