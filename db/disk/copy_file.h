// SPDX-License-Identifier: Apache-2.0
// Copies, links and hashes large files; internal to db/.
#ifndef CKPTDB_DB_DISK_COPY_FILE_H_
#define CKPTDB_DB_DISK_COPY_FILE_H_

#include <rocksdb/file_system.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// Called with the bytes read since the last call; an error ends the reading.
using OnBytes = std::function<absl::Status(uint64_t bytes)>;

struct CopiedBytes {
  uint64_t bytes = 0;
  uint64_t hash = 0;  // XXH3-64
};

// The end of the name of a file that is not copied completely.
inline constexpr absl::string_view kCopyingSuffix = ".copying";

// Copies the first `max_bytes` bytes of a file to `to`, which is replaced
// atomically, and is durable unless `sync` is false. Returns NotFound if `from`
// does not exist.
inline constexpr uint64_t kAllBytes = std::numeric_limits<uint64_t>::max();
absl::StatusOr<CopiedBytes> CopyFile(rocksdb::FileSystem* files,
                                     const std::string& from,
                                     const std::string& to, uint64_t max_bytes,
                                     const OnBytes& on_bytes, bool sync = true);

// Makes the bytes of a file durable.
absl::Status SyncFile(rocksdb::FileSystem* files, const std::string& path);

// Returns the size and hash of a file.
absl::StatusOr<CopiedBytes> HashFile(rocksdb::FileSystem* files,
                                     const std::string& path,
                                     const OnBytes& on_bytes);

// Makes `to` another name of the file `from`, in place of what is there.
absl::Status LinkFile(rocksdb::FileSystem* files, const std::string& from,
                      const std::string& to);

// Exchanges two folders of the machine atomically. Returns Unimplemented if the
// file system cannot.
absl::Status ExchangeFolders(const std::string& one, const std::string& other);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_DISK_COPY_FILE_H_
