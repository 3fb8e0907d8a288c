// The names that RocksDB gives to its files; internal to db/.
#ifndef CKPTDB_DB_QUIRKS_FILE_NAMES_H_
#define CKPTDB_DB_QUIRKS_FILE_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace ckptdb::internal {

// The last component of a path.
absl::string_view FileName(absl::string_view path);

// Returns whether the path is that of an SST file.
bool IsTable(absl::string_view path);

// Returns whether the path is that of a write-ahead log.
bool IsLog(absl::string_view path);

// Returns the number of "MANIFEST-000012", and nothing for other names.
std::optional<uint64_t> ManifestNumber(absl::string_view name);

// RocksDB looks for "12.ldb", as LevelDB named its tables, when "12.sst" is
// missing. Returns the name of the SST file for such a path, and nothing for
// other paths.
std::optional<std::string> TableOfLevelDbName(absl::string_view path);

// Returns whether RocksDB reads a file of this name as a whole into memory,
// however large it is.
bool IsReadWhole(absl::string_view name);

// Returns whether RocksDB makes files of this name in the folder of a database.
bool IsDatabaseFile(absl::string_view name);

// Returns whether the name is that of an OPTIONS file which was not finished,
// such as "OPTIONS-000012.dbtmp". RocksDB removes the other temporary files
// that a process left when it died, but not these.
bool IsUnfinishedOptions(absl::string_view name);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_QUIRKS_FILE_NAMES_H_
