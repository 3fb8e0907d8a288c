// From RocksDB's statuses to absl::Status; internal to db/.
#ifndef CKPTDB_DB_DISK_ROCKS_STATUS_H_
#define CKPTDB_DB_DISK_ROCKS_STATUS_H_

#include <rocksdb/slice.h>
#include <rocksdb/status.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/schema/annotate.h"

namespace ckptdb::internal {

// Of a write, or of the file system. No space is ResourceExhausted, a missing
// path NotFound, damage DataLoss, no right to a path PermissionDenied, a file
// where a folder must be, a link, a FIFO and a file that is too large
// FailedPrecondition, a name that is too long InvalidArgument, any other I/O
// error Unavailable.
absl::Status FromRocks(const rocksdb::Status& status,
                       absl::string_view context);

// Of reading what must be there: a missing file is DataLoss too.
absl::Status FromRocksRead(const rocksdb::Status& status,
                           absl::string_view context);

// Whether a file that must be there is damaged or gone.
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
