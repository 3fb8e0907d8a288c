// SPDX-License-Identifier: Apache-2.0
// The names of RocksDB's files; internal to db/.
#ifndef CKPTDB_DB_QUIRKS_FILE_NAMES_H_
#define CKPTDB_DB_QUIRKS_FILE_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// Returns the last component of a path.
absl::string_view FileName(absl::string_view path);

// Returns whether the path is that of an SST file.
bool IsTable(absl::string_view path);

// Returns whether the path is that of a write-ahead log.
bool IsLog(absl::string_view path);

// Returns the number in "MANIFEST-000012", and nothing for other names.
std::optional<uint64_t> ManifestNumber(absl::string_view name);

// If "12.sst" is missing, RocksDB looks for "12.ldb", LevelDB's name for a
// table. Returns the SST file's name for such a path, and nothing for other
// paths.
std::optional<std::string> TableOfLevelDbName(absl::string_view path);

// Returns whether RocksDB reads a file of this name whole into memory,
// regardless of its size.
bool IsReadWhole(absl::string_view name);

// Returns whether RocksDB creates files of this name in a database's folder.
bool IsDatabaseFile(absl::string_view name);

// Returns whether this names an unfinished OPTIONS file, such as
// "OPTIONS-000012.dbtmp". RocksDB removes the other temporary files of a
// process that died, but not these.
bool IsUnfinishedOptions(absl::string_view name);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_QUIRKS_FILE_NAMES_H_
