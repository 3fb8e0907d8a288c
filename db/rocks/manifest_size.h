// How large a MANIFEST becomes, and what an opening writes; internal to db/.
//
// Each save adds to the MANIFEST, which readers read from its beginning and an
// opening writes anew. So it begins anew by itself, with all that it has come
// to, when it has grown to several times that.
#ifndef CKPTDB_DB_ROCKS_MANIFEST_SIZE_H_
#define CKPTDB_DB_ROCKS_MANIFEST_SIZE_H_

#include <rocksdb/file_system.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace ckptdb::internal {

// Returns the bytes at which the MANIFEST of the database at `path` begins
// anew.
absl::StatusOr<uint64_t> MaxManifestBytes(rocksdb::FileSystem* files,
                                          const std::string& path);

// What opening a database for writing writes, at most, also one that is not
// there yet. A file system that has less room would leave the opening half
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
