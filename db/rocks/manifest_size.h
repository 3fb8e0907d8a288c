// SPDX-License-Identifier: Apache-2.0
// Limits the size of the MANIFEST, and computes the bytes that an open writes;
// internal to db/.
//
// Each save adds to the MANIFEST, which readers read from its beginning and an
// open rewrites. So a new MANIFEST with only the current state begins when it
// has grown to several times that state.
#ifndef CKPTDB_DB_ROCKS_MANIFEST_SIZE_H_
#define CKPTDB_DB_ROCKS_MANIFEST_SIZE_H_

#include <rocksdb/file_system.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace ckptdb::internal {

// Returns the size in bytes at which the database at `path` begins a new
// MANIFEST.
absl::StatusOr<uint64_t> MaxManifestBytes(rocksdb::FileSystem* files,
                                          const std::string& path);

// An upper bound of the bytes that opening a database for writing writes, even
// one that does not exist yet. With less space the open would be left half
// done.
struct OpeningBytes {
  uint64_t bytes = 0;
  // The file that accounts for most of it, and its size; empty if there is
  // none.
  std::string largest_file;
  uint64_t largest_bytes = 0;
};
absl::StatusOr<OpeningBytes> BytesToOpen(rocksdb::FileSystem* files,
                                         const std::string& path);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_MANIFEST_SIZE_H_
