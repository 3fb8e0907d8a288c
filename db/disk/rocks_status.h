// SPDX-License-Identifier: Apache-2.0
// Converts RocksDB's statuses to absl::Status; internal to db/.
#ifndef CKPTDB_DB_DISK_ROCKS_STATUS_H_
#define CKPTDB_DB_DISK_ROCKS_STATUS_H_

#include <rocksdb/slice.h>
#include <rocksdb/status.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/bytes/annotate.h"

namespace ckptdb::internal {

// Converts the status of a write or of a file system call: no space becomes
// ResourceExhausted; a missing path NotFound; damage DataLoss; a forbidden path
// PermissionDenied; a file in place of a folder, a link, a FIFO and an
// oversized file FailedPrecondition; an overlong name InvalidArgument; any
// other I/O error Unavailable.
absl::Status FromRocks(const rocksdb::Status& status,
                       absl::string_view context);

// Converts the status of reading data that must exist: a missing file becomes
// DataLoss, too.
absl::Status FromRocksRead(const rocksdb::Status& status,
                           absl::string_view context);

// Returns whether a file that must exist is damaged or missing.
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
